"""What proves that a login sees everybody: facts of the server's catalogs, and nothing that a server does not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from slotkeeper.core.domain.locks import Sight
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import AccessRefused
from slotkeeper.core.sources.dws import sight
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sqltext import statements

PLAIN = (["rolname", "rolsuper"], [("etl", False)])


class Told:
    """A server that tells what a test lets it tell, and refuses everything else; stands in for a session."""

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
        ({"list_across": [(1,)]}, Sight(None, False, False)),  # granted, and its function refuses all the same
        ({"list_across": [(1,)], "open_across": []}, Sight(None, False, True)),
        ({"list_across": [(0,)], "open_across": []}, Sight(None, False, False)),
    ],
)
def test_what_is_seen_is_what_is_proven(told: dict[str, Any], seen: Sight) -> None:
    assert sight.read(cast("DwsSession", Told(told))) == seen
