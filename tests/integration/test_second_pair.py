"""A job of the second pair end to end: a source without slots, and a sink that shares no transaction with its store."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.core.wiring import worker
from tests.support.mirror import At
from tests.support.printed import typed
from tests.support.resetting import Crash
from tests.support.sqlite_pair.pair import MakePair, SecondPair
from tests.support.waiting import until

TABLE, OTHER = "ods.t", "ods.other"
ROWS, CHANGED, AGAIN = 20, 5, 6
"""Rows before the job begins, and the events of a first `change` and of another one."""


def fill(pair: SecondPair, *tables: str) -> None:
    with pair.origin.transaction() as writing:
        for table in tables:
            for key in range(ROWS):
                writing.put(table, id=key, v=key)


def change(pair: SecondPair, table: str = TABLE, value: int = 33) -> None:
    """Run a transaction: an update, a delete, an insert or an update, and the deleted key again."""
    with pair.origin.transaction() as writing:
        writing.put(table, id=3, v=value)
        writing.delete(table, id=4)
        writing.put(table, id=40, v=None)
        writing.put(table, id=4, v=value)


@dataclass
class Shell:
    """A pair whose job has streamed and was stopped, a configuration of it, and commands on it."""

    pair: SecondPair
    path: Path
    capfd: pytest.CaptureFixture[str]

    @property
    def place(self) -> list[str]:
        return [TABLE, self.pair.mirror.job.slot]

    def call(self, *words: str) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)."""
        return typed(self.capfd, *words, "--config", str(self.path))

    def done(self, *words: str) -> str:
        code, out, err = self.call(*words)
        assert code == 0, (code, out, err)
        return out

    def json(self, *words: str) -> Any:
        return json.loads(self.done(*words, "--json"))

    def execute(self, plan: str, *words: str) -> str:
        consent = ["--execute", "--plan", plan, "--reason", "a test", "--confirm", self.pair.mirror.job.slot]
        return self.done(*words, *consent)

    def position(self) -> str:
        (row,) = self.pair.mirror.rows()
        assert row.position is not None
        return row.position.text


