"""A batch between any two encodings: values arrive unchanged, and are converted once, only if the encodings differ."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.domain.spec import ChannelSpec, RetryOptions
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.drivers import pg, pipe
from slotkeeper.core.wiring.worker import encoding_of
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.sqlite_pair import kind, sink
from tests.support.sqlite_pair.binlog import Origin
from tests.support.waiting import until

TABLE, TARGET = "ods.w", "mart.w"
ODD = ["", "a\tb", "back\\slash", "\\N", "line\nline", "carriage\rreturn", "héé 漢字 🙂", "\\t", None]
COPY, ROWS = Encoding.COPY_TEXT, Encoding.ROWS
PAIRS = [(COPY, COPY), (COPY, ROWS), (ROWS, COPY), (ROWS, ROWS)]


@dataclass
class Job:
    """A job between a source that returns one encoding and a sink that accepts one."""

    mirror: Mirror
    write: Callable[[dict[int, str | None]], None]
    read: Callable[[], dict[int, str | None]]

    def wait_for(self, rows: dict[int, str | None]) -> None:
        def there() -> bool:
            if self.mirror.error is not None:
                raise self.mirror.error
            return self.read() == rows

        until(there, 60, "the rows to be there")


def _to_warehouse(warehouse: Warehouse) -> Callable[[dict[int, str | None]], None]:
    warehouse.create_table(TABLE, "id bigint, v text", ("id",), ("id",))

    def write(rows: dict[int, str | None]) -> None:
        put = f"INSERT INTO {TABLE} VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v"
        with closing(warehouse.connect(False)) as connection, pg.transaction(connection) as cursor:
            for row in rows.items():
                cursor.execute(put, row)

    return write


def _to_file(origin: Origin) -> Callable[[dict[int, str | None]], None]:
    origin.create_table(TABLE, "id bigint PRIMARY KEY, v text")

    def write(rows: dict[int, str | None]) -> None:
        with origin.transaction() as writing:
            for key, value in rows.items():
                writing.put(TABLE, id=key, v=value)

    return write


def _from_file(file: Path) -> dict[int, str | None]:
    if not file.exists():
        return {}
    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute("SELECT value FROM rows WHERE value IS NOT NULL").fetchall()
    return {int(key): value for key, value in (json.loads(one) for (one,) in found)}


@pytest.fixture
def job(
    request: pytest.FixtureRequest,
    make_mirror: MakeMirror,
    warehouse: Warehouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Job:
    gives, takes = request.param
    kind.register(monkeypatch)
    sink.register(monkeypatch)
    mirror = make_mirror(warehouse, TABLE, TARGET)
    more: dict[str, Any] = {"retry": RetryOptions(wait_initial=1, wait_max=50, wait_jitter=1)}
    if gives is COPY:
        write = _to_warehouse(warehouse)
    else:
        origin = Origin(tmp_path / "origin.db")
        write = _to_file(origin)
        more |= {"source": kind.endpoint(origin), "source_kind": kind.NAME, "channels": (ChannelSpec(TABLE, TARGET),)}
    if takes is COPY:
        mirror.at_sink("CREATE SCHEMA IF NOT EXISTS mart", f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v text)")
        mirror.job = replace(mirror.job, **more)
        return Job(mirror, write, lambda: dict(mirror.query(mirror.sink, f"SELECT id, v FROM {TARGET}")))
    file = tmp_path / "sink.db"
    more |= {"sink": sink.endpoint(file), "sink_kind": sink.BY_KEY}
    more |= {"store": mirror.job.sink, "store_kind": mirror.job.sink_kind}
    mirror.job = replace(mirror.job, **more)
    return Job(mirror, write, lambda: _from_file(file))


@pytest.mark.parametrize(
    ("job", "gives", "takes"),
    [(pair, *pair) for pair in PAIRS],
    indirect=["job"],
    ids=[f"{gives.name}-{takes.name}" for gives, takes in PAIRS],
)
def test_values_arrive_as_they_were_and_are_converted_where_the_ends_differ(
    job: Job, gives: Encoding, takes: Encoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    converted: Counter[str] = Counter()
    spell, parse = pipe.copy_line, pipe.rows_of

    def spelled(row: Any) -> bytes:
        converted["spelled"] += 1
        return spell(row)

    def parsed(lines: Any) -> Any:
        for row in parse(lines):
            converted["parsed"] += 1
            yield row

    monkeypatch.setattr(pipe, "copy_line", spelled)
    monkeypatch.setattr(pipe, "rows_of", parsed)
    assert encoding_of(job.mirror.job) is takes
    rows = dict(enumerate(ODD))
    job.write(rows)
    job.mirror.start().wait_running()
    job.wait_for(rows)
    copied, changed = len(rows), dict(enumerate(reversed(ODD), 5))
    job.write(changed)
    job.wait_for(rows | changed)
    job.mirror.stop()
    events = sum(job.mirror.changes().values())
    word = {(COPY, ROWS): "parsed", (ROWS, COPY): "spelled"}.get((gives, takes))
    if word is None:
        assert converted == {}
    else:
        # a step whose outcome arrived late is executed again
        assert set(converted) == {word}
        assert converted[word] >= copied + events
