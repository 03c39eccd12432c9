"""Whole jobs that meet bad rows: in the copy, in the stream, up to the limit, and what replays make of them.

Next door: `test_quarantine.py` has each rule by itself.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from core.domain.quarantine import Held, HeldState, Wanted
from core.domain.spec import ChannelSpec, SinkOptions
from core.embedded.warehouse import Warehouse
from core.errors import Trouble, TroubleName
from core.state.folder import StateFolder
from core.wiring_quarantine import looking, replay
from tests.support import standin
from tests.support.mirror import MakeMirror, Mirror

TABLE = "ods.t"
CHECKS = {
    1: ("n <> 1", "x", "23514"),
    2: ("n <> 2 OR v::integer > 0", "x", "22P02"),
    3: ("n <> 3 OR v::smallint > 0", "99999", "22003"),
    4: ("n <> 4 OR v::date > '2000-01-01'", "2026-02-30", "22008"),
    5: ("n <> 5 OR v::date > '2000-01-01'", "never", "22007"),
    6: ("n <> 6 OR 100 / length(v) > 0", "", "22012"),
    7: ("n <> 7 OR ln(length(v)) > 0", "", "2201E"),
    8: ("n <> 8 OR sqrt(-length(v)) > 0", "x", "2201F"),
    9: ("n <> 9 OR substring(v FROM 1 FOR -1) > ''", "x", "22011"),
    10: ("n <> 10 OR v ~ v", "(", "2201B"),
    11: ("n <> 11 OR decode(v, 'hex') > ''", "xyz", "22023"),
}
"""Conditions of the target by the number that meets them: the text that violates each, and the SQLSTATE of that."""
KINDS = len(CHECKS) + 1
"""With the text that must not be NULL, number 12."""
TEXTS = " ".join(f"WHEN {n} THEN '{text}'" for n, (_, text, _) in CHECKS.items())


def rows(first: int, last: int, every: int) -> str:
    """INSERT of rows, one of `every` bad: its number says how."""
    bad = f"CASE WHEN g % {every} = 0 THEN 1 + (g / {every}) % {KINDS} ELSE 0 END"
    return (
        f"INSERT INTO {TABLE} SELECT g, n, CASE n WHEN {KINDS} THEN NULL {TEXTS} ELSE 'row ' || g END"
        f" FROM (SELECT g, {bad} AS n FROM generate_series({first}, {last}) g) s"
    )


def mirror_of(warehouse: Warehouse, make_mirror: MakeMirror, limit: int = 100, existing: str = "refuse") -> Mirror:
    """A job that holds bad rows, into a target with all those conditions."""
    warehouse.create_table(TABLE, "id bigint NOT NULL, n integer, v text", ("id",))
    mirror = make_mirror(warehouse, TABLE)
    mirror.job = replace(
        mirror.job,
        on_existing=existing,
        channels=(ChannelSpec(TABLE, "mart.orders"),),
        sink_options=SinkOptions(auto_flush_batch_size=2_000, on_bad_row="quarantine", quarantine_limit=limit),
    )
    checks = "".join(f", CONSTRAINT c{n} CHECK ({check})" for n, (check, *_) in CHECKS.items())
    mirror.at_sink(
        "CREATE SCHEMA mart", f"CREATE TABLE mart.orders (id bigint PRIMARY KEY, n integer, v text NOT NULL{checks})"
    )
    return mirror


def cure(mirror: Mirror) -> None:
    drops = ", ".join(f"DROP CONSTRAINT c{n}" for n in CHECKS)
    mirror.at_sink(f"ALTER TABLE mart.orders {drops}, ALTER COLUMN v DROP NOT NULL")


def entries(mirror: Mirror, *states: HeldState) -> list[Held]:
    with looking(mirror.job) as found:
        return found.page(Wanted(states or (HeldState.HELD,), slot=mirror.job.slot, limit=10_000))


def wait_applied(mirror: Mirror, events: int, seconds: float = 120) -> None:
    mirror._until(lambda: sum(mirror.changes().values()) >= events, seconds, f"{events} events")


def hundred_bad(warehouse: Warehouse, make_mirror: MakeMirror, folder: StateFolder, half: int) -> dict[str, float]:
    """50 bad rows in a copy of `half` rows, 50 in as many streamed ones; then one more, the cure, and replays."""
    mirror, took = mirror_of(warehouse, make_mirror), {}
    standin.run(warehouse, rows(1, half, half // 50))
    began = time.monotonic()
    mirror.start().wait_running(120)
    took["copy"] = time.monotonic() - began
    assert len(entries(mirror)) == 50
    began = time.monotonic()
    mirror.source(rows(half + 1, 2 * half, half // 50))
    wait_applied(mirror, half)
    took["stream"] = time.monotonic() - began
    found = entries(mirror)
    assert len(found) == 100
    assert len({one.sqlstate for one in found}) >= 10
    assert {one.sqlstate for one in found} == {"23502", *(code for *_, code in CHECKS.values())}
    assert all(one.constraint or one.column or one.sqlstate.startswith("22") for one in found)
    assert {one.shard for one in found if one.kind == "I"} <= {"dn_1", "dn_2", "dn_3", "dn_4"}
    assert mirror.difference() == (100, 0)

    mirror.source(f"UPDATE {TABLE} SET n = 1, v = 'one more' WHERE id = 1")
    error = mirror.wait_error()
    assert isinstance(error, Trouble)
    assert error.name is TroubleName.QUARANTINE_FULL
    assert "quarantine_limit = 100" in str(error)
    assert len(entries(mirror)) == 100

    cure(mirror)
    began = time.monotonic()
    done = replay(mirror.job, folder, [one.id for one in found], "the checks are gone")
    took["replay"] = time.monotonic() - began
    assert {one.state for one in done} == {HeldState.REPLAYED}
    assert entries(mirror) == []
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    assert all(one.nothing_done for one in replay(mirror.job, folder, [found[0].id], "again"))
    return took


def test_bad_rows_are_held_and_the_others_mirrored(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    took = hundred_bad(warehouse, make_mirror, StateFolder.open(tmp_path), 10_000)
    print({name: round(seconds, 2) for name, seconds in took.items()})


@pytest.mark.chaos
def test_a_hundred_bad_rows_among_a_hundred_thousand(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    took = hundred_bad(warehouse, make_mirror, StateFolder.open(tmp_path), 50_000)
    print({name: round(seconds, 2) for name, seconds in took.items()})