@pytest.fixture
def shell(make_pair: MakePair, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Shell:
    pair = make_pair(TABLE)
    fill(pair, TABLE)
    pair.mirror.start().wait_running()
    change(pair)
    pair.wait_equal()
    pair.mirror.stop()
    return Shell(pair, pair.config(tmp_path), capfd)


def test_it_copies_and_streams_and_resumes_where_it_stopped(make_pair: MakePair) -> None:
    pair = make_pair(TABLE)
    fill(pair, TABLE)
    pair.mirror.start().wait_running()
    pair.wait_equal()
    change(pair)
    pair.wait_equal()
    pair.mirror.stop()
    pair.origin.rotate()
    change(pair, value=34)
    pair.mirror.start().wait_running()
    pair.wait_equal()
    pair.mirror.stop()
    assert [row.position for row in pair.mirror.rows()] == [pair.origin.latest()]


def test_two_channels_share_one_stream(make_pair: MakePair) -> None:
    pair = make_pair(TABLE, OTHER)
    fill(pair, TABLE, OTHER)
    pair.mirror.start().wait_running()
    for value in range(5):
        with pair.origin.transaction() as writing:
            writing.put(TABLE, id=value, v=-value)
            writing.put(OTHER, id=value, v=-value)
            writing.put(TABLE, id=value, v=value * 100)
    pair.wait_equal()
    pair.mirror.stop()
    counted = pair.mirror.changes()
    assert sorted(counted.values()) == [2 * 5, 4 * 5]


def test_slots_are_shown_by_our_own_rows(shell: Shell) -> None:
    (found,) = shell.json("slots", "list")["tables"]
    (slot,) = found["slots"]
    assert (slot["slot"], slot["exists"], slot["unread"]) == (shell.place[1], None, None)
    assert "no slots" in " ".join(found["untold"])
    wanted = [{"shard": "binlog", "position": shell.position(), "unread": None}]
    assert slot["dns"] == shell.json("slots", "show", *shell.place)["dns"] == wanted
    assert slot["furthest_back"] == {"dn": "binlog", "point": shell.position()}
    text = shell.done("slots", "list") + shell.done("slots", "show", *shell.place)
    for word in ("binlog_ttl", "kernel", "binlog_consume_timeout", "live ", "durable", "xmin", "expires", "ttl"):
        assert word not in text
    assert text.count(shell.position()) == 3


@pytest.mark.parametrize("verb", ["create", "register", "drop"])
def test_there_is_nothing_to_make_or_drop(shell: Shell, verb: str) -> None:
    code, _, err = shell.call("slots", verb, *shell.place)
    assert code == 3
    assert f"nothing to {verb}" in err


def test_preflight_has_no_sense(shell: Shell) -> None:
    code, _, err = shell.call("slots", "preflight", TABLE)
    assert code == 3
    assert "no DDL or maintenance waits for readers" in err


def test_doctor_finds_what_the_pair_promises(shell: Shell) -> None:
    out = shell.call("doctor")[1]
    assert "all tables share one binlog" in out
    assert "at least once; repeats are counted and do not change the final rows" in out


def test_rows_of_the_binlog_are_shown(shell: Shell) -> None:
    rows = shell.json("slots", "peek", TABLE, "--newest")["rows"]
    assert [row["type"] for row in rows] == ["I"] * ROWS + ["B", "U", "d", "I", "I"]
    assert [row["changed"] for row in rows if row["type"] == "U"] == [["v"]]
    begin = rows[ROWS - 1]["position"]
    later = shell.json("slots", "peek", TABLE, "--from", begin)["rows"]
    assert [row["type"] for row in later] == ["B", "U", "d", "I", "I"]


def test_rows_are_shown_from_where_our_own_row_stands(shell: Shell) -> None:
    page = shell.json("slots", "peek", TABLE)
    assert "no unread rows on binlog" in " ".join(page["notes"])
    assert len(page["rows"]) == ROWS + CHANGED
    change(shell.pair, value=34)
    page = shell.json("slots", "peek", TABLE)
    assert (page["from"], page["notes"]) == (shell.position(), [])
    assert [row["type"] for row in page["rows"]] == ["B", "U", "d", "B", "U", "I"]


@pytest.mark.parametrize("place", ["17", "binlog=17", "1:1:4"])
def test_a_place_that_is_none_is_refused_by_the_word_of_its_source(shell: Shell, place: str) -> None:
    code, _, err = shell.call("slots", "reset", *shell.place, "--to", "point", "--point", place)
    assert (code, "is not a position" in err, "sync point" in err) == (2, True, False), err


def test_both_tables_are_compared(shell: Shell) -> None:
    assert shell.json("verify", shell.pair.mirror.job.name)["equal"] is True


def test_a_reset_goes_back_and_is_undone(shell: Shell) -> None:
    begin, end = "1:1:4:0", shell.position()
    plan = shell.json("slots", "reset", *shell.place, "--to", "point", "--point", begin)
    assert {one["name"]: one["sentence"] for one in plan["checks"]}["slot exists"].startswith("the source stores no")
    assert {one["name"]: one["sentence"] for one in plan["checks"]}["same table"].startswith("columns and key match")
    assert [line for line in plan["sql"] if line.startswith("source")] == []
    shell.execute(plan["id"], "slots", "reset", *shell.place)
    assert shell.position() == begin
    (backup,) = shell.json("slots", "history", *shell.place)["resets"]
    undone = shell.json("slots", "undo", backup["backup"])
    shell.execute(undone["id"], "slots", "undo", backup["backup"], "--rows", str(ROWS + CHANGED))
    assert shell.position() == end
    shell.pair.mirror.start().wait_running()
    change(shell.pair, value=5)
    shell.pair.wait_equal()
    shell.pair.mirror.stop()


def named(pair: SecondPair, name: TroubleName) -> None:
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble)
    assert error.name is name


def test_a_purged_file_is_a_lost_slot(shell: Shell) -> None:
    pair = shell.pair
    change(pair)
    pair.origin.rotate()
    pair.origin.purge()
    pair.mirror.start()
    named(pair, TroubleName.SLOT_LOST)


def test_another_life_of_the_binlog_is_recognized(shell: Shell) -> None:
    pair = shell.pair
    pair.origin.rebuild()
    pair.mirror.start()
    named(pair, TroubleName.POSITIONS_DIFFER)


def test_a_binlog_that_starts_over_while_it_is_read_is_reported(make_pair: MakePair) -> None:
    pair = make_pair(TABLE)
    fill(pair, TABLE)
    pair.mirror.start().wait_running()
    pair.wait_equal()
    pair.origin.rebuild()
    named(pair, TroubleName.POSITIONS_DIFFER)


def test_what_was_purged_is_never_read_as_nothing(make_pair: MakePair) -> None:
    pair = make_pair(TABLE)
    after = pair.origin.latest()
    fill(pair, TABLE)
    pair.origin.rotate()
    pair.origin.purge()
    with closing(worker.source_session(pair.mirror.job, "test")) as session:
        source = session.table(TableAsked.of(pair.mirror.job)).source
        (status,) = source.read_status(None)
        asked: list[Callable[[], object]] = [
            lambda: source.has_changes(status.shard, after, status.latest),
            lambda: source.next_range(after, status, 1),
            lambda: source.copy_changes(status.shard, after, status.latest, io.BytesIO()),
        ]
        for ask in asked:
            with pytest.raises(Trouble, match="the binlog starts at 1:2:4:1"):
                ask()


