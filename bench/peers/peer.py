"""The interface of every peer: it applies the same changes to its own table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from bench.rig import Rig
from slotkeeper.demo.postgres import Server

LIMIT = 900.0
"""Maximum seconds of one catch-up."""
POLL = 0.01


class NotHere(Exception):
    """A peer cannot run on this host; the message states the reason."""


@dataclass(frozen=True, slots=True)
class Caught:
    """Seconds until the whole round was applied, and the CPU seconds that the peer's own programs report.

    `program_cpu` is None if they report none: then the CPU of this process's ended children in that time counts.
    """

    seconds: float
    program_cpu: float | None = None


class Peer(Protocol):
    """Another replication method; `wanted` is the desired ratio of Slotkeeper's rate to the peer's."""

    @property
    def name(self) -> str:
        """The peer's name in the result."""

    @property
    def label(self) -> str:
        """The peer's label in the table."""

    @property
    def wanted(self) -> float:
        """The desired minimum ratio of Slotkeeper's rate to the peer's."""

    def reserve(self, rig: Rig, round_: int) -> None:
        """Prepare for the round before its changes, so that the changes are retained for this peer."""

    def catch_up(self, rig: Rig, database: str, round_: int) -> Caught:
        """Apply the round's changes to `ods.orders` of that sink database, which already has the rows from
        before them.
        """

    def release(self, rig: Rig, database: str, round_: int) -> None:
        """Remove everything that `reserve` and `catch_up` left; called after `catch_up`, or instead of it."""


def environment(server: Server, database: str) -> Mapping[str, str]:
    """Return the environment with which psql connects, including this process's own variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    password = server.password_file.read_text(encoding="utf-8").strip()
    where = {"PGHOST": server.host, "PGPORT": str(server.port), "PGUSER": server.superuser, "PGDATABASE": database}
    return {**kept, **where, "PGPASSWORD": password, "PGSSLMODE": "disable", "PGCLIENTENCODING": "UTF8"}


def line(server: Server, database: str) -> str:
    """Return the connection string of a database."""
    password = server.password_file.read_text(encoding="utf-8").strip()
    return f"host={server.host} port={server.port} dbname={database} user={server.superuser} password={password}"
