"""A target with soft deletes ends as a model predicts, for any history, split anywhere, by every kind of step.

The model: an I or a U writes the row and clears its mark; a delete, a rejected image or the old half of a changed key
marks the row that the target has, unless it is marked already. A key that the target never had stays absent.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write import routing, small_step
from slotkeeper.core.sinks.postgres.write.optimistic import Lane, Taken
from slotkeeper.demo.postgres import Server
from tests.property import test_quarantine_histories
from tests.property.test_quarantine_histories import DDL, Story, unique
from tests.property.test_sink_effects import even
from tests.support.effects import SOFT, Effects, described
from tests.support.oracle import COLUMNS, Accepts, Event, Key, history
from tests.support.quarantined import QUARANTINING, Target
from tests.support.standin import drop_database, new_database

DATABASE = "soft_deletes"
FEW, MANY = 43, 2_000


class Model:
    """The target's rows, and the time of the step that wrote or marked them."""

    def __init__(self, accepts: Accepts | None) -> None:
        self.rows: dict[Key, dict[str, Any]] = {}
        self._accepts = accepts

    def apply(self, events: Iterable[Event], now: str) -> None:
        for one in sorted(events, key=lambda event: (event.point, event.sequence)):
            if one.kind in ("I", "U") and one.image is not None and (self._accepts is None or self._accepts(one.image)):
                self.rows[one.key] = {**one.image, "deleted_at": None, "op": one.kind, "synced_at": now}
            elif one.kind != "B" or one.then != one.key:
                row = self.rows.get(one.key)
                if row is not None and row["deleted_at"] is None:
                    row.update(deleted_at=now, op="D", synced_at=now)


@pytest.fixture(scope="module")
def effects(pg_server: Server) -> Iterator[Effects]:
    new_database(pg_server, DATABASE)
    made = Effects(pg_server, DATABASE, "mart.soft", others=False, soft=True)
    yield made
    made.close()
    drop_database(pg_server, DATABASE)


class Kills:
    """Closes the connection of the sink's session at the nth statement from now, as the exit of a worker does."""

    def __init__(self, effects: Effects, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left, self.done = 0, 0
        kills, ready = self, SinkSession.ready

        class Cursor(pg.Cursor):
            def execute(self, query: Any, vars: Any = None) -> None:
                kills.passed(self.connection)
                super().execute(query, vars)

            def copy_expert(self, sql: Any, file: Any, size: int = 8192) -> None:
                kills.passed(self.connection)
                super().copy_expert(sql, file, size)

        def counted(session: SinkSession) -> pg.Connection:
            connection = ready(session)
            connection.cursor_factory = Cursor if session is effects.session else pg.Cursor
            return connection

        monkeypatch.setattr(SinkSession, "ready", counted)

    def passed(self, connection: pg.Connection) -> None:
        self.left -= 1
        if self.left == 0:
            self.done += 1
            connection.close()


SIZES = {"small": 20, "general": 20, "optimistic": 3}
"""The kinds of steps, and the number of histories in a batch of each."""


def one_batch(effects: Effects, kills: Kills, draw: random.Random, way: str, first: int) -> Taken:
    """Apply histories of `SIZES`, each over keys of its own, by steps of one kind with a part of each.

    Half of the steps are killed and taken again, alone or with the next one.
    """
    accepts, keys, cuts = draw.choice((None, even)), draw.choice((3, 30)), draw.choice((3, 15))
    if way == "optimistic":  # such a step has one change to a key, and no changed key
        keys, cuts = 30, 40
    numbers = range(first, first + SIZES[way])
    histories = [history(draw, number, keys, transactions=20, cuts=cuts) for number in numbers]
    parts = itertools.zip_longest(*(one.steps for one in histories), fillvalue=())
    steps = [[unique(event) for part in cut for event in part] for cut in parts]
    for events in steps:
        draw.shuffle(events)
    options = SinkOptions() if way == "small" else SinkOptions(optimistic_step=way == "optimistic")
    effects.fill([])
    model, taken = Model(accepts), Taken()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_step, "MOST_LINES", 10_000 if way == "small" else 0)
        if way != "small":
            options = replace(options, copy_write_batch_size=5)
            patch.setattr(routing, "LEAST", 0)
            patch.setattr(routing, "SHARE", 1_000_000)
            patch.setattr(Lane, "missed", lambda lane: None)
        sink = effects.sink(options)
        while steps:
            events = steps.pop(0)
            kills.left = draw.randint(1, 4) if draw.random() < 0.5 else 0
            killed = False
            try:
                effects.step(sink, events, accepts)
            except Unreachable:
                killed = True
                joined = bool(steps) and draw.random() < 0.5
                steps[:joined] = [[*events, *steps[0]] if joined else events]
            else:
                model.apply(events, _text(effects.now))
            kills.left = 0
            assert effects.rows() == model.rows, f"histories from {first} on by {way}\n{described(events)}"
            if killed or draw.random() < 0.2:
                taken = _sum(taken, sink.taken)
                sink = effects.sink(options)
                row = sink.read_row(effects.lane)
                assert row is not None and row.position == effects.position
    return _sum(taken, sink.taken)


