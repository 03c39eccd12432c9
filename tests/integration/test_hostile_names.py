"""Hostile names and values through a real job at both ends: equal or refused, and no raw character is printed."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.config import values
from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.services.verify import verify
from slotkeeper.core.sqltext import dotted
from slotkeeper.demo.warehouse import Warehouse
from tests.support import hostile
from tests.support.hostile import literal, quoted
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.standin import MakeWarehouse, run

COUNTS = [pytest.param(20, id="twenty"), pytest.param(200, id="two hundred", marks=pytest.mark.chaos)]
WIDE = 50
"""Columns of a table; tables of a job."""
VICTIM = (
    "CREATE TABLE public.victim (id bigint PRIMARY KEY)",
    "INSERT INTO public.victim SELECT generate_series(1, 9)",
)


@pytest.fixture
def small(make_warehouse: MakeWarehouse) -> Warehouse:
    """One DN, so that many tables have few lanes."""
    made = make_warehouse(1)
    run(made, *VICTIM)
    return made


@pytest.mark.parametrize("count", COUNTS)
def test_columns_of_hostile_names_with_hostile_values_are_mirrored(
    small: Warehouse, make_mirror: MakeMirror, seed: int, count: int
) -> None:
    """Each text is a column at both ends, a value of each of them, and a value of the key."""
    print(f"seed {seed}")
    texts = hostile.texts(count, seed)
    groups = [texts[at : at + WIDE] for at in range(0, count, WIDE)]
    channels = []
    for number, group in enumerate(groups):
        table = f"ods.t{number}"
        shape = ", ".join(f"{quoted(name)} text" for name in group)
        small.create_table(table, f"{shape}, part integer", (group[0], group[-1], "part"))
        run(small, *(_row(table, group, text, n) for n, text in enumerate(texts)))
        channels.append(ChannelSpec(table, f"mart.t{number}", create_target=True))
    mirror = _mirror(small, make_mirror, channels)
    mirror.start().wait_running()
    for number, group in enumerate(groups):
        key, name = quoted(group[0]), quoted(group[len(group) // 2])
        small_changes = [
            f"UPDATE ods.t{number} SET {name} = {name} || {literal(text)} WHERE part = {n}"
            for n, text in enumerate(texts)
        ]
        moved = f"UPDATE ods.t{number} SET {quoted(group[-1])} = {key} || 'x' WHERE part = 3"
        mirror.source(*small_changes, moved, f"DELETE FROM ods.t{number} WHERE {key} = {literal(texts[5])}")
    mirror.wait_equal(120)
    mirror.stop()
    for part in mirror.job.narrowed:
        assert verify(part, False, lambda *_: None).equal, part.channel.source_table
    _intact(mirror)


def _row(table: str, names: list[str], text: str, number: int) -> str:
    return f"INSERT INTO {table} VALUES ({', '.join([literal(text)] * len(names))}, {number})"


@pytest.mark.parametrize("count", COUNTS)
def test_tables_slots_and_jobs_of_hostile_names_are_mirrored_or_refused_in_words(
    small: Warehouse,
    make_mirror: MakeMirror,
    seed: int,
    count: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A job mirrors each name that the configuration accepts, and every command prints the name as visible text."""
    print(f"seed {seed}")
    taken, refused = [], 0
    for text in hostile.texts(count, seed):
        for reader in (values.slot, values.section_name, values.table, values.target):
            try:
                name = reader(f"ods.{text}" if reader in (values.table, values.target) else text)
            except values.BadValue as error:
                assert str(error).startswith("must ") and not hostile.RAW.search(str(error))
                refused += 1
                continue
            if reader is values.table:
                taken.append(str(name))
    channels = []
    for n, table in enumerate(taken):
        small.create_table(dotted(table), "id bigint, v text", ("id",))
        run(small, f"INSERT INTO {dotted(table)} VALUES (1, {literal(table)})")
        channels.append(
            ChannelSpec(table, f"mart.{table.partition('.')[2]}" if n % 2 else table.replace("ods.", "m.", 1), True)
        )
    assert taken and refused > count
    mirror = _mirror(small, make_mirror, channels)
    mirror.start().wait_running(120)
    mirror.source(*(f"INSERT INTO {dotted(table)} VALUES (2, {literal(table)})" for table in taken))
    mirror.wait_equal(120)
    mirror.stop()
    some = list(zip(taken, mirror.job.channels, strict=True))[: 1 if count == 20 else 9]
    for table, channel in some:
        spelled = job("odd", mirror.job.slot, _toml(table), _toml(channel.target))
        path = config(tmp_path, mirror.job.source, mirror.job.sink, spelled)
        _printed(path, capsys, ["doctor"], ["slots", "show", table, mirror.job.slot], ["slots", "peek", table])
    print(f"{len(taken)} tables mirrored, {refused} names refused")
    _intact(mirror)


