"""From Hologres into another Hologres, and into Doris: each pair copied, followed through kills, and compared."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.spec import ChannelSpec, RetryOptions
from slotkeeper.core.services.doctor import promise_of
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.verify.compare import compare, open_pair
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.hologres.sink_side import HologresSinkSide
from slotkeeper.demo.postgres import Server
from tests.support.hologres import TABLE, TARGET, HoloPair
from tests.support.pairs import doris_endpoint
from tests.support.sqlite_pair.kills import Kills
from tests.support.standin import drop_database, new_database
from tests.support.waiting import until

_numbers = itertools.count(1)
Into = Callable[[str, Endpoint], "Pair"]


@dataclass
class Pair:
    """A job from the stand-in for Hologres into a sink with a separate store."""

    holo: HoloPair

    def equal(self) -> bool:
        """Whether both tables are the same, as `verify` reads them."""
        job = self.holo.mirror.job
        if self.holo.mirror.error is not None:
            raise self.holo.mirror.error
        left = sources.open(job.source_kind).tables(login(job.source, "verify"), 10_000)
        right = sinks.open(job.sink_kind).tables(login(job.sink, "verify"), 10_000)
        with closing(left), closing(right):
            return compare(*open_pair(left.table, TABLE, right.table, TARGET)).equal

    def copied_and_followed(self, chance: random.Random, turns: int) -> None:
        """Copy, follow updates of both kinds and deletes, and compare."""
        holo, mirror = self.holo, self.holo.mirror
        holo.write(*((key, key) for key in range(1, 101)))
        mirror.start().wait_running()
        for turn in range(turns):
            holo.hologres.updates_as("2+5" if turn % 2 else "3+7")
            some = chance.sample(range(1, 140), 15)
            holo.write(*((key, None if chance.random() < 0.3 else chance.randrange(1_000)) for key in some))
        until(self.equal, 60, "both tables to be equal")
        mirror.stop()
        print(promise_of(mirror.job), f"repeats {sum(row.repeats for row in mirror.rows())}")

    def killed(self, chance: random.Random, count: int) -> None:
        holo, mirror = self.holo, self.holo.mirror
        kills = Kills(chance)
        holo.options(binlog_parallel_num=1, full_sync_binlog_batch_read_size=9)
        holo.write(*((key, key) for key in range(1, 61)))
        mirror.make_runner = lambda: kills.runner(mirror.capacity)
        mirror.start(lambda point: kills.here(f"at {point}")).wait_running()

        def hit() -> bool:
            if mirror.error is not None:
                raise mirror.error
            some = chance.sample(range(1, 90), chance.randint(1, 12))
            holo.write(*((key, None if chance.random() < 0.3 else chance.randrange(1_000)) for key in some))
            return kills.hit.wait(0.05)

        for _ in range(count):
            kills.arm()
            until(hit, 60, "a worker to be killed")
        kills.disarm()
        kills.wait_for_all()
        # a worker that continued unnoticed may have left an older row: the key's next change replaces it
        holo.write(*((key, 7_000 + key) for key in range(1, 90)))
        until(self.equal, 90, "both tables to be equal")
        mirror.stop()
        print(f"{sum(kills.at.values())} kills, repeats {sum(row.repeats for row in mirror.rows())}")


@pytest.fixture
def into(holo_pair: HoloPair) -> Iterator[Into]:
    """Replace the job's sink, with its PostgreSQL as the store."""

    def made(kind: str, sink: Endpoint) -> Pair:
        job = holo_pair.mirror.job
        holo_pair.mirror.job = replace(
            job,
            channels=(ChannelSpec(TABLE, TARGET),),
            sink=sink,
            sink_kind=kind,
            store=job.sink,
            store_kind=job.sink_kind,
            retry=RetryOptions(wait_initial=1, wait_max=50, wait_jitter=1),
        )
        return Pair(holo_pair)

    yield made
    holo_pair.mirror.close()


@pytest.fixture
def to_hologres(into: Into, pg_server: Server) -> Iterator[Pair]:
    database = f"of_holo_{next(_numbers)}"
    new_database(pg_server, database)
    HologresSinkSide(pg_server, database).create(TARGET, "id bigint, v bigint", ("id",))
    pair = into("hologres", replace(pg_server.endpoint(database), name="holo2"))
    yield pair
    pair.holo.mirror.close()
    drop_database(pg_server, database)


@pytest.fixture
def to_doris(into: Into, doris: DorisStandin) -> Pair:
    return into("doris", doris_endpoint(doris))


@pytest.mark.parametrize("way", [pytest.param("sql", marks=pytest.mark.chaos), "stream"])
def test_a_hologres_is_mirrored_into_a_hologres_at_least_once(to_hologres: Pair, way: str, seed: int) -> None:
    print(f"seed {seed}")
    to_hologres.holo.options(read_by=way)
    to_hologres.copied_and_followed(random.Random(seed), 6)
    assert promise_of(to_hologres.holo.mirror.job) == "each change takes effect at least once; repeats are counted"


@pytest.mark.chaos
@pytest.mark.parametrize("way", ["sql", "stream"])
def test_a_hologres_is_mirrored_into_a_doris(to_doris: Pair, way: str, seed: int) -> None:
    print(f"seed {seed}")
    to_doris.holo.options(read_by=way)
    to_doris.copied_and_followed(random.Random(seed), 6)
    assert promise_of(to_doris.holo.mirror.job).startswith("each change takes effect")


@pytest.mark.chaos
@pytest.mark.parametrize("into_kind", ["to_hologres", "to_doris"])
def test_killed_workers_of_these_pairs_lose_nothing(request: pytest.FixtureRequest, into_kind: str, seed: int) -> None:
    print(f"seed {seed}")
    pair: Pair = request.getfixturevalue(into_kind)
    pair.holo.options(read_by="stream")
    pair.killed(random.Random(seed), 20)
