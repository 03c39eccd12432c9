"""psql as a script would use it: COPY into COPY for a table, and COPY, COPY and one MERGE for each DN.

Timed: from the start of the first psql to the end of the last. The MERGE takes a key's last event, so it is right only
where no key changes, as in this work; nothing is fenced, and a second run would fail or do it all again.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from bench.peers.peer import LIMIT, Caught, environment
from bench.rig import PUBLISHER, RESERVED, WAREHOUSE, Rig, Span
from slotkeeper.demo.binaries import find_binaries
from slotkeeper.demo.orders import COLUMNS, DDL_COLUMNS, KEY, TABLE

_NAMES = [name for name, _ in COLUMNS]
_OTHERS = [name for name in _NAMES if name not in KEY]
_MERGE = f"""
MERGE INTO {TABLE} t USING (
  SELECT DISTINCT ON ({", ".join(KEY)}) * FROM stage WHERE kind <> 'B' ORDER BY {", ".join(KEY)}, point DESC, seq DESC
) s ON {" AND ".join(f"t.{name} = s.{name}" for name in KEY)}
WHEN MATCHED AND s.kind = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET {", ".join(f"{name} = s.{name}" for name in _OTHERS)}
WHEN NOT MATCHED AND s.kind <> 'd' THEN
  INSERT ({", ".join(_NAMES)}) VALUES ({", ".join(f"s.{name}" for name in _NAMES)})
"""


def copy(rig: Rig, database: str) -> float:
    """Copy the publisher's whole table through two psql processes; seconds."""
    began = time.monotonic()
    with ExitStack() as stack:
        _piped(
            stack,
            rig,
            (PUBLISHER, [f"COPY {TABLE} TO STDOUT"]),
            (database, [f"COPY {TABLE} FROM STDIN"]),
        )
    return time.monotonic() - began


def changes_of(span: Span, columns: list[str]) -> str:
    """The rows of one DN's binlog since the round began, as SELECT."""
    return (
        f"SELECT gs_binlog_sync_point, gs_binlog_event_sequence, gs_binlog_event_type, {', '.join(columns)}"
        f" FROM pgxc_get_binlog_changes('{TABLE}', {span.node}, {span.after}, {span.latest + 1})"
        f" WHERE gs_binlog_sync_point >= {span.after} AND gs_binlog_sync_point <= {span.latest}"
    )


ORIENT = f"DO $$BEGIN PERFORM pgxc_get_binlog_sync_point('{TABLE}', '{RESERVED}', false, 0); END$$"
"""The stand-in has the columns of one table at a time: of the one that was asked for its points last."""


@dataclass(frozen=True, slots=True)
class MergePipes:
    """A pipe for each DN, all at once; implements `bench.peers.peer.Peer`."""

    name: str = "merge_pipes"
    label: str = "four psql pipes, COPY and one MERGE"
    wanted: float = 1.2

    def reserve(self, rig: Rig, round_: int) -> None:
        """The rig's own slot makes the changes wait."""

    def catch_up(self, rig: Rig, database: str, round_: int) -> Caught:
        """All pipes, from the first start to the last end."""
        stage = (
            f'CREATE TEMP TABLE stage (point bigint, seq bigint, kind "char", {DDL_COLUMNS.replace(" NOT NULL", "")})'
        )
        began = time.monotonic()
        with ExitStack() as stack:
            for span in rig.spans():
                reading = [ORIENT, f"COPY ({changes_of(span, _NAMES)}) TO STDOUT"]
                _piped(
                    stack,
                    rig,
                    (WAREHOUSE, reading),
                    (database, ["BEGIN", stage, "COPY stage FROM STDIN", _MERGE, "COMMIT"]),
                )
        return Caught(time.monotonic() - began)

    def release(self, rig: Rig, database: str, round_: int) -> None:
        """Nothing is left."""


def _piped(stack: ExitStack, rig: Rig, reading: tuple[str, list[str]], writing: tuple[str, list[str]]) -> None:
    """Start psql into psql; the stack waits for both and raises where one failed."""
    source = stack.enter_context(_psql(reading[1], environment(rig.source, reading[0]), stdout=subprocess.PIPE))
    sink = stack.enter_context(_psql(writing[1], environment(rig.sink, writing[0]), stdin=source.stdout))
    assert source.stdout is not None
    source.stdout.close()  # else a writer that ends early would leave the reader waiting
    stack.callback(_ended, source, sink)


def _psql(commands: list[str], env: Mapping[str, str], **streams: Any) -> subprocess.Popen[bytes]:
    words = [find_binaries().program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    for command in commands:
        words += ["-c", command]
    return subprocess.Popen(words, env=env, **streams)


def _ended(*both: subprocess.Popen[bytes]) -> None:
    codes = [one.wait(LIMIT) for one in both]
    if any(codes):
        raise RuntimeError("psql failed")
