"""A man in the middle at every sslmode of a MySQL source and a Doris sink: what he captures, and the error.

PostgreSQL and DWS: `test_tls.py`. Redirects of an FE: `test_doris_tls.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.endpoint import INSISTING, VERIFYING, Endpoint, Line, Login, line_finding
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import AccessRefused, LoginRefused, SlotkeeperError
from slotkeeper.core.sinks.doris.http import DorisHttp
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.mariadb import MariaServer
from tests.support import maria
from tests.support import pairs as doris_pair
from tests.support.tls_lines import HOST, Authority, between, mysql_tls_front

SECRET = "canary-4711"
MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("right"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[MariaServer]:
    made = maria.begin()
    maria.secure(made, authority)
    yield made
    maria.end(made)


def of_source(login: Login) -> None:
    with closing(MysqlSession(login)) as session:
        session.rows("SELECT 1")


def of_queries(login: Login) -> None:
    with closing(MysqlQueries(login, "sink")) as queries:
        queries.rows("SELECT 1")


def at(port: int, mode: str, root: Path) -> Login:
    """Return a login; only the modes that verify need an authority, because libpq's `require` would verify with one."""
    where = Endpoint("there", HOST, port, "", "etl", sslmode=mode, connect_timeout_ms=2_000)
    return Login(replace(where, sslrootcert=str(root) if mode in VERIFYING else ""), SECRET, "test")


def doctored(mode: str, line: Line) -> str:
    """Return `doctor`'s warnings about a mode that admits a man in the middle, for a host other than this one."""
    found = line_finding("x", Endpoint("there", "db.example.org", 1, "", "etl", sslmode=mode), line)
    assert found.level is Level.WARN
    return found.text


@pytest.mark.parametrize("ask", [of_source, of_queries], ids=["source", "queries of a sink"])
@pytest.mark.parametrize("mode", MODES)
def test_a_stripped_greeting_gets_no_login_where_tls_is_insisted_on(
    server: MariaServer, authority: Authority, mode: str, ask: Callable[[Login], None]
) -> None:
    with between(server.port, None) as middle:
        with pytest.raises(SlotkeeperError) as told:
            ask(at(middle.port, mode, authority.root))
        if mode not in INSISTING:
            assert len(middle.logins) == 1
            assert "unencrypted" in doctored(mode, Line())
            return
    assert isinstance(told.value, AccessRefused) and "TLS: " in told.value.message
    assert 'sslmode = "disable"' in told.value.hint and middle.logins == []


@pytest.mark.parametrize("ask", [of_source, of_queries], ids=["source", "queries of a sink"])
@pytest.mark.parametrize("mode", sorted(INSISTING))
def test_a_certificate_of_his_own_gets_a_login_only_where_none_is_verified(
    server: MariaServer, authority: Authority, stranger: Authority, mode: str, ask: Callable[[Login], None]
) -> None:
    with between(server.port, stranger.server(HOST)) as middle:
        with pytest.raises(SlotkeeperError) as told:
            ask(at(middle.port, mode, authority.root))
        if mode not in VERIFYING:
            assert len(middle.logins) == 1
            assert "any server at that address is accepted" in doctored(mode, Line("TLSv1.3", "c"))
            return
    assert isinstance(told.value, AccessRefused) and "TLS: " in told.value.message
    assert "sslrootcert" in told.value.hint and middle.logins == []
    assert SECRET not in str(told.value)


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_loads_get_no_further_than_his_certificate(authority: Authority, stranger: Authority, mode: str) -> None:
    with DorisStandin(password=doris_pair.PASSWORD, tls=stranger.server(HOST)) as doris:
        there = replace(at(1, mode, authority.root).endpoint, http_port=doris.ports.frontend)
        http = DorisHttp(Login(there, SECRET, "test"))
        with pytest.raises(AccessRefused if mode in VERIFYING else LoginRefused) as told:
            http.ask("GET", "/api/mart/get_load_state?label=a", {}, 5)
        if mode in VERIFYING:
            assert "TLS: " in told.value.message and "sslrootcert" in told.value.hint


def test_queries_go_through_a_front_that_speaks_tls_for_a_server_without(authority: Authority) -> None:
    with DorisStandin(password=SECRET) as doris, mysql_tls_front(authority.server(HOST), doris.ports.query) as port:
        for password, refused in ((SECRET, False), ("another", True)):
            login = replace(at(port, "verify-full", authority.root), password=password)
            with closing(MysqlQueries(login, "sink")) as queries:
                if refused:
                    with pytest.raises(AccessRefused, match="Access denied"):
                        queries.rows("SELECT 1")
                    continue
                assert queries.rows("SELECT 1") == [(1,)] and queries.rows("SELECT 2") == [(2,)]
                assert queries.line()[0].startswith("TLSv1")
