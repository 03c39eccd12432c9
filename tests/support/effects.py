"""A separate target for the sink's effects: steps are written by `PostgresSink`, rows are read in the oracle's form.

There is no source and no job: the tests check the effect of a step's events on the target.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, BinaryIO

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.columns import added
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions, SoftDelete
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.engine.worker.columns import RowPlan, with_columns
from slotkeeper.core.errors import RowRefused
from slotkeeper.core.ports.driver import Runner
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.postgres.progress.store import PostgresProgress
from slotkeeper.core.sinks.postgres.session import DIALECTS, SinkSession
from slotkeeper.core.sinks.postgres.write.sink import PostgresSink
from slotkeeper.core.sinks.postgres.write.statements import TargetTable
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition
from slotkeeper.demo.postgres import Server
from tests.support.oracle import COLUMNS, Accepts, Event, Image, Key, copy_text

NAMES = {"h": "Key H", "k": "k", "a": 'A "a"', "b": "select", "tags": "tags", "j": "j"}
"""The target's names of the mirrored columns, some of them quoted, mixed-case or reserved."""
OTHERS: Mapping[str, str] = {"own": "7", "Own too": "kept"}
"""Columns that only the target has, with their defaults."""
TYPES = {"h": "integer", "k": "integer", "a": "integer", "b": "text", "tags": "integer[]", "j": "json"}


SOFT = ChannelSpec("mart.soft", "mart.soft", soft_delete=SoftDelete(), synced_at="synced_at")


