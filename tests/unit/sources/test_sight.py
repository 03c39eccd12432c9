"""What proves that a login sees all sessions: facts from the server's catalogs, and nothing that a server does not
report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any, cast

import pytest

from slotkeeper.core.domain.locks import Sight
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import AccessRefused
from slotkeeper.core.ports.source import Waiter
from slotkeeper.core.sources.dws import sight
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.sight import DwsOpenTransactions
from slotkeeper.core.sqltext import statements

PLAIN = (["rolname", "rolsuper"], [("etl", False)])


class Told:
    """A session that answers the queries that the test allows, and rejects all others."""

    application_name = "slotkeeper/j/1/start"

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._told = told

    def rows(self, name: str, parameters: object, of: Book) -> Any:
        if name not in self._told:
            raise AccessRefused("permission denied", code="42501")
        return self._told[name]

    def answered(self, statement: pg.sql.SQL, parameters: object) -> Any:
        texts = {text: name for name, text in statements("slotkeeper.core.sources.dws", "sight.sql").items()}
        return self.rows(texts[statement.string], parameters, ("", ""))


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        ({}, Sight(None, False, False)),
        ({"coordinators": [(0,)], "login": PLAIN}, Sight(None, False, False)),
        ({"coordinators": [(2,)], "login": PLAIN, "statistics": [(0,)]}, Sight(2, False, False)),
        ({"login": (["rolsuper"], [(True,)])}, Sight(None, True, False)),
        ({"login": (["rolsuper", "rolsystemadmin"], [(False, True)])}, Sight(None, True, False)),
        ({"login": (["rolsuper", "rolsystemadmin"], [(False, False)])}, Sight(None, False, False)),
        ({"login": ([], [])}, Sight(None, False, False)),
        ({"coordinators": [(1,)], "statistics": [(1,)]}, Sight(1, True, False)),
        ({"list_across": [(1,)]}, Sight(None, False, False)),  # granted, but its function still refuses
        ({"list_across": [(1,)], "open_across": []}, Sight(None, False, True)),
        ({"list_across": [(0,)], "open_across": []}, Sight(None, False, False)),
    ],
)
def test_what_is_seen_is_what_is_proven(told: dict[str, Any], seen: Sight) -> None:
    assert sight.read(cast("DwsSession", Told(told))) == seen


class Crowd:
    """A source that returns the next of the test's lists of sessions at each query; its slots hold back every DN's
    xmin."""

    def __init__(self, *lists: list[Waiter], later: Collection[int] = ()) -> None:
        self._lists, self._later = list(lists), set(later)

    def sight(self) -> Sight:
        return Sight(1, True, True)

    def open_transactions(self, across: bool = False) -> list[Waiter]:
        return self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]

    def shown_in_full(self, pids: Set[int]) -> set[int]:
        return self._later & pids

    def snapshot_xmin(self) -> int:
        return 101

    def transaction_id(self) -> int:
        return 100

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        return [SlotStatus(Shard("dn_1", 1), SyncPoints(1, 1, 50), DwsPosition(2, None, 50))]


def hidden(pid: int, started: str = "3/7") -> Waiter:
    return Waiter(pid, started, "of another login", "", hidden=True)


@pytest.mark.parametrize(
    ("lists", "later", "why"),
    [
        ([[hidden(7)], []], (), ""),  # opened or closed during the first query
        ([[hidden(7)], [hidden(7, "3/8")], []], (7,), ""),  # still being opened; later in the list
        ([[hidden(7)], [hidden(7, "3/8")], []], (), "other sessions are hidden"),
    ],
    ids=["seen once", "listed later", "never listed"],
)
def test_a_session_is_hidden_if_two_queries_do_not_list_it(
    lists: list[list[Waiter]], later: tuple[int, ...], why: str
) -> None:
    opened = DwsOpenTransactions(Crowd(*lists, later=later))
    opened.left()
    assert opened.left().startswith(why) and bool(opened.left()) == bool(why)
