"""Views in the sink stay equal to a fresh SELECT, over tiny random rounds; every deliberate mistake is found."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

from slotkeeper.core.domain.views import ViewState
from slotkeeper.core.errors import Superseded
from slotkeeper.core.sinks.postgres.views.rounds import Mutant
from slotkeeper.core.views.plan import View
from slotkeeper.core.views.statements import Names
from slotkeeper.demo.postgres import Server
from tests.support.standin import drop_database, new_database
from tests.support.views import TABLES, Layers, transaction

_numbers = itertools.count(1)
ROUNDS = 150


@pytest.fixture
def layers(pg_server: Server) -> Iterator[Layers]:
    database = f"layers_{next(_numbers)}"
    new_database(pg_server, database, *TABLES.strip().split(";"))
    made = Layers(pg_server, database)
    yield made
    made.close()
    drop_database(pg_server, database)


def test_every_view_equals_its_select_after_each_of_many_tiny_rounds(layers: Layers, seed: int) -> None:
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(8):
        layers.run(*transaction(draw))
    views, epoch = layers.built()
    assert layers.wrong() == {}
    for number in range(ROUNDS):
        changes = transaction(draw)
        layers.run(*changes)
        found = views.round(epoch)
        assert found.stale == {}, (number, changes)
        assert layers.wrong() == {}, (number, changes)
    assert {row.state for row in views.rows()} == {ViewState.RUNNING}


def first_wrong(layers: Layers, mutant: Mutant, seed: int, most: int = ROUNDS) -> int:
    """The number of the first random round after which a mutant's views are wrong; 0 if there is none."""
    draw = random.Random(seed)
    views, epoch = layers.built(mutant)
    for number in range(1, most + 1):
        layers.run(*transaction(draw))
        views.round(epoch)
        if layers.wrong():
            return number
    return 0


@pytest.mark.parametrize("mutant", [Mutant(extends=False), Mutant(clears=False)], ids=["no extension", "kept deltas"])
def test_a_round_that_leaves_null_extended_keys_out_or_keeps_deltas_is_found(
    layers: Layers, mutant: Mutant, seed: int
) -> None:
    print(f"seed {seed}")
    assert first_wrong(layers, mutant, seed) > 0


@pytest.mark.parametrize("mutant", [Mutant(), Mutant(snapshot=False)], ids=["snapshot", "no snapshot"])
def test_a_change_between_two_statements_of_a_round_is_lost_only_without_one_snapshot(
    layers: Layers, mutant: Mutant
) -> None:
    layers.views = layers.views[:2]
    views, epoch = layers.built(mutant)

    def commit_meanwhile(point: str) -> None:
        if point == "keys_found":
            views.probe = lambda _: None
            layers.run("INSERT INTO ods.orders VALUES (2, NULL, 'b')")

    views.probe = commit_meanwhile
    layers.run("INSERT INTO ods.orders VALUES (1, NULL, 'a')")
    views.round(epoch)
    views.round(epoch)
    assert bool(layers.wrong()) is not mutant.snapshot


@pytest.mark.parametrize("early", [False, True], ids=["in the round", "at capture"])
def test_keys_of_two_concurrent_changes_are_lost_only_if_they_are_found_at_capture(layers: Layers, early: bool) -> None:
    layers.views = layers.views[1:2]
    found: list[tuple[str, str]] = []

    def captured_early(view: View, names: Names, changed: Sequence[str]) -> str:
        rows = [f"('{region}', '{status}')" for region, status in found] or ["(NULL, NULL)"]
        return f"INSERT INTO {names.keys} SELECT * FROM (VALUES {', '.join(rows)}) k WHERE column1 IS NOT NULL"

    views, epoch = layers.built(Mutant(keys=captured_early) if early else None)
    joined = "SELECT c.region, o.status FROM ods.orders o JOIN ods.customers c ON c.id = o.cust"
    one, other = layers.server.connect(layers.database), layers.server.connect(layers.database)
    try:
        with one.cursor() as first, other.cursor() as second:
            for cursor, change in (
                (first, "INSERT INTO ods.orders VALUES (1, 1, 'a')"),
                (second, "INSERT INTO ods.customers VALUES (1, 'r0', 1)"),
            ):
                cursor.execute("BEGIN")
                cursor.execute(change)
                cursor.execute(joined)
                found += cursor.fetchall()  # what a trigger of this transaction can find
            first.execute("COMMIT")
            second.execute("COMMIT")
    finally:
        one.close()
        other.close()
    views.round(epoch)
    assert bool(layers.wrong()) is early


@pytest.mark.parametrize("mutant", [Mutant(), Mutant(fence=False)], ids=["fence", "no fence"])
def test_a_round_of_an_earlier_driver_ends_at_the_fence(layers: Layers, mutant: Mutant) -> None:
    layers.views = layers.views[:2]
    old, epoch = layers.built(mutant)
    layers.maintained().enter()
    layers.run("INSERT INTO ods.orders VALUES (1, NULL, 'a')")
    if mutant.fence:
        with pytest.raises(Superseded):
            old.round(epoch)
    else:
        assert old.round(epoch).applied  # the mistake: it wrote