def test_what_a_server_says_of_hostile_names_and_rows_is_printed_as_visible_text(
    small: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Constraints, indexes and slots of hostile names: entries in quarantine, refusals of a start, lists of slots."""
    texts = [text for text in hostile.texts(20, seed) if len(text.encode()) < 60]
    small.create_table("ods.t", "id bigint, v text", ("id",))
    run(small, "INSERT INTO ods.t VALUES (0, 'v')")
    mirror = _mirror(small, make_mirror, [ChannelSpec("ods.t", "mart.t")])
    checks = ", ".join(f"CONSTRAINT {quoted(text)} CHECK (v <> {literal(text)})" for text in texts)
    mirror.at_sink("CREATE SCHEMA mart", f"CREATE TABLE mart.t (id bigint PRIMARY KEY, v text, {checks})")
    mirror.job = replace(mirror.job, sink_options=SinkOptions(on_bad_row="quarantine"))
    mirror.start().wait_running()
    rows = [f"INSERT INTO ods.t VALUES ({n}, {literal(text)})" for n, text in enumerate(texts, 1)]
    mirror.source(*rows)
    mirror._until(lambda: mirror.heard.rows_quarantined == len(texts), 60, "all of them in quarantine")
    mirror.stop()
    with closing(small.connect_etl()) as connection, connection.cursor() as cursor:
        for text in texts:
            cursor.execute("SELECT pgxc_get_binlog_sync_point('ods.t', %s, true, 0)", (text,))
    spelled = job("odd", mirror.job.slot, "ods.t", "mart.t")
    path = config(tmp_path, mirror.job.source, mirror.job.sink, spelled)
    _printed(path, capsys, ["slots", "list"])
    told = _printed(path, capsys, ["errors", "list", "odd"])[0]
    assert {one["constraint"] for one in told["entries"]} == set(texts)
    for one in told["entries"][:1]:
        _printed(path, capsys, ["errors", "show", "odd", str(one["id"])])
    mirror.at_sink(*(f"CREATE UNIQUE INDEX {quoted(text)} ON mart.t (v, id)" for text in texts[:3]))
    _printed(path, capsys, ["doctor"])
    mirror.job = replace(mirror.job, slot="another", sink_options=SinkOptions())
    with pytest.raises(SlotkeeperError):
        raise mirror.start().wait_error()
    _intact(mirror)


def _printed(path: Path, capsys: pytest.CaptureFixture[str], *commands: list[str]) -> list[dict[str, Any]]:
    """Run commands, also as JSON, and search their output for raw characters; returns the JSON.

    5 and less: done, failed, or refused by a rule; never a crash.
    """
    found = []
    for words in commands:
        for more in ([], ["--json"]):
            code = main([*words, *more, "--config", str(path)])
            said = capsys.readouterr()
            assert not hostile.RAW.search(said.out + said.err), (words, said)
            assert "Traceback" not in said.err and code in (0, 1, 3, 4, 5), (words, code, said)
        found.append(json.loads(said.out))
    return found


def _toml(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)[1:-1]


def _mirror(warehouse: Warehouse, make_mirror: MakeMirror, channels: list[ChannelSpec]) -> Mirror:
    mirror = make_mirror(warehouse, channels[0].source_table)
    mirror.job = replace(mirror.job, channels=tuple(channels))
    mirror.at_sink(*VICTIM)
    return mirror


def _intact(mirror: Mirror) -> None:
    """Check that the table which these names tried to drop has all its rows, at both ends."""
    for connect in (mirror.warehouse.connect, mirror.sink):
        assert mirror.query(connect, "SELECT count(*), sum(id) FROM public.victim") == [(9, 45)]
