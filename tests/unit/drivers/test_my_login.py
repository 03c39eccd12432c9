"""What a hostile server of MySQL's protocol asks for, it does not get: no password, no file, no time, no memory.

The server is a fake (`tests.support.fake_mysql`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.drivers import my
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import AccessRefused, SlotkeeperError
from slotkeeper.core.sources.mysql.session import MysqlSession
from tests.support.fake_mysql import Asks, fake_mysql

SECRET = "canary-4711"
SECONDS = 5.0
Ask = Callable[[Login], object]


def as_source(login: Login) -> object:
    with closing(MysqlSession(login)) as session:
        return session.rows("SELECT 1")


def as_sink(login: Login) -> object:
    with closing(MysqlQueries(login, "sink", 5.0)) as queries:
        return queries.rows("SELECT 1")


def as_stream_of_rows(login: Login) -> object:
    with closing(MysqlQueries(login, "sink", 5.0)) as queries:
        return list(queries.streamed("SELECT 1"))


def as_part_of_an_answer(login: Login) -> object:
    with closing(MysqlSession(login)) as session:
        return next(session.read("SELECT 1", (), SECONDS))


def as_part_of_a_stream(login: Login) -> object:
    with closing(MysqlQueries(login, "sink", 600.0)) as queries:
        return next(queries.streamed("SELECT 1"))


BOTH = pytest.mark.parametrize("ask", [as_source, as_sink])


@pytest.mark.parametrize("asks", [Asks.CLEAR, Asks.DIALOG, Asks.OLD, Asks.KEY, Asks.KEY_AT_ONCE])
@BOTH
def test_the_password_is_not_sent_on_an_open_line_however_it_is_asked_for(asks: Asks, ask: Ask) -> None:
    with fake_mysql(asks) as server:
        with pytest.raises(AccessRefused, match="inside TLS only"):
            ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))
        assert not server.received


@BOTH
def test_no_file_of_this_machine_is_sent(ask: Ask) -> None:
    with fake_mysql(Asks.FILE) as server:
        with pytest.raises(SlotkeeperError, match="asks for a file of this machine") as refused:
            ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))
        assert "passwd" not in str(refused.value)
        assert not server.received


@pytest.mark.parametrize("ask", [as_source, as_sink, as_stream_of_rows])
def test_bytes_of_no_protocol_are_one_error_of_ours(ask: Ask) -> None:
    with (
        fake_mysql(Asks.GARBAGE) as server,
        pytest.raises(SlotkeeperError, match="none of MySQL's protocol"),
    ):
        ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))


@BOTH
def test_a_greeting_that_comes_byte_by_byte_ends_at_the_limit_of_a_login(ask: Ask) -> None:
    with fake_mysql(Asks.TRICKLE) as server, pytest.raises(SlotkeeperError, match="does not answer within 2 s"):
        ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))


@BOTH
def test_a_login_that_is_answered_without_end_is_cut(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(my, "LOGIN_BYTES", 1 << 20)
    with fake_mysql(Asks.FLOOD) as server, pytest.raises(SlotkeeperError, match="sent more than 1 MiB"):
        ask(Login(server.endpoint(connect_timeout_ms=60_000), SECRET, "slotkeeper/test"))


def test_an_answer_that_is_more_than_is_held_of_one_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotkeeper.core.drivers.mysql_queries.ANSWER_BYTES", 4 << 20)
    with fake_mysql(Asks.ROWS) as server, pytest.raises(SlotkeeperError, match="sent more than 4 MiB"):
        as_sink(Login(server.endpoint(), SECRET, "slotkeeper/test"))


def test_large_rows_are_read_a_few_at_a_time() -> None:
    with fake_mysql(Asks.ROWS) as server:
        session = my.connect(server.endpoint(), SECRET, "slotkeeper/test", SECONDS)
        rows = next(session.read("SELECT 1"))
        session.close()
    assert 1 < sum(len(row[0]) for row in rows) >> 20 <= (my.LOT_BYTES >> 20) + 1


@pytest.mark.parametrize("ask", [as_part_of_an_answer, as_part_of_a_stream])
def test_an_answer_that_is_left_is_not_read_to_its_end(ask: Ask) -> None:
    """It has none: who reads on stays for ever."""
    with fake_mysql(Asks.ROWS) as server:
        ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))


@BOTH
def test_what_a_server_says_of_the_password_is_told_without_it(ask: Ask) -> None:
    with fake_mysql(Asks.ECHO, SECRET) as server, pytest.raises(SlotkeeperError) as refused:
        ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))
    assert "no such password" in str(refused.value) and SECRET not in repr(refused.value)


@BOTH
def test_a_wrong_password_is_tried_twice_however_many_sessions_are_opened(ask: Ask) -> None:
    with fake_mysql(Asks.WRONG) as server:
        said = []
        for _ in range(5):
            with pytest.raises(AccessRefused) as refused:
                ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))
            said.append(str(refused.value))
        assert server.logins == 2 and "so that no account gets locked" in said[-1]


def test_a_server_without_tls_is_not_spoken_to_where_it_is_insisted_on() -> None:
    with fake_mysql(Asks.CLEAR) as server:
        with pytest.raises(AccessRefused) as refused:
            as_source(Login(server.endpoint(sslmode="require"), SECRET, "slotkeeper/test"))
        assert "speaks no TLS" in refused.value.hint and not server.received


def test_a_file_of_tls_that_is_none_is_named(tmp_path: Path) -> None:
    endpoint = Endpoint("my1", "127.0.0.1", 1, "", "etl", sslmode="verify-full", sslrootcert=str(tmp_path / "none"))
    with fake_mysql(Asks.CLEAR) as server, pytest.raises(AccessRefused, match="sslrootcert"):
        as_source(Login(replace(endpoint, port=server.port), SECRET, "slotkeeper/test"))
