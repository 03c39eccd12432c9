"""Fixtures: the stand-in for Hologres in a separate database, and jobs that read it by SQL or by stream."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import cast

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import BinlogOptions, RetryOptions, TableAsked
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.driver import loop, start
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.slots import reset_apply
from slotkeeper.core.sources import registry
from slotkeeper.core.sources.hologres.kind import KIND, HoloConnection
from slotkeeper.core.sources.hologres.position import HoloPosition
from slotkeeper.demo.hologres.instance import Hologres
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import FAST, MakeMirror, Mirror
from tests.support.standin import drop_database, new_database
from tests.support.waiting import until

TABLE, TARGET = "ods.t", "mart.t"
TEMPLATE = "hologres_template"
SLOT = "orders_rt"
SHARDS = 4
QUICK = replace(FAST, need_redistribution=False, binlog_max_retry_times=2, binlog_read_batch_size=64)
_numbers = itertools.count(1)

Change = tuple[int, int | None]
"""A key and its new value; None deletes it."""
MakeHologres = Callable[..., Hologres]


@pytest.fixture(scope="session")
def hologres_template(pg_server: Server) -> str:
    """The name of a database with the stand-in, four shards and no table; no session stays connected to it."""
    Hologres.install(pg_server, SHARDS, TEMPLATE).close()
    return TEMPLATE


@pytest.fixture
def make_hologres(pg_server: Server, hologres_template: str) -> Iterator[MakeHologres]:
    """A maker of stand-ins, each in a separate database that is dropped with the test."""
    made: list[Hologres] = []

    def make(shards: int = SHARDS) -> Hologres:
        database = f"hologres_{next(_numbers)}"
        if shards == SHARDS:
            new_database(pg_server, database, template=hologres_template)
            made.append(Hologres(pg_server, database))
        else:
            made.append(Hologres.install(pg_server, shards, database))
        return made[-1]

    yield make
    for one in made:
        one.close()
        drop_database(pg_server, one.database)


@pytest.fixture
def hologres(make_hologres: MakeHologres) -> Hologres:
    return make_hologres()


def write(hologres: Hologres, *changes: Change, table: str = TABLE) -> None:
    """Run one transaction over a table `(id, v)`."""
    put = f"INSERT INTO {table} VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v"
    with closing(hologres.connect(False)) as connection, pg.transaction(connection) as cursor:
        for key, value in changes:
            if value is None:
                cursor.execute(f"DELETE FROM {table} WHERE id = %s", (key,))
            else:
                cursor.execute(put, (key, value))


@dataclass
class HoloPair:
    """A job that has not been started, from a table `(id, v)` of the stand-in into a PostgreSQL."""

    hologres: Hologres
    mirror: Mirror

    def write(self, *changes: Change) -> None:
        write(self.hologres, *changes)

    def options(self, **options: object) -> None:
        self.mirror.job = replace(self.mirror.job, binlog=replace(self.mirror.job.binlog, **options))  # type: ignore[arg-type]

    def connection(self) -> HoloConnection:
        """A session of the product, as the ordinary login."""
        kind = registry.open(self.mirror.job.source_kind)
        return cast(HoloConnection, kind.connect(login(self.mirror.job.source, "slotkeeper-test")))

    def read(self, width: int = 1_000_000, forgiven: int = 0) -> tuple[dict[str, bytes], list[SlotkeeperError]]:
        """Each shard's whole binlog as a job reads it, in ranges of this number of records, and the errors."""
        found: dict[str, bytes] = {}
        errors: list[SlotkeeperError] = []
        with closing(self.connection()) as session:
            source = session.table(TableAsked.of(self.mirror.job)).source
            for status in source.read_status(None):
                whole = b""
                at: Position = HoloPosition(0)
                while at < status.latest:
                    end, piece = source.next_range(at, status, width), io.BytesIO()
                    try:
                        source.copy_changes(status.shard, at, end, piece)
                    except SlotkeeperError as error:
                        errors.append(error)
                        if len(errors) > forgiven:
                            raise
                        continue
                    whole, at = whole + piece.getvalue(), end
                found[status.shard.name] = whole
        return found, errors

    def wait_applied(self, records: int, seconds: float = 60) -> None:
        """Wait until the job has applied this number of records."""

        def applied() -> bool:
            if self.mirror.error is not None:
                raise self.mirror.error
            return sum(self.mirror.changes().values()) >= records

        until(applied, seconds, f"{records} records to be applied")

    def shard_of(self, key: int) -> Shard:
        statement = f'SELECT hg_shard_id FROM hg_base."{TABLE}" WHERE id = %s'
        number = int(self.hologres.rows(statement, (key,))[0][0])
        return Shard(f"shard_{number}", number + 1)

    def keys_on(self, shard: Shard, most: int = 1) -> list[int]:
        """Keys of a shard, whether such rows exist or not."""
        statement = (
            "SELECT k FROM generate_series(1, 2000) k WHERE hg_standin.shard_of(ARRAY[k::text], %s) = %s LIMIT %s"
        )
        shards = len(self.hologres.nodes())
        return [int(row[0]) for row in self.hologres.rows(statement, (shards, shard.node_id - 1, most))]


