"""A target with soft deletes ends as a model predicts, for any history, split anywhere, by every kind of step.

The model: an I or a U writes the row and clears its mark; a delete, a rejected image or the old half of a changed key
marks the row that the target has, unless it is marked already. A key that the target never had stays absent.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.sinks.postgres.write import routing, small_step
from slotkeeper.core.sinks.postgres.write.optimistic import Lane, Taken
from slotkeeper.demo.postgres import Server
from tests.property import test_quarantine_histories
from tests.property.test_quarantine_histories import DDL, Story
from tests.property.test_sink_effects import even
from tests.support.effects import SOFT, Effects, described
from tests.support.oracle import COLUMNS, Accepts, Event, Key, history
from tests.support.quarantined import QUARANTINING, Target
from tests.support.standin import drop_database, new_database

DATABASE = "soft_deletes"
FEW, MANY = 25, 2_000


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


def run(effects: Effects, seed: int, histories: int, accepts: Accepts | None, options: SinkOptions) -> Taken:
    draw, taken = random.Random(seed), Taken()
    for number in range(histories):
        one = history(draw, number, keys=draw.choice((3, 30)), transactions=20, cuts=draw.choice((3, 15)))
        effects.fill([])
        model, sink = Model(accepts), effects.sink(options)
        for events in filter(None, one.steps):
            effects.step(sink, draw.sample(events, len(events)) if draw.random() < 0.5 else events, accepts)
            model.apply(events, _text(effects.now))
            assert effects.rows() == model.rows, f"seed {seed}, history {number}\n{described(events)}"
        taken.optimistic += sink.taken.optimistic
        taken.small += sink.taken.small
        taken.general += sink.taken.general
    print(f"seed {seed}: {taken}")
    return taken


def _text(now: datetime) -> str:
    return now.isoformat(" ") + "+00"


COUNTS = [FEW, pytest.param(MANY, marks=[pytest.mark.chaos, pytest.mark.timeout(3_600)])]


@pytest.mark.parametrize("histories", COUNTS)
@pytest.mark.parametrize("accepts", [None, even], ids=["all rows", "filter"])
@pytest.mark.parametrize("way", ["small", "general", "optimistic"])
def test_every_kind_of_step_marks_what_the_model_marks(
    effects: Effects,
    seed: int,
    way: str,
    accepts: Accepts | None,
    histories: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = SinkOptions()
    if way != "small":
        monkeypatch.setattr(small_step, "MOST_LINES", 0)
        options = SinkOptions(optimistic_step=way == "optimistic", copy_write_batch_size=5)
        monkeypatch.setattr(routing, "LEAST", 0)
        monkeypatch.setattr(routing, "SHARE", 1_000_000)
        monkeypatch.setattr(Lane, "missed", lambda lane: None)
    taken = run(effects, seed, histories, accepts, options)
    assert {"small": taken.small, "optimistic": taken.optimistic}.get(way, taken.general)
    assert way == "small" or not taken.small


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
