"""TLS to Doris: verified by default, and kept through a redirect; over the stand-in's FE and BE, and a MariaDB.

The session for queries is tested on a MariaDB as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import AccessRefused, Refused
from slotkeeper.core.ports.sink import Outcome
from slotkeeper.core.sinks.doris.encode import Layout
from slotkeeper.core.sinks.doris.http import DorisHttp
from slotkeeper.core.sinks.doris.sink import DorisSink
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.demo.doris.faults import Call, Fault
from slotkeeper.demo.doris.server import DorisStandin
from tests.contract.test_doris_sink import BATCH
from tests.support import maria
from tests.support.pairs import PASSWORD, TARGET, doris_endpoint
from tests.support.tls_lines import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secured(authority: Authority) -> Iterator[DorisStandin]:
    """A stand-in with TLS on every connection, and a certificate for its address."""
    with DorisStandin(password=PASSWORD, tls=authority.server("127.0.0.1")) as made:
        made.create(TARGET, "id BIGINT NOT NULL, v BIGINT", ("id",))
        yield made


LAYOUT = Layout(("id", "v"), (0,))


def at(doris: DorisStandin, mode: str, root: Path | str = "") -> Login:
    be = f"{doris.host}:{doris.ports.backend}"  # the port for queries has no TLS, so that it lists no BE
    return Login(replace(doris_endpoint(doris), sslmode=mode, sslrootcert=str(root), backends=(be,)), PASSWORD, "test")


def sent(login: Login) -> Outcome:
    sink = DorisSink(DorisHttp(login), "job", TARGET, LAYOUT)
    return sink.commit("a", sink.send(BATCH, "a"))


@pytest.mark.parametrize("mode", ["verify-full", "verify-ca", "require"])
def test_a_certificate_of_the_authority_is_let_in_by_every_mode(
    secured: DorisStandin, authority: Authority, mode: str
) -> None:
    assert sent(at(secured, mode, authority.root if mode != "require" else "")) is Outcome.COMMITTED
    assert secured.tables.query("SELECT count(*) FROM mart.t")[1] == [(2,)]


def test_a_certificate_of_an_authority_that_is_not_configured_is_refused(secured: DorisStandin) -> None:
    with pytest.raises(AccessRefused, match="TLS: ") as told:
        sent(at(secured, "verify-full"))
    assert "sslrootcert" in told.value.hint


def test_a_certificate_for_another_host_is_refused_by_verify_full_alone(authority: Authority) -> None:
    with DorisStandin(password=PASSWORD, tls=authority.server("elsewhere.example.org")) as doris:
        doris.create(TARGET, "id BIGINT NOT NULL, v BIGINT", ("id",))
        with pytest.raises(AccessRefused, match="TLS: "):
            sent(at(doris, "verify-full", authority.root))
        assert sent(at(doris, "verify-ca", authority.root)) is Outcome.COMMITTED


def test_a_server_without_tls_is_named_and_gets_no_password(doris: DorisStandin, authority: Authority) -> None:
    with pytest.raises(AccessRefused) as told:
        sent(at(doris, "verify-full", authority.root))
    assert 'sslmode = "disable"' in told.value.hint


def test_a_redirect_out_of_tls_is_refused(secured: DorisStandin, authority: Authority) -> None:
    secured.faults.plan(Call.LOAD, Fault.PLAIN_BACKEND)
    with pytest.raises(Refused, match=r'redirects to http://127.0.0.1:\d+, but sslmode is "verify-full"') as told:
        sent(at(secured, "verify-full", authority.root))
    assert PASSWORD not in str(told.value)


def test_a_file_that_is_not_a_certificate_is_named(secured: DorisStandin, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.crt"
    for text in (None, "no certificate"):
        if text:
            wrong.write_text(text)
        with pytest.raises(AccessRefused, match=r"sslrootcert .*wrong\.crt"):
            sent(at(secured, "verify-full", wrong))


def test_queries_and_a_mysql_source_are_verified_in_the_same_way(authority: Authority, tmp_path: Path) -> None:
    served = maria.begin()
    try:
        maria.secure(served, authority)
        for mode, root in (("require", ""), ("verify-ca", authority.root), ("verify-full", authority.root)):
            where = replace(maria.endpoint(served), sslmode=mode, sslrootcert=str(root))
            with closing(MysqlQueries(Login(where, served.password(), "test"), "sink")) as queries:
                assert queries.rows("SELECT 1") == [(1,)]
                assert queries.line()[0].startswith("TLSv1")
            with closing(MysqlSession(Login(where, served.password(), "test"))) as source:
                assert source.asking(lambda line: line.encrypted)
        (tmp_path / "other").mkdir()
        stranger = Authority(tmp_path / "other").root
        for mode, root in (("verify-full", ""), ("verify-ca", ""), ("require", stranger)):
            where = replace(maria.endpoint(served), sslmode=mode, sslrootcert=str(root))
            with pytest.raises(AccessRefused, match="TLS: "):
                MysqlQueries(Login(where, served.password(), "test"), "sink").rows("SELECT 1")
            with pytest.raises(AccessRefused, match="TLS: "):
                MysqlSession(Login(where, served.password(), "test")).rows("SELECT 1")
    finally:
        maria.end(served)


def test_a_server_of_queries_without_tls_is_refused_before_the_login(doris: DorisStandin, authority: Authority) -> None:
    with pytest.raises(AccessRefused) as told:
        MysqlQueries(at(doris, "verify-full", authority.root), "sink").rows("SELECT 1")
    assert 'sslmode = "disable"' in told.value.hint