def job_over(
    hologres: Hologres,
    make_mirror: MakeMirror,
    table: str = TABLE,
    target: str = TARGET,
    options: BinlogOptions = QUICK,
) -> Mirror:
    """A job from a table of the stand-in into a PostgreSQL."""
    mirror = make_mirror(cast(Warehouse, hologres), table, target)
    mirror.job = replace(
        mirror.job,
        source=replace(hologres.endpoint(), name="holo1"),
        source_kind="hologres",
        binlog=options,
        retry=RetryOptions(wait_initial=50, wait_max=200, wait_jitter=10),
    )
    return mirror


@pytest.fixture
def holo_pair(hologres: Hologres, make_mirror: MakeMirror) -> HoloPair:
    """A job over `ods.t (id bigint, v bigint)`, which is empty."""
    hologres.create_table(TABLE, "id bigint, v bigint", ("id",))
    return HoloPair(hologres, job_over(hologres, make_mirror))


@pytest.fixture
def slot_pair(holo_pair: HoloPair, monkeypatch: pytest.MonkeyPatch) -> HoloPair:
    """The same job whose slot the server keeps, at a version that has streams to slots only.

    The job does not wait for late calls of a killed driver: no test here leaves such a call behind.
    """
    monkeypatch.setattr(start, "LOST_ANSWER_WAIT", 0.0)
    monkeypatch.setattr(loop, "LOST_ANSWER_WAIT", 0.0)
    monkeypatch.setattr(reset_apply, "LOST_ANSWER_WAIT", 0.0)
    holo_pair.hologres.let_replicate(TABLE)
    holo_pair.hologres.version("Hologres 1.3.41 (stand-in, not Hologres)")
    holo_pair.mirror.job = replace(holo_pair.mirror.job, source_kind="hologres_slot", slot=SLOT)
    return holo_pair


def kinds(rows: Sequence[tuple[int, int, int]]) -> list[int]:
    return [kind for _, _, kind in rows]


__all__ = ["KIND", "holo_pair", "hologres", "hologres_template", "make_hologres", "slot_pair"]


def hang_one_shard(pair: HoloPair) -> None:
    """Check that other shards' changes arrive while one shard hangs, and that shard's once it answers."""
    hung = pair.shard_of(1)
    others = [key for key in range(1, 41) if pair.shard_of(key) != hung][:5]
    pair.hologres.faults.hang(hung.node_id - 1)
    pair.write(*((key, 500) for key in others))
    statement = "SELECT count(*) FROM mart.t WHERE v = 500"
    until(lambda: pair.mirror.query(pair.mirror.sink, statement)[0][0] == 5, 60, "the other shards' changes")
    pair.hologres.faults.release()
    pair.write((1, 500))
    pair.mirror.wait_equal()
    pair.mirror.stop()
