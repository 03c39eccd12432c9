"""A killed driver leaves a registration in flight: it never takes effect after the next start's first check."""

from __future__ import annotations

import threading

import pytest

from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.engine.driver import start
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.source import LOST_ANSWER_WAIT
from slotkeeper.core.sources.dws.position import points_of
from slotkeeper.core.sources.dws.session import REGISTER_LIMIT_MS
from slotkeeper.core.sources.dws.slot import DwsTable
from slotkeeper.core.wiring import worker
from slotkeeper.demo import facts
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror, orders, written
from tests.support.waiting import until


class LeftBehind(threading.Thread):
    """A registration, by the product's code under an older epoch's name, that a lock at the source holds up."""

    def __init__(self, mirror: Mirror, through: str = "") -> None:
        super().__init__(daemon=True)
        row = mirror.rows()[0]
        assert row.registered
        self.shard, self.point = Shard(row.key.shard, row.node_id), points_of(row.registered).live or 0
        self.error: SlotkeeperError | None = None
        admin = (
            worker.source_session(mirror.job, f"{row.epoch}/r/{row.node_id}{through}")
            .table(TableAsked.of(mirror.job))
            .slot
        )
        assert isinstance(admin, DwsTable)
        self._admin = admin
        self._mirror = mirror
        self._blocker = mirror.warehouse.connect(False)
        with self._blocker.cursor() as cursor:
            cursor.execute("SELECT 1 FROM dws.slot WHERE slot_name = %s FOR UPDATE", (mirror.job.slot,))
        self.start()
        until(self.waits, 10, "the registration to hang")

    def run(self) -> None:
        try:
            self._admin.register(self.shard, self.point + 1, False, 3)
        except SlotkeeperError as error:
            self.error = error

    def waits(self) -> bool:
        statement = (
            "SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE wait_event_type = 'Lock' AND query LIKE '%register%'"
        )
        return bool(self._mirror.query(self._mirror.warehouse.connect, statement)[0][0])

    def let_go(self) -> None:
        self._blocker.rollback()
        self._blocker.close()
        self.join(240)
        assert not self.is_alive()
        self._admin.session.close()


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, seed: int) -> Mirror:
    made = orders(make_mirror, warehouse, seed)
    made.start().wait_running()
    made.stop()
    return made


def test_the_next_start_ends_it(mirror: Mirror, seed: int) -> None:
    left = LeftBehind(mirror)
    mirror.start().wait_running()
    assert not left.waits()
    left.let_go()
    assert left.error is not None, "its call had no effect"
    with written(mirror, seed):
        pass
    mirror.wait_applied(mirror.booked())
    mirror.stop()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["not allowed", "at another coordinator"])
def test_where_it_cannot_be_ended_the_next_start_waits_until_it_cannot_land(
    elsewhere: bool, mirror: Mirror, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LOST_ANSWER_WAIT * 1000 > REGISTER_LIMIT_MS
    share = 0.2
    monkeypatch.setattr(start, "LOST_ANSWER_WAIT", LOST_ANSWER_WAIT * share)
    monkeypatch.setattr("slotkeeper.core.sources.dws.source.REGISTER_LIMIT_MS", int(REGISTER_LIMIT_MS * share))
    if elsewhere:
        facts.second_coordinator(mirror.warehouse)
    else:
        monkeypatch.setattr(DwsTable, "end_sessions", lambda *_: False)
    polled: list[bool] = []
    status = DwsTable.read_status
    left = LeftBehind(mirror, facts.THROUGH_SECOND if elsewhere else "")

    def looked(self: DwsTable, shard: Shard | None) -> list[SlotStatus]:
        polled.append(left.waits())
        return status(self, shard)

    monkeypatch.setattr(DwsTable, "read_status", looked)
    mirror.start().wait_running()
    assert polled
    assert not any(polled), "no check ran in the meantime"
    left.let_go()
    with written(mirror, seed):
        pass
    mirror.wait_applied(mirror.booked())
    mirror.stop()


def test_the_lock_that_holds_it_up_is_real(mirror: Mirror) -> None:
    left = LeftBehind(mirror)
    left.let_go()
    assert left.error is None
    seen = "SELECT max(sync_point) FROM dws.slot WHERE slot_name = %s"
    connection = mirror.warehouse.connect()
    with connection.cursor() as cursor:
        cursor.execute(seen, (mirror.job.slot,))
        assert cursor.fetchall() == [(left.point + 1,)], (
            "if it is not ended, it is committed as soon as it is no longer blocked"
        )
    connection.close()
