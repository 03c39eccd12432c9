"""Failures of a slot in Hologres: another user moves or drops it, missing rights, limits, an odd server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from slotkeeper.core.domain.slot import SlotStatus
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.engine.worker.step import nothing
from slotkeeper.core.errors import Busy, Refused, Trouble, TroubleName
from slotkeeper.core.ports.source import Confirmation
from slotkeeper.core.sources.hologres import slots as slot_source
from slotkeeper.core.sources.hologres.kind import HoloConnection
from slotkeeper.core.sources.hologres.position import HoloPosition, SlotKept, ours
from slotkeeper.core.sources.hologres.slots import SlotTable
from tests.support.hologres import SLOT, TABLE, HoloPair


@pytest.fixture
def session(slot_pair: HoloPair) -> Iterator[HoloConnection]:
    slot_pair.write(*((key, key) for key in range(1, 21)))
    with closing(slot_pair.connection()) as made:
        yield made


def source_of(pair: HoloPair, session: HoloConnection) -> SlotTable:
    source = session.table(TableAsked.of(pair.mirror.job)).source
    assert isinstance(source, SlotTable)
    source.open_lanes()
    return source


def confirm(source: SlotTable, status: SlotStatus, to: HoloPosition) -> SlotKept:
    return source.confirm(status, Confirmation(to, status.kept, status.fingerprint, lambda: None, nothing))


def followed(pair: HoloPair) -> None:
    """The job has copied and followed, and does not advance."""
    pair.write(*((key, key) for key in range(1, 21)))
    pair.mirror.start().wait_running()
    pair.write(*((key, 7) for key in range(1, 21)))
    pair.mirror.wait_equal()
    pair.mirror.stop()


STRANGERS: dict[str, tuple[Callable[[HoloPair], object], TroubleName]] = {
    "moved ahead": (lambda pair: pair.hologres.move_slot(SLOT, 1, 900_000), TroubleName.SLOT_MOVED),
    "moved back": (lambda pair: pair.hologres.move_slot(SLOT, 1, 101), TroubleName.SLOT_MOVED),
    "dropped": (lambda pair: pair.hologres.drop_slot(SLOT), TroubleName.SLOT_LOST),
    "progress deleted": (
        lambda pair: pair.hologres.rows("DELETE FROM hologres.hg_replication_progress RETURNING 1"),
        TroubleName.SLOT_MOVED,
    ),
}


@pytest.mark.parametrize(
    "stranger",
    [pytest.param(one, marks=[] if one == "moved ahead" else pytest.mark.chaos) for one in STRANGERS],
)
@pytest.mark.parametrize("running", [pytest.param(True, marks=pytest.mark.chaos), False])
def test_a_slot_that_somebody_else_touched_stops_the_job_by_name_and_no_row_is_skipped(
    slot_pair: HoloPair, stranger: str, running: bool
) -> None:
    act, name = STRANGERS[stranger]
    followed(slot_pair)
    before = slot_pair.mirror.changes()
    if running:
        slot_pair.mirror.start().wait_running()
    act(slot_pair)
    slot_pair.write(*((key, 8) for key in range(1, 21)))
    if not running:
        slot_pair.mirror.start()
    # a registration in between finds a slot ahead of its row first, as after a fallback of the sink
    names = (name, TroubleName.SINK_OLDER) if running and stranger == "moved ahead" else (name,)
    error = slot_pair.mirror.wait_error()
    assert isinstance(error, Trouble) and error.name in names, error
    after = slot_pair.mirror.changes()
    assert all(after[shard] >= count for shard, count in before.items())


def test_a_slot_of_another_table_is_refused_and_not_touched(slot_pair: HoloPair, session: HoloConnection) -> None:
    source_of(slot_pair, session)
    slot_pair.hologres.create_table("ods.other", "id bigint, v bigint", ("id",))
    slot_pair.hologres.let_replicate("ods.other")
    job = slot_pair.mirror.job
    other = replace(job, channels=(replace(job.channel, source_table="ods.other"),))
    for call in (
        session.table(TableAsked.of(other)).source.admit,
        session.table(TableAsked.of(other)).source.open_lanes,
        session.table(TableAsked("ods.other", SLOT, job.binlog)).own_slot.clear,
    ):
        with pytest.raises(Refused, match=f"slot {SLOT} reads ods.t"):
            call()
    assert {status.kept for status in session.table(TableAsked.of(other)).source.read_status(None)} == {SlotKept(None)}
    assert {status.kept for status in session.table(TableAsked.of(job)).source.read_status(None)} == {SlotKept(0)}


@pytest.mark.chaos
def test_what_a_publication_has_left_over_is_named_with_its_cure(slot_pair: HoloPair, session: HoloConnection) -> None:
    source = source_of(slot_pair, session)
    slot_pair.hologres.rows(f"ALTER PUBLICATION {SLOT}_pub DROP TABLE {TABLE}; SELECT 1")
    with pytest.raises(Refused, match="is left over") as told:
        source.admit()
    assert "hg_drop_logical_replication_slot" in told.value.hint


@pytest.mark.parametrize(
    "right", ["replication", *(pytest.param(one, marks=pytest.mark.chaos) for one in ("owner", "catalog", "extension"))]
)
def test_a_right_that_is_missing_is_named_before_anything_is_made(
    slot_pair: HoloPair, session: HoloConnection, right: str
) -> None:
    hologres = slot_pair.hologres
    missing = {
        "replication": "UPDATE hg_standin.setting SET value = '' WHERE name = 'replication'",
        "owner": f"ALTER TABLE {TABLE} OWNER TO {hologres.server.superuser}; GRANT SELECT ON {TABLE} TO etl",
        "catalog": "REVOKE SELECT ON hologres.hg_replication_slot_properties FROM PUBLIC",
        "extension": "ALTER TABLE hologres.hg_replication_slot_properties RENAME TO gone",
    }
    hologres.rows(f"{missing[right]}; SELECT 1")
    with pytest.raises(Refused) as told:
        session.table(TableAsked.of(slot_pair.mirror.job)).source.open_lanes()
    cures = {
        "replication": "REPLICATION role",
        "owner": "the owner of ods.t",
        "catalog": "superusers only",
        "extension": "CREATE EXTENSION hg_binlog",
    }
    assert cures[right] in told.value.hint
    if right == "replication":
        assert hologres.rows("SELECT count(*) FROM pg_publication") == [(0,)], "nothing is left behind"


def test_a_server_that_does_not_show_what_it_was_told_is_asked_again_and_never_believed(
    slot_pair: HoloPair, session: HoloConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_source, "SEEN_SECONDS", 0.1)
    source = source_of(slot_pair, session)
    slot_pair.hologres.faults.deaf = True
    status = source.read_status(None)[0]
    with pytest.raises(Busy, match=rf"slot {SLOT} confirmed at LSN \d+, but the server shows"):
        confirm(source, status, ours(status.latest))
    slot_pair.hologres.faults.deaf = False
    assert confirm(source, status, ours(status.latest)) == SlotKept(ours(status.latest).lsn)
    assert source.read_status(status.shard)[0].kept == SlotKept(ours(status.latest).lsn)


@pytest.mark.chaos
def test_a_slot_that_another_session_reads_is_confirmed_once_that_has_gone(
    slot_pair: HoloPair, session: HoloConnection
) -> None:
    source = source_of(slot_pair, session)
    slot_pair.hologres.faults.one_reader = True
    status = source.read_status(None)[0]
    with source._line.open(TABLE, SLOT, status.shard.node_id - 1, 1), closing(slot_pair.connection()) as second:
        other = second.table(TableAsked.of(slot_pair.mirror.job)).source
        assert isinstance(other, SlotTable)
        with pytest.raises(Busy, match="is active for another session"):
            confirm(other, status, ours(status.latest))
    assert confirm(source, status, ours(status.latest)).lsn


@pytest.mark.chaos
def test_a_server_that_moves_no_slot_back_refuses_the_reset_and_keeps_its_place(
    slot_pair: HoloPair, session: HoloConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_source, "SEEN_SECONDS", 0.1)
    source = source_of(slot_pair, session)
    status = source.read_status(None)[0]
    here = confirm(source, status, ours(status.latest))
    slot_pair.hologres.faults.forward_only = True
    retention = session.table(TableAsked.of(slot_pair.mirror.job)).slot
    assert isinstance(retention, SlotTable)
    first = source.read_status(status.shard)[0]
    with pytest.raises(Refused, match="shows") as told:
        retention.put(status.shard, SlotKept((here.lsn or 0) - 1), nothing, first)
    assert "--to snapshot" in told.value.hint
    assert source.read_status(status.shard)[0].kept == here


@pytest.mark.parametrize(
    "change",
    [
        "RENAME COLUMN parallel_index TO shard",
        pytest.param("ALTER COLUMN lsn TYPE text USING 'x' || lsn", marks=pytest.mark.chaos),
    ],
)
def test_a_progress_of_another_form_is_refused_and_not_guessed_at(
    slot_pair: HoloPair, session: HoloConnection, change: str
) -> None:
    source = source_of(slot_pair, session)
    slot_pair.hologres.move_slot(SLOT, 0, 100)
    slot_pair.hologres.rows(f"ALTER TABLE hologres.hg_replication_progress {change}; SELECT 1")
    with pytest.raises(Refused, match="hg_replication_progress") as told:
        source.read_status(None)
    assert 'dialect = "hologres"' in told.value.hint


@pytest.mark.chaos
def test_a_missing_progress_table_means_no_progress(slot_pair: HoloPair, session: HoloConnection) -> None:
    slot_pair.hologres.rows("ALTER TABLE hologres.hg_replication_progress RENAME TO later; SELECT 1")
    source = source_of(slot_pair, session)
    assert {one.kept for one in source.read_status(None)} == {SlotKept(0)}


@pytest.mark.chaos
def test_positions_that_are_gone_or_of_another_life_are_told_whatever_the_slot_says(slot_pair: HoloPair) -> None:
    followed(slot_pair)
    hologres = slot_pair.hologres
    hologres.rebuild(TABLE, new_id=False)
    slot_pair.mirror.start()
    error = slot_pair.mirror.wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SLOT_LOST, error