class Effects:
    """One target table with or without its own columns, in a database that the caller made."""

    def __init__(
        self, server: Server, database: str, name: str, others: bool, kind: str = "postgres", soft: bool = False
    ) -> None:
        endpoint = replace(server.endpoint(database), name="mart")
        self.session = SinkSession(endpoint, resolve(endpoint.password), "slotkeeper/effects/1", kind=kind)
        self.others = OTHERS if others else {}
        mirrored, key = tuple(NAMES[one] for one in COLUMNS), (NAMES["h"], NAMES["k"])
        types = tuple(TYPES[one] for one in COLUMNS)
        self.channel = SOFT if soft else ChannelSpec(name, name)
        self.now = datetime(2026, 1, 1)
        more = added(self.channel)
        mirrored, types = (*mirrored, *(one.name for one in more)), (*types, *(one.type for one in more))
        self.table = TargetTable(
            *(name, mirrored, key, tuple(self.others), types, DIALECTS[kind]),
            strict_key=True,
            marks=self.channel.marks,
        )
        self._watch = server.connect(database)
        columns = [f"{_quoted(NAMES[one])} {TYPES[one]}" for one in COLUMNS]
        columns += [f"{one.name} {one.type}" for one in more]
        columns += [f"{_quoted(one)} text DEFAULT '{default}'" for one, default in self.others.items()]
        schema, _, table = name.partition(".")
        self._name = f"{_quoted(schema)}.{_quoted(table)}"
        primary = f"PRIMARY KEY ({_quoted(NAMES['k'])}, {_quoted(NAMES['h'])})"
        with self._watch.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(schema)}")
            cursor.execute(f"CREATE TABLE {self._name} ({', '.join([*columns, primary])})")
        self.lane = LaneKey("dws1", name, "slot", "dn_1")
        self._progress(name)

    def _progress(self, target: str) -> None:
        runner = Runner("effects", "run", "host", "user", 1)
        self._store = progress = PostgresProgress(self.session, POSITIONS, self.lane, runner, quarantines=True)
        progress.create_tables()
        begun = ProgressRow(
            self.lane, 1, target, DwsPosition(0), 0, 0, LaneState.RUNNING, None, None, "channel", "fingerprint", None
        )
        progress.insert([begun])
        self.epoch = progress.raise_epoch()
        self.position = DwsPosition(0)

    def fill(self, rows: Iterable[Image]) -> None:
        """Reset the target's rows; its own columns get a value that is not their default."""
        names = [*COLUMNS, *self.others]
        spelled = ", ".join(_quoted(NAMES.get(one, one)) for one in names)
        lines = copy_lines([{**row, **dict.fromkeys(self.others, "before")} for row in rows], names)
        with self._watch.cursor() as cursor:
            cursor.execute("SET synchronous_commit = off")
            cursor.execute(f"DELETE FROM {self._name}")
            cursor.copy_expert(f"COPY {self._name} ({spelled}) FROM STDIN", io.BytesIO(lines))

    def sink(self, options: SinkOptions, copying: str = "direct") -> PostgresSink:
        """A worker's sink with these options, in a separate session."""
        self.session.close()
        return PostgresSink(self.session, POSITIONS, self.table, options, copying)

    def step(self, sink: PostgresSink, events: list[Event], accepts: Accepts | None = None) -> None:
        """Apply one step: stage, fence, apply, commit; in isolation if it has a bad row and bad rows are
        quarantined."""
        text = copy_text(events, accepts)
        try:
            self._take(sink, sink.stage, text)
        except RowRefused:
            if not sink.options.quarantines:
                raise
            self._take(sink, sink.stage_isolating, text)

    def _take(self, sink: PostgresSink, stage: Callable[[BinaryIO], int], text: bytes) -> None:
        self.now += timedelta(seconds=1)
        given = io.BytesIO()
        with_columns(given, RowPlan(self.channel), self.now, copying=False).write(text)
        rows = stage(io.BytesIO(given.getvalue()))
        assert rows == text.count(b"\n")
        new = DwsPosition(self.position.point + 1)
        assert sink.commit(self.lane, self.epoch, self.position, new, rows)
        self.position = new

    def chunk(self, sink: PostgresSink, rows: Iterable[Image]) -> None:
        """Apply one chunk of a copy: planned, claimed, written, committed; steps may follow, which cannot commit during
        a copy."""
        planned(self._store, self.epoch)
        text = copy_lines(rows, list(COLUMNS))
        try:
            assert sink.copy_chunk(self.lane, self.epoch, 0, io.BytesIO(text)) == text.count(b"\n")
            sink.finish_chunk()
        finally:
            self.session.rollback()
            self._store.set_state(Turn(self.epoch, 1, (LaneState.COPYING,), LaneState.RUNNING))

    def rows(self) -> dict[Key, dict[str, Any]]:
        """The target's rows, with values in the oracle's form."""
        names = [*COLUMNS, *self.others, *self.channel.marks]
        spelled = ", ".join(_quoted(NAMES.get(one, one)) + _cast(one) for one in names)
        with self._watch.cursor() as cursor:
            cursor.execute(f"SELECT {spelled} FROM {self._name}")
            found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return {(row["h"], row["k"]): row for row in found}

    def close(self) -> None:
        self.session.close()
        self._watch.close()


def planned(store: PostgresProgress, epoch: int) -> None:
    """Start a copy and plan one chunk, in any earlier state of the only lane."""
    turn = Turn(epoch, 1, tuple(LaneState), LaneState.COPYING)
    store.begin_copy(turn, [Chunk(0, (), ("0",))], "direct", lambda cursor: None)


def copy_lines(rows: Iterable[Mapping[str, Any]], names: list[str]) -> bytes:
    changed = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n"})
    lines = (
        "\t".join("\\N" if row[one] is None else str(row[one]).translate(changed) for one in names) for row in rows
    )
    return "".join(line + "\n" for line in lines).encode()


def _cast(name: str) -> str:
    return "" if name in ("h", "k", "a") else "::text"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def described(events: Iterable[Event]) -> str:
    """Return events on one line each, for a failure's message."""
    return "\n".join(
        f"  {one.point}/{one.sequence} {one.kind} {one.key}" + (f" {dict(one.image)}" if one.image else "")
        for one in events
    )
