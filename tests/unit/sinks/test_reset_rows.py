"""The effect of a reset on the quarantine and on the progress rows, statement by statement. No server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.reset import DONE, GOING_BACK, WRITTEN, Swap
from slotkeeper.core.errors import Superseded, Trouble
from slotkeeper.core.ports.driver import Runner
from slotkeeper.core.sinks.postgres.progress.resets import PostgresResets
from slotkeeper.core.sinks.postgres.progress.store import parameters_of
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition

KEY = LaneKey("dws1", "ods.t", "slot", "dn_1")
LOW, HIGH = DwsPosition(10, 0), DwsPosition(30, 4)
ROW = ProgressRow(KEY, 1, "mart.t", LOW, 5, 0, LaneState.RUNNING, None, None, "c", "f", None)
QUARANTINE = ("archive_beyond", "revive", "outdone", "beyond")


class Answer(list[tuple[Any, ...]]):
    """A statement's rows, as a cursor returns them."""

    rowcount = 1

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        return self[0] if self else None


class Session:
    """A session whose progress rows are in memory; it records each statement with its parameters."""

    def __init__(self, *rows: ProgressRow, quarantine: bool = True, lost: tuple[str, ...] = ()) -> None:
        self.rows = {row.key.shard: row for row in rows}
        self.quarantine, self.lost = quarantine, lost
        self.said: list[tuple[str, dict[str, Any]]] = []
        self.schema = SimpleNamespace(string="public")
        self.cancel = self.sever = self.close = lambda: None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield None

    def has(self, cursor: Any, name: str, of: Any = None, /, **more: str) -> bool:
        return self.quarantine

    def run(self, cursor: Any, name: str, values: Mapping[str, Any], of: Any = None, **parts: Any) -> Answer:
        self.said.append((name, dict(values)))
        found: list[tuple[Any, ...]] = []
        if name == "positions":
            found = [(shard, row.position.text if row.position else "") for shard, row in self.rows.items()]
        if name == "beyond":
            found = [(3,)]
        if name == "lock" and values["shard"] not in self.lost:
            row = self.rows[values["shard"]]
            said = parameters_of(row)
            names = ("shard", "node_id", "target", "position", "epoch", "changes", "state", "noted_start", "noted_end")
            found = [(*(said[one] for one in (*names, "channel", "fingerprint", "registered")), None, None, None, 0)]
        return Answer(found)

    def of(self, *names: str) -> list[tuple[str, dict[str, Any]]]:
        return [one for one in self.said if one[0] in names]


def resets(session: Session) -> PostgresResets:
    return PostgresResets(cast(Any, session), POSITIONS, KEY, Runner("j", "run", "host", "user", 1), quarantines=True)


def at(row: ProgressRow, position: DwsPosition | None) -> ProgressRow:
    return replace(row, position=position)


def test_a_move_back_archives_what_is_after_it_by_the_reset_itself() -> None:
    session = Session(at(ROW, HIGH))
    assert resets(session).write("R1", WRITTEN, Swap([at(ROW, HIGH)], [ROW]), 5) == []
    ((name, values),) = session.of(*QUARANTINE)
    assert name == "archive_beyond" and (values["by"], values["point"], values["sequence"]) == ("R1", 10, 0)


def test_an_undo_restores_what_the_undone_reset_archived_and_outdoes_by_itself() -> None:
    session = Session(ROW)
    resets(session).write("R2", WRITTEN, Swap([ROW], [at(ROW, HIGH)]), 5, undone="R1")
    (revived, values), (outdone, by) = session.of(*QUARANTINE)
    assert (revived, values["by"], outdone, by["by"]) == ("revive", "R1", "outdone", "R2")
    assert (values["old_point"], values["old_sequence"], values["point"], values["sequence"]) == (10, 0, 30, 4)


@pytest.mark.parametrize(
    ("old", "new", "name", "by"), [(HIGH, LOW, "archive_beyond", "R1"), (LOW, HIGH, "revive", "R2")]
)
def test_an_undo_that_goes_back_names_the_backup_where_it_archives_and_itself_where_it_restores(
    old: DwsPosition, new: DwsPosition, name: str, by: str
) -> None:
    session = Session(at(ROW, old))
    swap = Swap([at(ROW, old)], [at(ROW, new)], partly=True)
    resets(session).write("R2", GOING_BACK, swap, 5, "R1", "R2", "why")
    assert session.of(name)[0][1]["by"] == by
    assert [values["by"] for _, values in session.of("outdone")] == (["R1"] if name == "revive" else [])
    assert session.said[-1] == ("step", {"id": "R2", "step": GOING_BACK, "outcome": "why", "ended": False})


