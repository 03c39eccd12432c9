"""A job from the DWS stand-in into the stand-in for Doris, with PostgreSQL as its store, run by the local runner."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.domain.spec import ChannelSpec, RetryOptions
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.verify.compare import compare, open_pair
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.waiting import until

PASSWORD, VARIABLE = "geheim-doris-1", "SLOTKEEPER_TEST_DORIS"
TABLE, TARGET = "ods.t", "mart.t"


@pytest.fixture
def doris(monkeypatch: pytest.MonkeyPatch) -> Iterator[DorisStandin]:
    """A stand-in of the test's own, with one table."""
    monkeypatch.setenv(VARIABLE, PASSWORD)
    with DorisStandin(password=PASSWORD) as made:
        made.create(TARGET, "id BIGINT NOT NULL, v BIGINT", ("id",))
        yield made


def endpoint(doris: DorisStandin) -> Endpoint:
    """Where it is, as a job names it."""
    ports = doris.ports
    where = Endpoint("dor", doris.host, ports.query, f"{doris.host}:{ports.frontend}", doris.user)
    return replace(where, password=SecretRef("env", VARIABLE), http_port=ports.frontend, sslmode="disable")


@dataclass
class DorisPair:
    """A job that has not been started, the warehouse that it reads and the Doris that it writes."""

    mirror: Mirror
    warehouse: Warehouse
    doris: DorisStandin

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

    def equal(self) -> bool:
        """Whether both tables are the same, as `verify` reads them."""
        job = self.mirror.job
        left = sources.open(job.source_kind).tables(login(job.source, "verify"), 10_000)
        right = sinks.open(job.sink_kind).tables(login(job.sink, "verify"), 10_000)
        with closing(left), closing(right):
            return compare(*open_pair(left.table, TABLE, right.table, TARGET)).equal

    def wait_equal(self, seconds: float = 60) -> None:
        """Wait until they are."""

        def reached() -> bool:
            if self.mirror.error is not None:
                raise self.mirror.error
            return self.equal()

        until(reached, seconds, "source and target to be equal")

    def repeats(self) -> int:
        """Rows that the store has counted as repeated."""
        return sum(row.repeats for row in self.mirror.rows())


@pytest.fixture
def doris_pair(warehouse: Warehouse, make_mirror: MakeMirror, doris: DorisStandin) -> DorisPair:
    """A job over a table `(id, v)`, not started."""
    warehouse.create_table(TABLE, "id bigint, v bigint", ("id",), ("id",))
    mirror = make_mirror(warehouse, TABLE, TARGET)
    mirror.job = replace(
        mirror.job,
        channels=(ChannelSpec(TABLE, TARGET),),
        sink=endpoint(doris),
        sink_kind="doris",
        store=mirror.job.sink,
        store_kind=mirror.job.sink_kind,
        retry=RetryOptions(wait_initial=1, wait_max=50, wait_jitter=1),
    )
    return DorisPair(mirror, warehouse, doris)
