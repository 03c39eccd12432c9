"""Random DDL and DML around a followed table: its lane ends with the table's rows, or stops with an error."""

from __future__ import annotations

import pytest

from slotkeeper.demo.mariadb import MariaServer
from tests.support import maria as support
from tests.support.mysql_fuzz import Fuzz, fuzz


def told(found: Fuzz, seed: int) -> str:
    """The figures of a run."""
    return (
        f"seed {seed}: {found.ran} statements ({found.failed} refused by the server), {found.equal} checks equal,"
        f" {found.changes} changes, stops: {found.stops}"
    )


def test_random_statements_end_in_equal_rows_or_in_an_error(maria_server: MariaServer, seed: int) -> None:
    print(f"seed {seed}")
    found = fuzz(maria_server, seed, 250)
    print(told(found, seed))
    assert found.equal and found.changes, "nothing was compared"
    assert found.failed < found.ran / 2, "most statements were refused by the server"


@pytest.mark.chaos
@pytest.mark.parametrize("number", [0, 1, 2])
def test_ten_thousand_random_statements_end_in_equal_rows_or_in_an_error(seed: int, number: int) -> None:
    server = support.begin()
    try:
        print(f"seed {seed + number}")
        found = fuzz(server, seed + number, 10_000, 30)
    finally:
        support.end(server)
    print(told(found, seed + number))
    assert found.equal > 100 and found.changes > 1_000 and len(found.stops) > 3, "too little was compared"
