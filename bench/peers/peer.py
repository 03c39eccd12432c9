"""What the benchmark asks of everyone that is run beside us: the same changes, into a table of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from bench.rig import Rig
from slotkeeper.demo.postgres import Server

LIMIT = 900.0
"""Seconds that one catch-up may take."""
POLL = 0.01


class NotHere(Exception):
    """A peer cannot be run on this machine; the text says why."""


@dataclass(frozen=True, slots=True)
class Caught:
    """Seconds until all of the round was there, and the CPU seconds of the peer's own programs, where they say so.

    None: what the system booked for our ended children in that time.
    """

    seconds: float
    program_cpu: float | None = None


class Peer(Protocol):
    """One way of others; `wanted` is how many times as fast ours is to be."""

    @property
    def name(self) -> str:
        """As the result calls it."""

    @property
    def label(self) -> str:
        """As the table calls it."""

    @property
    def wanted(self) -> float:
        """What ours is to be at least, as a ratio."""

    def reserve(self, rig: Rig, round_: int) -> None:
        """Before the round's changes: whatever has to be there so that they wait for it."""

    def catch_up(self, rig: Rig, database: str, round_: int) -> Caught:
        """Bring the round's changes into `ods.orders` of that sink database, which holds what was there before them."""

    def release(self, rig: Rig, database: str, round_: int) -> None:
        """After it, or in its place: end what `reserve` and `catch_up` left."""


def environment(server: Server, database: str) -> Mapping[str, str]:
    """What psql needs to connect, beside our own environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    password = server.password_file.read_text(encoding="utf-8").strip()
    where = {"PGHOST": server.host, "PGPORT": str(server.port), "PGUSER": server.superuser, "PGDATABASE": database}
    return {**kept, **where, "PGPASSWORD": password, "PGSSLMODE": "disable", "PGCLIENTENCODING": "UTF8"}


def line(server: Server, database: str) -> str:
    """The same as a connection string."""
    password = server.password_file.read_text(encoding="utf-8").strip()
    return f"host={server.host} port={server.port} dbname={database} user={server.superuser} password={password}"
