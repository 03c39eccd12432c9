"""Two MariaDB servers of which one replicates from the other, and the promotion of the replica."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import pytest

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.drivers import my
from slotkeeper.core.engine.driver import switch
from slotkeeper.demo.mariadb import MariaServer
from tests.support import maria
from tests.support.waiting import until

DURABLE = {"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1", "log_slave_updates": "ON", "gtid_domain_id": "0"}
LOGIN = "etl"


@dataclass
class Two:
    """`first` is the source of `second`; both have the login `etl` with one password."""

    first: MariaServer
    second: MariaServer
    endpoint: Endpoint
    """The job's source: both servers, the first one first."""
    password: str
    extra: list[MariaServer] = field(default_factory=list)

    def run(self, server: MariaServer, *statements: str) -> None:
        with closing(maria.log_in(server)) as session:
            for statement in statements:
                session.rows(statement)

    def rows(self, server: MariaServer, statement: str) -> list[tuple[object, ...]]:
        with closing(maria.log_in(server)) as session:
            return session.rows(statement)

    def follow(self, replica: MariaServer, source: MariaServer) -> None:
        """Make one server replicate from the other, from its own position on."""
        at = f"MASTER_HOST = '127.0.0.1', MASTER_PORT = {source.port}, MASTER_USER = 'root'"
        rest = f"MASTER_PASSWORD = '{source.password()}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1"
        self.run(replica, "STOP SLAVE", f"CHANGE MASTER TO {at}, {rest}", "START SLAVE")

    def wait_replicated(self, replica: MariaServer, source: MariaServer) -> None:
        (wanted,) = self.rows(source, "SELECT @@gtid_binlog_pos")[0]
        with closing(maria.log_in(replica)) as session:
            until(
                lambda: session.row("SELECT MASTER_GTID_WAIT(%s, 1)", (wanted,)) == (0,),
                60,
                f"the replica to execute {wanted}",
            )

    def wait_received(self, replica: MariaServer, source: MariaServer) -> None:
        """Wait until the replica's log has the source's last transaction, whether it is executed or not."""
        file, offset = self.rows(source, "SHOW MASTER STATUS")[0][:2]

        def received() -> bool:
            status = self.rows(replica, "SHOW SLAVE STATUS")[0]
            return (status[5], status[6]) == (file, offset)

        until(received, 30, f"the replica to receive {file}/{offset}")

    def promote(self, replica: MariaServer) -> None:
        self.run(replica, "STOP SLAVE", "RESET SLAVE ALL")

    def session(self, server: MariaServer) -> my.Session:
        return maria.log_in(server)


def ids(number: int, **more: str) -> dict[str, str]:
    return {**DURABLE, "server_id": str(number), **more}


@contextmanager
def two(**more: str) -> Iterator[Two]:
    """Two servers with server_id 1 and 2; the second replicates from the first. `more` are settings of both."""
    first = maria.begin(ids(1, **more))
    second = None
    try:
        second = maria.begin(ids(2, **more))
        of_first = first.create_login(LOGIN, "ALL ON *.*")
        password = first.password(LOGIN)
        hosts = tuple(f"127.0.0.1:{one.port}" for one in (first, second))
        found = Two(first, second, replace_hosts(of_first, hosts), password)
        found.follow(second, first)
        found.wait_replicated(second, first)
        yield found
    finally:
        for one in (first, second):
            if one is not None:
                maria.end(one)


@pytest.fixture
def servers() -> Iterator[Two]:
    with two() as made:
        yield made


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a job repeat its query to a server that lacks its transactions for a short time only."""
    monkeypatch.setattr(switch, "PATIENCE", 1.0)


def replace_hosts(endpoint: Endpoint, hosts: tuple[str, ...]) -> Endpoint:
    from dataclasses import replace

    return replace(endpoint, hosts=hosts)
