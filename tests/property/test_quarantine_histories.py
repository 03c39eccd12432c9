"""For any history with bad rows, split anywhere, with repairs and replays at any time, the target ends as the oracle
says.

Until then, every key that is not held is as the oracle says at that time.
"""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from slotkeeper.core.domain.quarantine import EntryState
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.quarantine.replay import Replays
from slotkeeper.demo.postgres import Server
from tests.integration.test_dws_sink import face as face
from tests.property.test_sink_effects import even
from tests.support.effects import described
from tests.support.oracle import COLUMNS, Accepts, Event, Oracle, Rules, copy_text, history
from tests.support.quarantined import QUARANTINING, Target
from tests.support.standin import drop_database, new_database

DATABASE = "held_histories"
HISTORIES = 20
RUNS, MANY = 3, 100
DDL = """
h integer, k integer, a integer, b varchar(4), tags integer[], j json, own text DEFAULT '7', PRIMARY KEY (k, h),
CONSTRAINT no_three CHECK (a <> 3), CONSTRAINT no_document CHECK (j::text <> '[]')
"""
ILL = (
    "ALTER TABLE mart.held ADD CONSTRAINT no_three CHECK (a <> 3) NOT VALID,"
    " ADD CONSTRAINT no_document CHECK (j::text <> '[]' AND length(b) < 5) NOT VALID"
)
"""Numbers, documents and long texts are rejected; after a repair they may be rejected again, and existing rows stay."""


@pytest.fixture(scope="module")
def database(pg_server: Server) -> Iterator[str]:
    new_database(pg_server, DATABASE, "CREATE SCHEMA mart")
    yield DATABASE
    drop_database(pg_server, DATABASE)


class Story:
    """One run: histories split into steps, with repairs, replays and new causes of rejections between them."""

    def __init__(self, target: Target, options: SinkOptions, accepts: Accepts | None, draw: random.Random) -> None:
        self.target, self.options, self.accepts, self.draw = target, options, accepts, draw
        rules = Rules(
            options.write_mode,
            options.conflict_strategy,
            ignore_delete=options.ignore_delete,
            accepts=accepts,
            others={"own": "7"},
        )
        self.oracle = Oracle(rules, {})
        self.events: list[Event] = []
        self.held = self.careful = 0
        self.ill = True

    def run(self) -> None:
        histories = [history(self.draw, number, cuts=5) for number in range(HISTORIES)]
        sink = self.target.sink(self.options)
        for cut in itertools.zip_longest(*(one.steps for one in histories), fillvalue=()):
            events = [unique(event) for part in cut for event in part]
            self.step(sink, events)
            self.compare()
            if self.draw.random() < 0.3:
                self.heal()
                if self.draw.random() < 0.7:
                    self.target.run(ILL)
                    self.ill = True
            if self.draw.random() < 0.3:
                sink = self.target.sink(self.options)  # another task begins
        self.heal()
        self.compare()
        assert self.target.listed() == []

    def step(self, sink: Any, events: list[Event]) -> None:
        self.events += sorted(events, key=lambda event: (event.point, event.sequence))
        self.oracle.apply(self.events[-len(events) :] if events else [])
        self.draw.shuffle(events)
        lines = io.BytesIO(copy_text(events, self.accepts)).readlines()
        self.careful += self.target.step(sink, [(line.rstrip(b"\n"),) for line in lines])
        self.held = max(self.held, len(self.target.listed()))

    def heal(self) -> None:
        """A repair, and a replay of all rows, in any order."""
        if self.ill:
            self.target.run("ALTER TABLE mart.held DROP CONSTRAINT no_three, DROP CONSTRAINT no_document")
            self.target.run("ALTER TABLE mart.held ALTER COLUMN b TYPE text")
            self.ill = False
        self.target.session.close()
        self.target.table = targets.seen(self.target.session, self.target.table)  # each command reads it again
        replays = Replays(self.target.session, self.target.lane)
        ids = replays.quarantined()
        self.draw.shuffle(ids)
        for id in ids:
            done = replays.replay(id, self.target.table, self.options, "somebody", "cured")
            assert done.state is EntryState.REPLAYED, done

    def compare(self) -> None:
        held = {tuple(map(int, entry.key)) for entry in self.target.listed()}
        names = [*COLUMNS, "own"]
        found = self.target.rows("h, k, a, b::text, tags::text, j::text, own")
        got = {(row[0], row[1]): dict(zip(names, row, strict=True)) for row in found}
        wanted = self.oracle.rows
        for key in sorted({*got, *wanted} - held):
            mine = [event for event in self.events if event.key[0] == key[0]]
            assert got.get(key) == wanted.get(key), f"{key}\n{described(mine)}\n{self.target.quarantined(states=())}"


def unique(event: Event) -> Event:
    return replace(event, sequence=event.sequence + 1_000 * event.key[0])


def stories(server: Server, database: str, seed: int, runs: int, kind: str = "postgres") -> None:
    held = careful = events = 0
    for number in range(runs):
        draw = random.Random(seed * 1_000 + number)
        options = replace(
            QUARANTINING,
            quarantine_limit=10_000,
            write_mode=draw.choice(("auto", "upsert", "copy_upsert", "copy_merge")),
            conflict_strategy=draw.choice(("update", "update", "replace")),
            ignore_delete=draw.random() < 0.25,
        )
        target = Target(server, database, "mart.held", DDL, COLUMNS, ("h", "k"), kind=kind)
        story = Story(target, options, even if draw.random() < 0.3 else None, draw)
        try:
            story.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, run {number}, {options}: {error}") from error
        finally:
            target.run("DROP TABLE mart.held, slotkeeper_quarantine, slotkeeper_progress, slotkeeper_chunks")
            target.close()
        held, careful, events = max(held, story.held), careful + story.careful, events + len(story.events)
    print(f"seed {seed}: {events} events, {careful} isolating steps, at most {held} entries at once")
    assert careful
    assert held


def test_random_histories_with_bad_rows_end_as_the_oracle_says(pg_server: Server, database: str, seed: int) -> None:
    stories(pg_server, database, seed, RUNS)


def test_the_same_at_a_dws(pg_server: Server, database: str, seed: int, face: list[str]) -> None:
    stories(pg_server, database, seed + 1, 1, kind="dws")


@pytest.mark.chaos
def test_random_histories_for_long(pg_server: Server, database: str, seed: int) -> None:
    stories(pg_server, database, seed, MANY)
