"""A table `(id, v)` of each kind of source, with a job that mirrors it into a PostgreSQL and was never started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.demo.warehouse import Warehouse
from tests.support.hologres import HoloPair
from tests.support.mirror import MakeMirror, Mirror
from tests.support.pairs import MysqlPair
from tests.support.polling import job as job_section
from tests.support.polling import server

TABLE, TARGET = "ods.t", "mart.t"
KINDS = ("dws", "mysql", "hologres", "hologres_slot")


class Side(NamedTuple):
    """The job, a writer of its source table (None deletes a key), the rows of source and target, and the sink.

    `ask` returns the source's answer to a statement.
    """

    job: JobSpec
    write: Callable[..., None]
    source: Callable[[], Sequence[tuple[object, ...]]]
    target: Callable[[], Sequence[tuple[object, ...]]]
    mirror: Mirror
    ask: Callable[[str], Sequence[tuple[Any, ...]]]

    def configured(self, folder: Path, name: str) -> Path:
        """Write a configuration whose job `name` reads the table with a slot of its own."""
        folder.mkdir(exist_ok=True)
        source = replace(self.job.source, name="dws1", database=self.job.source.database or "unused")
        text = server("sources", source).replace('"dws"', f'"{self.job.source_kind}"')
        if self.job.source_kind == "mysql":
            text = text.replace('database = "unused"\n', "")
        text += server("sinks", replace(self.job.sink, name="mart"))
        text += job_section(name, "frames_slot", TABLE, "mart.unused")
        path = folder / "slotkeeper.toml"
        path.write_text(f'{text}[state]\ndir = "{folder / "state"}"\n', "utf-8")
        return path


def side_of(request: pytest.FixtureRequest, kind: str) -> Side:
    """Return the side of a kind, made by its own fixtures."""
    if kind == "dws":
        warehouse: Warehouse = request.getfixturevalue("warehouse")
        make: MakeMirror = request.getfixturevalue("make_mirror")
        warehouse.create_table(TABLE, "id bigint, v bigint", ("id",), ("id",))
        mirror = make(warehouse, TABLE, TARGET)

        def put(*changes: tuple[int, int | None]) -> None:
            for key, value in changes:
                if value is None:
                    mirror.source(f"DELETE FROM {TABLE} WHERE id = {key}")
                else:
                    both = f"({key}, {value}) ON CONFLICT (id) DO UPDATE SET v = excluded.v"
                    mirror.source(f"INSERT INTO {TABLE} VALUES {both}")

        ask = lambda statement: mirror.query(mirror.warehouse.connect, statement)  # noqa: E731
        return Side(mirror.job, put, mirror.source_rows, mirror.target_rows, mirror, ask)
    if kind == "mysql":
        pair: MysqlPair = request.getfixturevalue("mysql_pair")
        rows = lambda: pair.rows(f"SELECT id, v FROM {TABLE} ORDER BY id")  # noqa: E731
        return Side(pair.mirror.job, pair.write, rows, pair.mirror.target_rows, pair.mirror, pair.rows)
    name = "holo_pair" if kind == "hologres" else "slot_pair"
    holo: HoloPair = request.getfixturevalue(name)
    there = lambda: holo.hologres.rows(f"SELECT id, v FROM {TABLE}")  # noqa: E731
    return Side(holo.mirror.job, holo.write, there, holo.mirror.target_rows, holo.mirror, holo.hologres.rows)


@pytest.fixture(params=KINDS)
def side(request: pytest.FixtureRequest) -> Side:
    """A side of each kind."""
    return side_of(request, request.param)


def texts(rows: Sequence[tuple[object, ...]]) -> list[str]:
    """Rows of two numbers, as a record's text or as two values."""
    return sorted(str(row[0]) if len(row) == 1 else f"({row[0]},{row[1]})" for row in rows)
