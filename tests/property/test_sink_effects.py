"""Whatever the history and however it is cut into steps: the target is what the oracle says, under every option.

Hundreds of histories with keys of their own go through one step after another, as one lane's changes do; the oracle
applies them one event at a time. Next door: `test_random_runs.py` runs whole jobs under the default options.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from core.domain.spec import SinkOptions
from core.drivers import pg
from core.embedded.postgres import Server
from tests.support.effects import Effects, described
from tests.support.histories import History, history
from tests.support.oracle import Accepts, Event, Image, Oracle, Rules
from tests.support.standin import drop_database

DATABASE = "sink_effects"
HISTORIES = 100
"""How many go through one run of steps together."""
EXAMPLES = 3


@pytest.fixture(scope="module")
def database(pg_server: Server) -> Iterator[str]:
    """A database for the module's targets."""
    connection = pg_server.connect("postgres")
    with connection.cursor() as cursor:
        cursor.execute(pg.sql.SQL("CREATE DATABASE {}").format(pg.sql.Identifier(DATABASE)))
    connection.close()
    yield DATABASE
    drop_database(pg_server, DATABASE)


@pytest.fixture(scope="module")
def whole(pg_server: Server, database: str) -> Iterator[Effects]:
    """A target that has the mirrored columns and no other."""
    effects = Effects(pg_server, database, 'mart.Whole "t"', others=False)
    yield effects
    effects.close()


def even(image: Image) -> bool:
    """A row filter: NULL is not accepted."""
    return image["a"] is not None and int(image["a"]) % 2 == 0


def run(effects: Effects, options: SinkOptions, accepts: Accepts | None, number: int) -> int:
    """One run of HISTORIES histories; the number of their events. Fails with the first history that differs."""
    draw = random.Random(number)
    histories = [history(draw, one) for one in range(HISTORIES)]
    effects.fill([row for one in histories for row in one.target.values()])
    sink = effects.sink(options)
    for cut in itertools.zip_longest(*(one.steps for one in histories), fillvalue=()):
        events: list[Event] = [event for part in cut for event in part]
        draw.shuffle(events)
        effects.step(sink, events, accepts)
    found = effects.rows()
    for one in histories:
        wanted = expected(effects, options, accepts, one)
        got = {key: row for key, row in found.items() if key[0] == one.number}
        assert got == wanted, f"seed {number}, {options}\nbefore {one.target}\n{described(one.events)}"
    return sum(len(one.events) for one in histories)


def expected(effects: Effects, options: SinkOptions, accepts: Accepts | None, one: History) -> dict[object, object]:
    """The history's rows by the oracle."""
    before = dict.fromkeys(effects.others, "before")
    rules = Rules(
        ignore_update_before=options.ignore_update_before,
        ignore_delete=options.ignore_delete,
        accepts=accepts,
        others=effects.others,
    )
    oracle = Oracle(rules, {key: {**row, **before} for key, row in one.target.items()})
    oracle.apply(one.events)
    return dict(oracle.rows)


@pytest.mark.parametrize("accepts", [None], ids=["all rows"])
def test_the_default_mode_makes_what_the_oracle_makes(whole: Effects, seed: int, accepts: Accepts | None) -> None:
    events = 0

    @seeded(seed)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # a failure names its one history already
    )
    @given(st.integers(0, 2**32), st.booleans(), st.booleans())
    def examples(number: int, ignore_delete: bool, ignore_update_before: bool) -> None:
        nonlocal events
        options = SinkOptions(ignore_delete=ignore_delete, ignore_update_before=ignore_update_before)
        events += run(whole, options, accepts, number)

    examples()
    print(f"seed {seed}: {events} events")
