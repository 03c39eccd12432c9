"""One session to a MySQL or MariaDB: opened at its first call and again after it broke; errors are ours."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.mysql import faults
from slotkeeper.core.sources.mysql.errors import BinlogError
from slotkeeper.core.sources.mysql.requirements import ServerFacts, read_facts

T = TypeVar("T")
STATUS_SECONDS = 5.0
"""The time of a question about the server or a table's columns."""
HEARTBEAT_SECONDS = 1.0
_FIRST_ID, _IDS = 1 << 30, 1 << 30
"""Replicas of a server have ids that people give by hand: small numbers, or an address as one. Ours lie beyond most."""


class MysqlSession:
    """A session of a login; not shared between threads but for `sever`."""

    def __init__(self, login: Login, read_seconds: float = 0.0) -> None:
        self._login = login
        self._read_seconds = read_seconds
        self._open: my.Session | None = None
        self._facts: ServerFacts | None = None

    @property
    def name(self) -> str:
        """The session's own name."""
        return self._login.name

    @property
    def place(self) -> str:
        """The source in a message."""
        return self._login.endpoint.name

    @property
    def user(self) -> str:
        """The login as a GRANT names it."""
        name = self._login.endpoint.user.replace("'", "''")
        return f"'{name}'@'%'"

    @property
    def facts(self) -> ServerFacts:
        """The server's variables; asked for once a connection."""
        if self._facts is None:
            self._facts = self.asking(read_facts)
        return self._facts

    def connect(self) -> my.Session:
        """A connection of its own, in UTC. Raises DriverError."""
        endpoint = self._login.endpoint
        seconds = max(2.0, endpoint.connect_timeout_ms / 1000)
        return my.connect(endpoint, self._login.password, self._login.name, seconds)

    def rows(self, statement: str, values: Sequence[object] = (), seconds: float = STATUS_SECONDS) -> list[Any]:
        """All rows of an answer, in time."""

        def ask(session: my.Session) -> list[Any]:
            session.seconds = seconds
            return session.rows(_plain(statement, values), values)

        return self.asking(ask)

    def asking(self, ask: Callable[[my.Session], T]) -> T:
        """Whatever `ask` answers of the open session; a session on which anything failed is ended."""
        try:
            if self._open is None:
                self._open = self.connect()
                self._facts = None
            self._open.seconds = STATUS_SECONDS
            return ask(self._open)
        except my.DriverError as error:
            found = self.error(error)
            if not _stays(error):
                self.close()
            raise found from error
        except SlotkeeperError:
            raise
        except BinlogError as error:
            raise faults.of_binlog(error, self.place, "what was asked") from error
        except BaseException:
            self.close()
            raise

    def read(self, statement: str, values: Sequence[object], seconds: float) -> Iterator[list[tuple[Any, ...]]]:
        """A large answer as it comes, each part in time."""
        done = False
        try:
            if self._open is None:
                self._open = self.connect()
            self._open.seconds = seconds
            yield from self._open.read(_plain(statement, values), values)
            done = True
        except my.DriverError as error:
            raise self.error(error) from error
        finally:
            if not done:
                self.close()  # what is left of the answer is in the line

    def error(self, error: BaseException) -> SlotkeeperError:
        """The error of ours for a driver's."""
        return faults.classify(error, self.place, self.user, self._login.endpoint.sslmode == "disable")

    def replica(self, reader: str) -> my.Replica:
        """Who reads: the same for ever for what `reader` names, so that a later reader ends an earlier one."""
        number = _FIRST_ID + zlib.crc32(f"{self.place}\x1f{reader}".encode()) % _IDS
        return my.Replica(number, f"{number:08x}-5107-4bee-9e55-{number:012x}", HEARTBEAT_SECONDS)

    def beside(self, mark: str) -> MysqlSession:
        """Another session of the same login, whose name ends in `mark`."""
        return MysqlSession(replace(self._login, name=f"{self._login.name[: 63 - len(mark)]}{mark}"))

    def sever(self) -> None:
        """Cut it off, from any thread, without waiting."""
        session = self._open
        if session is not None:
            session.sever()

    def close(self) -> None:
        """End it; safe to call twice."""
        session, self._open = self._open, None
        if session is not None:
            session.close()


def _plain(statement: str, values: Sequence[object]) -> str:
    """A statement with its names' signs as they are: the driver reads `%%` as one where there are values only."""
    return statement if values else statement.replace("%%", "%")


_LEAVES = range(1000, 1900)
"""Numbers of errors of a statement; behind most of them the session goes on."""
_ENDS = frozenset({1040, 1053, 1077, 1079, 1080, 1152, 1153, 1156, 1158, 1159, 1160, 1161, 1317})


def _stays(error: BaseException) -> bool:
    return my.code_of(error) in _LEAVES and my.code_of(error) not in _ENDS
