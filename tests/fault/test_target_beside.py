"""Somebody changes a target at a Doris or a Hologres: named within seconds or at the start, as far as these servers tell.

Next door: `test_target_changed.py` has the same for a sink that is its own store; `docs/delivery.md` what is not noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from core.drivers import pg
from core.errors import Trouble, TroubleName
from tests.support.doris_pair import TARGET, DorisPair
from tests.support.hologres_pair import HologresPair
from tests.support.waiting import until

SQL = pg.sql.SQL
ROWS = tuple((key, key) for key in range(1, 31))


def _doris_exchange(pair: DorisPair) -> None:
    pair.doris.create("mart.other", "id BIGINT NOT NULL, v BIGINT", ("id",))
    pair.doris.tables.take_place("mart", "t", "other")


def _doris_remake(pair: DorisPair) -> None:
    pair.doris.tables.drop("mart", "t")
    pair.doris.create(TARGET, "id BIGINT NOT NULL, v BIGINT", ("id",))


DORIS: dict[str, Callable[[DorisPair], None]] = {
    "truncated": lambda pair: pair.doris.tables.truncate("mart", "t"),
    "made anew": _doris_remake,
    "exchanged": _doris_exchange,
    "a column dropped": lambda pair: pair.doris.tables.drop_column("mart", "t", "v"),
    "emptied": lambda pair: pair.doris.tables.delete_all("mart", "t"),
}


def _holo_remake(pair: HologresPair) -> None:
    pair.hologres.drop(TARGET)
    pair.hologres.create(TARGET, "id bigint, v bigint", ("id",))


def _holo_exchange(pair: HologresPair) -> None:
    pair.hologres.create("mart.other", "id bigint, v bigint", ("id",))
    pair.hologres.run(SQL("ALTER TABLE mart.t RENAME TO old"), SQL("ALTER TABLE mart.other RENAME TO t"))


HOLOGRES: dict[str, Callable[[HologresPair], None]] = {
    "truncated": lambda pair: pair.hologres.run(SQL("TRUNCATE mart.t")),
    "made anew": _holo_remake,
    "exchanged": _holo_exchange,
    "a column dropped": lambda pair: pair.hologres.run(SQL("ALTER TABLE mart.t DROP COLUMN v")),
    "emptied": lambda pair: pair.hologres.run(SQL("DELETE FROM mart.t")),
}


def _followed(pair: DorisPair | HologresPair) -> None:
    pair.write(*ROWS)
    pair.mirror.start().wait_running()
    pair.write((1, -1))
    pair.wait_equal()
    until(lambda: confirmed(pair), 30, "the source to be told")


def confirmed(pair: DorisPair | HologresPair) -> bool:
    """Whether the source was told of all that the target has."""
    return all(
        row.registered is not None and row.position is not None and row.registered.at(row.position) == row.registered
        for row in pair.mirror.rows()
    )


def _named(pair: DorisPair | HologresPair, running: bool, act: str) -> None:
    error = pair.mirror.wait_error()
    assert act == "a column dropped" or isinstance(error, Trouble), error
    if isinstance(error, Trouble):
        assert error.name is TroubleName.TARGET_CHANGED, error
    assert TARGET in error.message, error
    assert not running or isinstance(error, Trouble), error


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
@pytest.mark.parametrize("act", DORIS)
def test_an_act_on_a_doris_is_named(doris_pair: DorisPair, act: str, running: bool) -> None:
    _followed(doris_pair)
    if not running:
        doris_pair.mirror.stop()
    DORIS[act](doris_pair)
    if not running:
        doris_pair.mirror.start()
    _named(doris_pair, running, act)


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
@pytest.mark.parametrize("act", HOLOGRES)
def test_an_act_on_a_hologres_is_named(hologres_pair: HologresPair, act: str, running: bool) -> None:
    _followed(hologres_pair)
    if not running:
        hologres_pair.mirror.stop()
    HOLOGRES[act](hologres_pair)
    if not running:
        hologres_pair.mirror.start()
    _named(hologres_pair, running, act)


def _goes_on(pair: DorisPair | HologresPair) -> None:
    """All rows go by the job's own events and come again; at a start as well."""
    for restarted in (False, True):
        pair.write(*((key, None) for key, _ in ROWS))
        pair.wait_equal()
        until(lambda: confirmed(pair), 30, "the source to be told of the deletes")
        pair.write(*ROWS)
        pair.wait_equal()
        until(lambda: confirmed(pair), 30, "the source to be told")
        if not restarted:
            pair.mirror.stop()
            pair.mirror.start().wait_running()


def test_loads_and_a_source_that_deletes_all_raise_nothing_at_a_doris(doris_pair: DorisPair) -> None:
    _followed(doris_pair)
    _goes_on(doris_pair)


def test_harmless_acts_and_a_source_that_deletes_all_raise_nothing_at_a_hologres(hologres_pair: HologresPair) -> None:
    _followed(hologres_pair)
    acts = (
        "ANALYZE mart.t",
        "VACUUM mart.t",
        "GRANT SELECT ON mart.t TO public",
        "ALTER TABLE mart.t ADD COLUMN n text",
    )
    with closing(hologres_pair.hologres.server.connect(hologres_pair.hologres.database)) as line:
        line.autocommit = True
        for act in acts:
            line.cursor().execute(act)
    _goes_on(hologres_pair)


def test_without_the_right_to_see_partitions_rows_and_columns_are_compared(doris_pair: DorisPair) -> None:
    pair = doris_pair
    pair.doris.tables.tells_partitions = False
    _followed(pair)
    pair.doris.tables.tells_partitions = True  # what was never told proves nothing
    _goes_on(pair)
    pair.doris.tables.tells_partitions = False
    pair.mirror.stop()
    pair.doris.tables.drop_column("mart", "t", "v")
    pair.mirror.start()
    _named(pair, False, "a column dropped")
