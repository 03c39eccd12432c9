"""A job from the DWS stand-in into the stand-in for a Hologres, with PostgreSQL as its store, run by
the local runner.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.spec import ChannelSpec, RetryOptions, SinkOptions
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.verify.compare import compare, open_pair
from slotkeeper.demo.hologres.sink_side import HologresSinkSide
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import drop_database, new_database
from tests.support.waiting import until

TABLE, TARGET = "ods.t", "mart.t"
_numbers = itertools.count(1)


@dataclass
class HologresPair:
    """A job that has not been started, the warehouse that it reads and the stand-in that it writes."""

    mirror: Mirror
    warehouse: Warehouse
    hologres: HologresSinkSide

    def write(self, *changes: tuple[int, int | None]) -> None:
        """One transaction of the source: keys and new values; None deletes."""
        put = f"INSERT INTO {TABLE} VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v"
        with closing(self.warehouse.connect(False)) as connection:
            with connection.cursor() as cursor:
                for key, value in changes:
                    if value is None:
                        cursor.execute(f"DELETE FROM {TABLE} WHERE id = %s", (key,))
                    else:
                        cursor.execute(put, (key, value))
            connection.commit()

    def options(self, **given: object) -> None:
        """Change the sink's options of the job."""
        options: SinkOptions = replace(self.mirror.job.sink_options, **given)  # type: ignore[arg-type]
        self.mirror.job = replace(self.mirror.job, sink_options=options)

    def equal(self) -> bool:
        """Whether both tables are the same, as `verify` reads them."""
        job = self.mirror.job
        left = sources.open(job.source_kind).tables(login(job.source, "verify"), 10_000)
        right = sinks.open(job.sink_kind).tables(login(job.sink, "verify"), 10_000)
        with closing(left), closing(right):
            return compare(*open_pair(left.table, TABLE, right.table, TARGET)).equal

    def wait_equal(self, seconds: float = 60) -> None:
        """Wait until they are."""
        self.wait(self.equal, seconds)

    def wait(self, reached: object, seconds: float = 60) -> None:
        """Wait for a condition while the job runs."""

        def asked() -> bool:
            if self.mirror.error is not None:
                raise self.mirror.error
            return bool(reached())  # type: ignore[operator]

        until(asked, seconds, "the target to be as expected")

    def repeats(self) -> int:
        """Rows that the store has counted as repeated."""
        return sum(row.repeats for row in self.mirror.rows())


@pytest.fixture
def hologres_pair(warehouse: Warehouse, make_mirror: MakeMirror) -> Iterator[HologresPair]:
    """A job over a table `(id, v)`, not started."""
    warehouse.create_table(TABLE, "id bigint, v bigint", ("id",), ("id",))
    mirror, database = make_mirror(warehouse, TABLE, TARGET), f"holo_{next(_numbers)}"
    new_database(warehouse.server, database)
    hologres = HologresSinkSide(warehouse.server, database)
    hologres.create(TARGET, "id bigint, v bigint", ("id",))
    mirror.job = replace(
        mirror.job,
        channels=(ChannelSpec(TABLE, TARGET),),
        sink=replace(warehouse.server.endpoint(database), name="holo"),
        sink_kind="hologres",
        store=mirror.job.sink,
        store_kind=mirror.job.sink_kind,
        retry=RetryOptions(wait_initial=1, wait_max=50, wait_jitter=1),
    )
    yield HologresPair(mirror, warehouse, hologres)
    mirror.close()
    drop_database(warehouse.server, database)