@pytest.mark.parametrize("start", ["latest", "binlog=1:1:4:0"])
def test_a_start_without_a_copy_begins_at_its_place(make_pair: MakePair, start: str) -> None:
    pair = make_pair(TABLE)
    fill(pair, TABLE)
    mirror = pair.mirror
    mirror.job = replace(mirror.job, start=start)
    mirror.start().wait_running()
    change(pair)
    expected = CHANGED + (0 if start == "latest" else ROWS)
    until(lambda: sum(mirror.changes().values()) >= expected, 30, f"{expected} events")
    mirror.stop()
    assert sum(mirror.changes().values()) == expected


def merging(shell: Shell) -> None:
    """Make the configuration copy into a table that has rows."""
    text = shell.path.read_text("utf-8").replace('slot = "', 'on_existing = "merge"\nslot = "', 1)
    shell.path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("start", ["latest", "binlog=1:1:4:0"])
def test_a_reset_to_snapshot_is_followed_by_a_copy_alone(
    make_pair: MakePair, tmp_path: Path, capfd: pytest.CaptureFixture[str], start: str
) -> None:
    pair = make_pair(TABLE)
    fill(pair, TABLE)
    pair.mirror.start().wait_running()
    pair.mirror.stop()
    shell = Shell(pair, pair.config(tmp_path), capfd)
    merging(shell)
    plan = shell.json("slots", "reset", *shell.place, "--to", "snapshot")
    shell.execute(plan["id"], "slots", "reset", *shell.place)
    assert pair.mirror.changes() == {"binlog": 0}
    change(pair)
    pair.mirror.job = replace(pair.mirror.job, start=start)
    assert f'ods.t needs a copy, but start = "{start}" makes none' in str(pair.mirror.start().wait_error())


def _kill() -> None:
    raise Crash("killed")


def test_a_start_at_the_newest_that_was_broken_off_begins_again(make_pair: MakePair) -> None:
    pair = make_pair(TABLE)
    fill(pair, TABLE)
    mirror = pair.mirror
    mirror.job = replace(mirror.job, start="latest")
    mirror.start(driver_probe=At("before_first_registration", _kill))
    assert isinstance(mirror.wait_error(), Crash)
    assert [row.state for row in mirror.rows()] == [LaneState.CREATING]
    mirror.start().wait_running()
    change(pair)
    until(lambda: sum(mirror.changes().values()) >= CHANGED, 30, f"{CHANGED} events")
    mirror.stop()


@pytest.mark.parametrize("goal", ["latest", "earliest", "snapshot"])
def test_a_reset_goes_wherever_the_binlog_is(shell: Shell, goal: str) -> None:
    if goal == "snapshot":
        merging(shell)
    change(shell.pair, value=7)
    plan = shell.json("slots", "reset", *shell.place, "--to", goal)
    more = ["--rows", str(AGAIN)] if goal == "latest" else []
    shell.execute(plan["id"], "slots", "reset", *shell.place, *more)
    (row,) = shell.pair.mirror.rows()
    wanted = {"latest": shell.pair.origin.latest().text, "earliest": "1:1:4:0", "snapshot": None}[goal]
    assert (row.position.text if row.position else None) == wanted


@pytest.mark.parametrize("start", ["latest", "initial"])
def test_a_reset_to_snapshot_of_a_start_that_never_began_owes_a_copy(
    make_pair: MakePair, tmp_path: Path, capfd: pytest.CaptureFixture[str], start: str
) -> None:
    pair = make_pair(TABLE)
    fill(pair, TABLE)
    mirror = pair.mirror
    mirror.job = replace(mirror.job, start=start)
    mirror.start(driver_probe=At("before_first_registration", _kill))
    assert isinstance(mirror.wait_error(), Crash)
    assert [(row.changes, row.state) for row in mirror.rows()] == [(0, LaneState.CREATING)]
    shell = Shell(pair, pair.config(tmp_path), capfd)
    plan = shell.json("slots", "reset", *shell.place, "--to", "snapshot")
    shell.execute(plan["id"], "slots", "reset", *shell.place)
    mirror.job = replace(mirror.job, start="latest")
    assert 'ods.t needs a copy, but start = "latest" makes none' in str(mirror.start().wait_error())
    mirror.job = replace(mirror.job, start="initial")
    mirror.start().wait_running()
    pair.wait_equal()
    mirror.stop()