def _sum(one: Taken, other: Taken) -> Taken:
    return Taken(one.optimistic + other.optimistic, one.general + other.general, small=one.small + other.small)


def _text(now: datetime) -> str:
    return now.isoformat(" ") + "+00"


@pytest.mark.parametrize("histories", [FEW, pytest.param(MANY, marks=[pytest.mark.chaos, pytest.mark.timeout(3_600)])])
def test_every_kind_of_step_marks_what_the_model_marks_through_kills(
    effects: Effects, seed: int, histories: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, kills, taken = random.Random(seed), Kills(effects, monkeypatch), Taken()
    number = 0
    for way in itertools.cycle(SIZES):
        if number >= histories:
            break
        try:
            taken = _sum(taken, one_batch(effects, kills, draw, way, number))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {error}") from error
        number += SIZES[way]
    print(f"seed {seed}: {number} histories, {kills.done} kills, {taken}")
    assert taken.small and taken.optimistic and taken.general and kills.done


class SoftStory(Story):
    """Rows that the target rejects are quarantined and replayed; a key that was never written has no marked row."""

    def __init__(self, target: Target, accepts: Accepts | None, draw: random.Random) -> None:
        super().__init__(target, replace(QUARANTINING, quarantine_limit=10_000), accepts, draw)
        self.model = Model(accepts)

    def step(self, sink: Any, events: list[Event]) -> None:
        self.model.apply(events, "now")
        super().step(sink, events)

    def compare(self) -> None:
        names = [*COLUMNS, "deleted_at", "op"]
        found = self.target.rows("h, k, a, b::text, tags::text, j::text, deleted_at IS NOT NULL, op")
        got = {(row[0], row[1]): dict(zip(names, row, strict=True)) for row in found}
        held = {tuple(map(int, entry.key)) for entry in self.target.listed()}
        for key in sorted({*got, *self.model.rows} - held):
            row, wanted = got.get(key), self.model.rows.get(key)
            mine = described(event for event in self.events if event.key[0] == key[0])
            if wanted is not None and wanted["deleted_at"] is not None:
                assert row is None or (row["deleted_at"], row["op"]) == (True, "D"), f"{key}\n{mine}"
            else:
                live = wanted and {**wanted, "deleted_at": False}
                assert row == (live and {name: live[name] for name in names}), f"{key}\n{mine}"


ILL = (
    "ALTER TABLE mart.held ADD CONSTRAINT no_three CHECK (op = 'D' OR a <> 3) NOT VALID,"
    " ADD CONSTRAINT no_document CHECK (op = 'D' OR j::text <> '[]' AND length(b) < 5) NOT VALID"
)
"""As in the other histories, but a rejected row can be marked: a delete that the target rejects stops the job."""


@pytest.mark.parametrize("runs", [1, pytest.param(60, marks=[pytest.mark.chaos, pytest.mark.timeout(3_600)])])
def test_rejected_rows_and_their_replay_leave_what_the_model_leaves(
    pg_server: Server, seed: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_quarantine_histories, "ILL", ILL)
    new_database(pg_server, DATABASE + "_held", "CREATE SCHEMA mart")
    held = 0
    for number in range(runs):
        draw = random.Random(seed * 1_000 + number)
        marks = "deleted_at timestamptz, op varchar(1), synced_at timestamptz, " + DDL
        columns = [*COLUMNS, *SOFT.marks]
        target = Target(pg_server, DATABASE + "_held", "mart.held", marks, columns, ("h", "k"), channel=SOFT)
        story = SoftStory(target, even if draw.random() < 0.3 else None, draw)
        try:
            story.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, run {number}: {error}") from error
        finally:
            target.run("DROP TABLE mart.held, slotkeeper_quarantine, slotkeeper_progress, slotkeeper_chunks")
            target.close()
        held = max(held, story.held)
    assert held
    drop_database(pg_server, DATABASE + "_held")
