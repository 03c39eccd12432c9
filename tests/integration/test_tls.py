"""TLS as a session finds it: the certificates that admit a client, and the data on an open connection.

libpq, "SSL Support", Protection Provided in Different Modes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Endpoint, Line, SecretRef, line_finding, secret_of
from slotkeeper.core.errors import AccessRefused, ErrorKind
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.demo.postgres import Server
from tests.support.tls_lines import HOST, Authority, Seen, begging, md5_answer, tls_front

MODES = ["require", "verify-ca", "verify-full"]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def front(authority: Authority, pg_server: Server) -> Iterator[Seen]:
    """The embedded server behind a certificate that names it."""
    with tls_front(authority.server(HOST), pg_server.port) as seen:
        yield seen


def session(endpoint: Endpoint) -> SinkSession:
    found = login(endpoint, "slotkeeper/tls/1")
    return SinkSession(found.endpoint, found.password, found.name)


def at(server: Server, port: int, mode: str, root: Path | str = "") -> Endpoint:
    return replace(server.endpoint("postgres"), port=port, sslmode=mode, sslrootcert=str(root))


def line(endpoint: Endpoint) -> Line:
    with closing(session(endpoint)) as opened:
        return opened.line()


def refusal(endpoint: Endpoint) -> AccessRefused:
    with closing(session(endpoint)) as opened, pytest.raises(AccessRefused) as caught:
        opened.line()
    return caught.value


@pytest.mark.parametrize("mode", MODES)
def test_a_certificate_of_the_authority_for_the_host_is_let_in_by_every_mode(
    front: Seen, authority: Authority, pg_server: Server, mode: str
) -> None:
    endpoint = at(pg_server, front.port, mode, authority.root)
    found = line(endpoint)
    assert found.protocol == "TLSv1.3"
    assert found.cipher
    assert front.plain == 0
    assert f"the connection uses TLSv1.3 with {found.cipher}" in line_finding("sink m", endpoint, found).text


def test_require_without_an_authority_takes_any_certificate(front: Seen, pg_server: Server) -> None:
    assert line(at(pg_server, front.port, "require")).protocol == "TLSv1.3"


@pytest.mark.parametrize("mode", MODES)
def test_a_certificate_of_another_authority_is_refused_for_good(
    front: Seen, pg_server: Server, tmp_path: Path, mode: str
) -> None:
    (tmp_path / "other").mkdir()
    found = refusal(at(pg_server, front.port, mode, Authority(tmp_path / "other").root))
    assert "certificate verify failed" in str(found)
    assert "sslrootcert" in found.hint
    assert found.kind is ErrorKind.ACCESS


@pytest.mark.parametrize("mode", MODES)
def test_an_expired_certificate_is_refused(authority: Authority, pg_server: Server, mode: str) -> None:
    with tls_front(authority.server(HOST, days=-1), pg_server.port) as seen:
        found = refusal(at(pg_server, seen.port, mode, authority.root))
    assert "certificate" in str(found)
    assert "expired" in f"{found} {found.hint}"


def test_a_certificate_for_another_host_is_refused_by_verify_full_alone(
    authority: Authority, pg_server: Server
) -> None:
    with tls_front(authority.server("dws.example.com"), pg_server.port) as seen:
        assert line(at(pg_server, seen.port, "verify-ca", authority.root)).protocol
        found = refusal(at(pg_server, seen.port, "verify-full", authority.root))
    assert "does not match host name" in str(found)
    assert "host" in found.hint


@pytest.mark.parametrize("mode", MODES)
def test_a_server_without_tls_is_not_spoken_to_where_it_is_insisted_on(
    authority: Authority, pg_server: Server, mode: str
) -> None:
    found = refusal(at(pg_server, pg_server.port, mode, authority.root))
    assert "does not support SSL" in str(found)
    assert "TLS" in found.hint


def test_prefer_continues_without_tls_and_says_so(pg_server: Server) -> None:
    endpoint = at(pg_server, pg_server.port, "prefer")
    assert line(endpoint) == Line()
    assert "not encrypted" in line_finding("sink m", endpoint, Line()).text


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
def test_a_server_that_refuses_tls_and_begs_for_a_cleartext_password_gets_none(pg_server: Server, mode: str) -> None:
    with begging(None, 3) as seen:
        found = refusal(at(pg_server, seen.port, mode))
    assert seen.plain >= 1
    assert seen.answers == []
    assert "TLS" in found.hint


def test_a_cleartext_password_is_sent_inside_tls(authority: Authority, pg_server: Server) -> None:
    with begging(authority.server(HOST), 3) as seen:
        refusal(at(pg_server, seen.port, "verify-full", authority.root))
    assert seen.answers == [pg_server.password_file.read_bytes().strip()]
    assert seen.plain == 0


@pytest.mark.parametrize("mode", ["disable", "prefer"])
def test_an_md5_answer_as_dws_asks_for_is_sent_on_an_open_line(pg_server: Server, mode: str) -> None:
    """DWS, "Using the Third-Party Function Library psycopg2": stock libpq can log in only with its MD5 hashes."""
    with begging(None, 5) as seen:
        refusal(at(pg_server, seen.port, mode))
    password = pg_server.password_file.read_text("utf-8").strip()
    assert seen.answers == [md5_answer(pg_server.superuser, password)]


def test_a_source_session_refuses_in_the_same_way(pg_server: Server) -> None:
    with begging(None, 3) as seen:
        opened = DwsSession(at(pg_server, seen.port, "prefer"), "x", "t")
        with closing(opened), pytest.raises(AccessRefused):
            opened.ready()
    assert seen.answers == []


@pytest.mark.parametrize("password", ["", "open sesame"])
def test_a_server_that_wants_a_clients_certificate_is_shown_it(
    authority: Authority, pg_server: Server, tmp_path: Path, password: str
) -> None:
    cert, key = authority.client("slotkeeper", password)
    secret = tmp_path / "key.password"
    secret.write_text(password + "\n", "utf-8")
    with tls_front(authority.server(HOST, client=authority), pg_server.port) as seen:
        bare = at(pg_server, seen.port, "verify-full", authority.root)
        shown = replace(bare, sslcert=str(cert), sslkey=str(key))
        opened = replace(shown, sslpassword=SecretRef("file", str(secret), "sslpassword")) if password else shown
        assert line(opened).protocol == "TLSv1.3"
        assert "certificate" in str(refusal(bare))
        if password:
            found = refusal(shown)
            assert "private key" in str(found)
            assert "sslpassword" in found.hint


def test_a_key_that_others_may_read_is_refused(authority: Authority, pg_server: Server, front: Seen) -> None:
    cert, key = authority.client("slotkeeper")
    key.chmod(0o644)
    endpoint = replace(at(pg_server, front.port, "verify-full", authority.root), sslcert=str(cert), sslkey=str(key))
    assert "private key file" in str(refusal(endpoint))


def test_a_keys_password_is_in_no_text_of_an_endpoint(pg_server: Server, tmp_path: Path) -> None:
    secret = tmp_path / "key.password"
    secret.write_text("pl4nted\n", "utf-8")
    endpoint = replace(pg_server.endpoint("postgres"), sslpassword=SecretRef("file", str(secret), "sslpassword"))
    opened = login(endpoint, "x")
    assert secret_of(opened.endpoint.key_password).now() == "pl4nted"
    assert "pl4nted" not in f"{opened} {opened.endpoint} {opened.endpoint.place}"