@pytest.mark.parametrize(
    ("old", "new", "undone"),
    [(LOW, LOW, "R1"), (LOW, HIGH, ""), (None, HIGH, "R1"), (HIGH, None, "R1")],
    ids=["the same position", "forward, but no undo", "from no position", "to no position"],
)
def test_other_moves_leave_the_quarantine_as_it_is(
    old: DwsPosition | None, new: DwsPosition | None, undone: str
) -> None:
    session = Session(at(ROW, old))
    assert resets(session).write("R2", WRITTEN, Swap([at(ROW, old)], [at(ROW, new)]), 5, undone=undone) == []
    assert not session.of(*QUARANTINE) and session.of("write")


def test_a_sink_without_a_quarantine_is_not_asked_for_one() -> None:
    session = Session(at(ROW, HIGH), quarantine=False)
    resets(session).write("R1", WRITTEN, Swap([at(ROW, HIGH)], [ROW]), 5)
    assert [name for name, _ in session.said] == ["lock", "write", "step"]
    assert resets(session).quarantined_beyond([ROW]) == 0


def test_only_rows_with_a_position_count_what_is_after_them() -> None:
    session = Session(ROW)
    assert resets(session).quarantined_beyond([ROW, at(ROW, None), at(ROW, HIGH)]) == 6
    assert [(values["point"], values["sequence"]) for _, values in session.of("beyond")] == [(10, 0), (30, 4)]


def test_a_row_is_written_over_the_values_that_it_was_expected_to_have() -> None:
    session = Session(at(ROW, HIGH))
    new = replace(ROW, state=LaneState.CATCHING_UP, epoch=9)
    resets(session).write("R1", WRITTEN, Swap([at(ROW, HIGH)], [new], ordered="o"), 5)
    ((_, values),) = session.of("write")
    assert (values["was_position"], values["was_state"]) == (HIGH.text, "running")
    assert (values["position"], values["state"], values["epoch"]) == (LOW.text, "catching up", 5)
    assert values["ordered"] == "o" and values["shard"] == "dn_1"


OTHER = replace(ROW, key=replace(KEY, shard="dn_2"), node_id=2)


def test_one_row_that_has_moved_keeps_all_rows_unless_they_may_be_written_in_part() -> None:
    """The quarantine of a row that is not written is not touched either."""
    session = Session(at(ROW, HIGH), at(OTHER, HIGH))
    moved = Swap([at(ROW, LOW), at(OTHER, HIGH)], [at(ROW, HIGH), OTHER])
    (said,) = resets(session).write("R1", WRITTEN, moved, 5)
    assert said.startswith("dn_1: ") and not session.of("write", "step", *QUARANTINE)
    (said,) = resets(session).write("R1", GOING_BACK, replace(moved, partly=True), 5)
    assert said.startswith("dn_1: ") and session.of("step")
    assert [values["shard"] for _, values in session.of("write", *QUARANTINE)] == ["dn_2", "dn_2"]


def test_a_row_that_is_lost_is_named_and_stops_only_what_is_not_in_part() -> None:
    swap = Swap([ROW, OTHER], [at(ROW, HIGH), at(OTHER, HIGH)])
    with pytest.raises(Trouble, match="has lost the progress row of dn_1"):
        resets(Session(ROW, OTHER, lost=("dn_1",))).write("R1", WRITTEN, swap, 5)
    session = Session(ROW, OTHER, lost=("dn_1",))
    (said,) = resets(session).write("R1", GOING_BACK, replace(swap, partly=True), 5)
    assert "has lost the progress row of dn_1" in said
    assert [values["shard"] for _, values in session.of("write")] == ["dn_2"]


@pytest.mark.parametrize("partly", [False, True])
def test_a_row_of_another_epoch_stops_the_reset(partly: bool) -> None:
    session = Session(replace(ROW, epoch=6))
    with pytest.raises(Superseded, match=r"dn_1: another run has taken over \(epoch 6; this reset has epoch 5\)"):
        resets(session).write("R1", WRITTEN, Swap([ROW], [at(ROW, HIGH)], partly=partly), 5)
    assert not session.of("write", "step")


def test_a_reset_has_ended_only_with_an_outcome() -> None:
    session = Session(ROW)
    for step in (WRITTEN, GOING_BACK, DONE):
        resets(session).step("R1", step)
    assert [values["ended"] for _, values in session.said] == [False, False, True]
