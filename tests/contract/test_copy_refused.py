"""A source that rejects COPY is read with a cursor; one whose COPY fails in the middle is not."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing

import pytest

from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.source import DwsSource
from slotkeeper.demo.warehouse import Warehouse
from tests.support.standin import run

REFUSES = (
    "CREATE FUNCTION public.refuses(at integer) RETURNS integer LANGUAGE plpgsql AS $$BEGIN"
    " IF at = {at} THEN RAISE EXCEPTION 'COPY is not supported here' USING ERRCODE = '{code}'; END IF;"
    " RETURN at; END$$"
)
ROWS = "SELECT public.refuses(g) FROM generate_series(1, 3000) g"


@pytest.fixture
def source(warehouse: Warehouse) -> Iterator[DwsSource]:
    session = DwsSession(warehouse.endpoint(), warehouse.etl_password_file.read_text("utf-8").strip(), "test")
    with closing(session):
        yield DwsSource(session, "ods.t", "s", BinlogOptions())


def read(source: DwsSource, out: io.BytesIO) -> int:
    """Return the rows of the statement, read with COPY or, if that is rejected, with a cursor."""

    def statement(as_text: bool) -> pg.sql.Composable:
        return pg.sql.SQL("SELECT g FROM generate_series(1, 3000) g" if as_text else ROWS)

    return source._out(statement, out, 10_000, 500)


@pytest.mark.parametrize("code", ["0A000", "42601", "42809"])
def test_what_came_before_a_copy_broke_is_not_read_again_by_a_cursor(
    source: DwsSource, warehouse: Warehouse, code: str
) -> None:
    run(warehouse, REFUSES.format(at=2_000, code=code))
    out = io.BytesIO()
    with pytest.raises(SlotkeeperError, match="COPY is not supported here"):
        read(source, out)
    assert out.getvalue().splitlines() == [b"%d" % n for n in range(1, 2_000)]
    assert source.copy_allowed, "the next attempt copies again"


def test_a_copy_that_is_refused_before_its_first_row_is_read_by_a_cursor(
    source: DwsSource, warehouse: Warehouse
) -> None:
    run(warehouse, REFUSES.format(at=1, code="0A000"))
    out = io.BytesIO()
    assert read(source, out) == 3_000
    assert out.getvalue().splitlines() == [b"%d" % n for n in range(1, 3_001)]
    assert not source.copy_allowed
