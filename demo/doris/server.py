"""The complete stand-in: an FE, a BE and MySQL's protocol over the same tables, each on its own port of the loopback
interface.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from slotkeeper.demo.doris.backend import Backend
from slotkeeper.demo.doris.faults import Faults
from slotkeeper.demo.doris.frontend import DEAD_PORT, Frontend
from slotkeeper.demo.doris.http import LOOPBACK, Server
from slotkeeper.demo.doris.tables import Column, Table, Tables
from slotkeeper.demo.doris.transactions import Transactions
from slotkeeper.demo.doris.wire import Wire


@dataclass(frozen=True)
class Ports:
    """The ports on which the stand-in listens."""

    frontend: int
    backend: int
    query: int


class DorisStandin:
    """A running stand-in; `close` stops it and ends every waiting request.

    `clock` returns seconds and is used for retention; `tls` applies to the FE and the BE, because the query port has no
    TLS.
    """

    host = LOOPBACK

    def __init__(
        self,
        user: str = "etl",
        password: str = "",
        clock: Callable[[], float] = time.monotonic,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.user, self.password = user, password
        self.settings = {
            "label_keep_max_second": "259200",
            "streaming_label_keep_max_second": "43200",
            "label_num_threshold": "2000",
        }
        self.faults = Faults()
        self.transactions = Transactions(clock)
        self.tables = Tables()
        login = f"{user}:{password}"
        self.backend = Backend(login, self.faults, self.transactions, self.tables)
        self._backend = Server(self.backend.respond, self.faults, tls)
        self.backend.port = self._backend.port
        self.tables.be_ports = [self._backend.port, DEAD_PORT]
        self.frontend = Frontend(login, self.faults, self.transactions, lambda: self._backend.port)
        self.frontend.scheme = self.backend.scheme = "https" if tls else "http"
        self._frontend = Server(self.frontend.respond, self.faults, tls)
        self._wire = Wire(self.tables, user, password, self.settings)
        self._closed = False

    @property
    def ports(self) -> Ports:
        return Ports(self._frontend.port, self._backend.port, self._wire.port)

    def create(
        self,
        target: str,
        columns: str,
        key: tuple[str, ...],
        model: str = "UNIQUE",
        sequence: str = "",
        sign: bool = True,
        merge_on_write: bool = True,
    ) -> Table:
        """Create a table `database.name`; `columns` as in `id BIGINT NOT NULL, v STRING NOT NULL DEFAULT x`."""
        database, name = target.split(".")
        made = []
        for one in _parts(columns):
            words = one.split(None, 2)
            rest, _, default = " ".join(words[2:]).partition("DEFAULT ")
            made.append(Column(words[0], words[1], "NOT NULL" not in rest.upper(), default or None))
        table = Table(database, name, tuple(made), key, model, sign, sequence, merge_on_write)
        self.tables.create(table)
        return table

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.faults.ended.set()
        self._wire.close()
        self._frontend.close()
        self._backend.close()
        self.tables.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _parts(columns: str) -> list[str]:
    """Return a list of columns, split at commas outside parentheses.

    >>> _parts("id BIGINT, d DECIMAL(18,4) NOT NULL")
    ['id BIGINT', 'd DECIMAL(18,4) NOT NULL']
    """
    found, depth = [""], 0
    for letter in columns:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]
