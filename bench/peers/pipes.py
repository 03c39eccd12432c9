"""psql as in a script: COPY into COPY for a table, and COPY, COPY and one MERGE for each DN.

Timed: from the start of the first psql to the end of the last. The MERGE applies a key's last event, so it is correct
only if no key changes, as in this workload. It has no fence, and a second run would fail or repeat all the work.
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
    """Copy the publisher's whole table through two psql processes; return the seconds."""
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
    """Return a SELECT of one DN's binlog rows since the start of the round."""
    return (
        f"SELECT gs_binlog_sync_point, gs_binlog_event_sequence, gs_binlog_event_type, {', '.join(columns)}"
        f" FROM pgxc_get_binlog_changes('{TABLE}', {span.node}, {span.after}, {span.latest + 1})"
        f" WHERE gs_binlog_sync_point >= {span.after} AND gs_binlog_sync_point <= {span.latest}"
    )


ORIENT = f"DO $$BEGIN PERFORM pgxc_get_binlog_sync_point('{TABLE}', '{RESERVED}', false, 0); END$$"
"""The stand-in has the columns of one table at a time: the table whose sync points were queried last."""


@dataclass(frozen=True, slots=True)
class MergePipes:
    """One pipe per DN, all at the same time; implements `bench.peers.peer.Peer`."""

    name: str = "merge_pipes"
    label: str = "four psql pipes, COPY and one MERGE"
    wanted: float = 1.2

    def reserve(self, rig: Rig, round_: int) -> None:
        """Do nothing: the rig's own slot retains the changes."""

    def catch_up(self, rig: Rig, database: str, round_: int) -> Caught:
        """Run all pipes; timed from the first start to the last end."""
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
        """Do nothing: there is nothing to remove."""


def _piped(stack: ExitStack, rig: Rig, reading: tuple[str, list[str]], writing: tuple[str, list[str]]) -> None:
    """Start psql into psql; on exit, the stack waits for both and raises RuntimeError if one failed."""
    source = stack.enter_context(_psql(reading[1], environment(rig.source, reading[0]), stdout=subprocess.PIPE))
    sink = stack.enter_context(_psql(writing[1], environment(rig.sink, writing[0]), stdin=source.stdout))
    assert source.stdout is not None
    source.stdout.close()  # otherwise a writer that ends early would leave the reader waiting
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
