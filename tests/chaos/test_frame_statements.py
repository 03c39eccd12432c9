"""A query's driver is killed before and after each statement that it sends, and after each COMMIT, one after another.

Without Spark: `tests.support.frames.Program` makes the calls of Spark. The counts of runs differ by a few, so that
chance decides whether a kill hits a task's COPY.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.drivers.session import Session
from tests.support.frames import Program, configured, slot_places
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import MakeWarehouse

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(2_400)]
TABLE = "ods.t"
MOST = 600
"""Far more than the statements of a life: a sweep that does not end has a life that never becomes idle."""


class Killed(BaseException):
    """Ends the driver at any point."""


class Killer:
    """Counts the moments of a life at which a driver may be killed, and kills at the `nth`; 0 kills at none."""

    def __init__(self) -> None:
        self.nth = 0
        self.seen = 0
        self.where: list[str] = []

    def __call__(self, where: str) -> None:
        self.seen += 1
        if self.seen == self.nth:
            self.where.append(where)
            raise Killed

    def around(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            self(f"before {name}")
            answer = call(*args, **named)
            self(f"behind {name}")
            return answer

        return called

    def behind_commit(self, transaction: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def opened(session: Session) -> Iterator[Any]:
            with transaction(session) as cursor:
                yield cursor
                self("before COMMIT")
            self("behind COMMIT")

        return opened


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> Killer:
    made = Killer()
    for name in ("answered", "copy_out", "run"):
        monkeypatch.setattr(Session, name, made.around(getattr(Session, name), name))
    monkeypatch.setattr(Session, "transaction", made.behind_commit(Session.transaction))
    return made


@pytest.fixture
def mirror(make_warehouse: MakeWarehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse = make_warehouse(dns=2)
    warehouse.create_table(TABLE, "id bigint, v text", ("id",), ("id",))
    made = make_mirror(warehouse, TABLE)
    made.source(f"INSERT INTO {TABLE} SELECT -n, 'old ' || n FROM generate_series(1, 10) n")
    return made


def test_a_driver_killed_at_each_statement_loses_and_doubles_nothing(
    mirror: Mirror, tmp_path: Path, killer: Killer
) -> None:
    program = Program(configured(mirror, tmp_path), start="initial", poll_interval="0ms")
    for nth in itertools.count(1):
        assert nth < MOST, killer.where[-5:]
        killer.nth, killer.seen = 0, 0
        program.crash()
        mirror.source(
            f"INSERT INTO {TABLE} VALUES ({nth}, 'new')", f"UPDATE {TABLE} SET v = '{nth}' WHERE id IN (-1, {nth})"
        )
        killer.nth = nth
        try:
            program.until_idle()
        except Killed:
            continue
        break
    killer.nth = 0
    program.until_idle()
    assert program.doubled() == 0
    there = set(mirror.query(mirror.warehouse.connect, f"SELECT id, v FROM {TABLE}"))
    assert {tuple(row.values()) for row in program.table().values()} == there
    ends = (program.commits or {})["positions"]
    assert slot_places(mirror) == {name: {int(text.split("/")[0])} for name, text in ends.items()}
    program.query.close()
    print(f"{len(killer.where)} kills, {len(program.events)} events")
    assert len(killer.where) > 50 and {"before run", "behind run", "behind COMMIT"} <= set(killer.where)
