"""Calls that block in C end at their own deadlines, and the rest of the process continues meanwhile.

The servers are fakes that never answer.
"""

from __future__ import annotations

import io
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.drivers import deadline, login, pg
from slotkeeper.core.drivers.session import Dialect, Session
from slotkeeper.core.errors import TooLarge, Unclassified, Unreachable
from slotkeeper.core.sources.dws.session import classify
from tests.support.fake_server import FakeServer, Mode, fake_server
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
SECRET = "canary-4711"
LIMIT_MS = 100
SOON = 5.0
"""Seconds that a busy host may need for a limit of a fifth of a second; a hang takes longer."""
DIALECT = Dialect(
    "source", ("slotkeeper.core.sources.dws", "queries.sql"), {}, classify, autocommit=True, limit_ms=LIMIT_MS
)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The grace period is a tenth of a second instead of two seconds."""
    monkeypatch.setattr(pg, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(pg, "ROLLBACK_SECONDS", 0.2)


@pytest.fixture
def silent() -> Iterator[FakeServer]:
    with fake_server(Mode.HANG) as server:
        yield server


def session(server: FakeServer) -> Session:
    return Session(server.endpoint(), SECRET, "slotkeeper/test", DIALECT)


def connected(server: FakeServer) -> pg.Connection:
    settings = {"statement_timeout": f"{LIMIT_MS}ms"}
    return pg.connect(server.endpoint(), SECRET, "slotkeeper/test", settings, autocommit=True)


def took(call: Callable[[], object]) -> float:
    """Seconds until a call failed without an answer."""
    began = time.monotonic()
    with pytest.raises((pg.NoAnswer, Unreachable), match=r"does not answer within [0-9.]+ s"):
        call()
    return time.monotonic() - began


def connected_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        mine = socket.create_connection(server.getsockname())
        return mine, server.accept()[0]


class Endless(io.RawIOBase):
    def read(self, size: int = -1) -> bytes:
        return b"x" * 8_191 + b"\n"


CALLS: dict[str, Callable[[pg.Cursor], object]] = {
    "statement": lambda cursor: cursor.execute("SELECT 1"),
    "copy in": lambda cursor: pg.copy_in(cursor, pg.sql.SQL("COPY t FROM STDIN"), io.BytesIO(b"1\n")),
    "copy in without end": lambda cursor: pg.copy_in(cursor, pg.sql.SQL("COPY t FROM STDIN"), Endless()),
    "copy out": lambda cursor: cursor.copy_expert("COPY t TO STDOUT", io.BytesIO()),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_is_not_answered_ends_at_its_deadline(silent: FakeServer, name: str) -> None:
    connection = connected(silent)
    with connection.cursor() as cursor:
        assert took(lambda: CALLS[name](cursor)) < SOON
    assert connection.closed
    assert name == "copy in without end" or silent.closed.wait(20)  # unread rows precede its end


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_end_of_a_transaction_that_is_not_answered_ends_at_its_deadline(end: str) -> None:
    with fake_server(Mode.HANG, answered=2) as server:
        connection = pg.connect(server.endpoint(), SECRET, "slotkeeper/test", {"statement_timeout": str(LIMIT_MS)})
        connection.cursor().execute("SELECT 1")  # after a BEGIN
        assert took(getattr(connection, end)) < SOON


@pytest.mark.parametrize("mode", [Mode.TRICKLE, Mode.FLOOD])
def test_rows_without_end_have_an_end(mode: Mode) -> None:
    with fake_server(mode) as server:
        assert took(lambda: session(server).composed_rows(pg.sql.SQL("SELECT 1"), None)) < SOON


def test_an_answer_that_is_more_than_is_held_of_one_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pg, "ANSWER_BYTES", 1024**2)
    monkeypatch.setattr(pg, "GRACE_SECONDS", 60)
    with (
        fake_server(Mode.FLOOD) as server,
        pytest.raises(TooLarge, match=r"source dws1 \(.*\) answered one statement with more than 1 MiB"),
    ):
        session(server).composed_rows(pg.sql.SQL("SELECT 1"), None)


def test_a_row_of_a_copy_that_is_more_than_is_held_of_one_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pg, "ROW_BYTES", 8 * 1024**2)
    monkeypatch.setattr(pg, "GRACE_SECONDS", 60)
    with (
        fake_server(Mode.HUGE_ROW) as server,
        pytest.raises(TooLarge, match=r"source dws1 \(.*\) sent one row with more than 8 MiB"),
    ):
        session(server).copy_out(pg.sql.SQL("SELECT 1"), io.BytesIO(), LIMIT_MS)


def test_rows_that_are_passed_on_are_counted_again() -> None:
    mine, other = connected_pair()
    with mine, other, deadline.limited(mine.fileno(), 20, 1_000) as call:
        for came in (900, 1_800, 2_700):
            other.sendall(b"x" * 900)
            until(lambda came=came: (deadline.received(mine.fileno()) or 0) >= came, 20, "it to come")  # type: ignore[misc]
            call.moved = True
            assert not call.too_much
        other.sendall(b"x" * 1_100)
        until(lambda: call.too_much, 20, "it to be too much, where nothing is handed on")


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_what_comes_at_the_end_of_a_transaction_is_bounded_too(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pg, "ANSWER_BYTES", 1024**2)
    monkeypatch.setattr(pg, "GRACE_SECONDS", 60)
    monkeypatch.setattr(pg, "ROLLBACK_SECONDS", 60)
    with fake_server(Mode.NOTIFY, answered=2) as server:
        connection = pg.connect(server.endpoint(), SECRET, "slotkeeper/test", {"statement_timeout": str(LIMIT_MS)})
        connection.cursor().execute("SELECT 1")  # after a BEGIN
        with pytest.raises(pg.TooMuch):
            getattr(connection, end)()


def test_what_a_server_says_unasked_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pg, "ANSWER_BYTES", 1024**2)
    monkeypatch.setattr(pg, "GRACE_SECONDS", 60)
    with fake_server(Mode.NOTIFY) as server:
        connection = connected(server)
        with pytest.raises(pg.TooMuch):
            connection.cursor().execute("SELECT 1")
        assert not connection.notifies and not connection.notices


def test_many_answers_over_one_line_are_counted_one_by_one() -> None:
    mine, other = connected_pair()
    with mine, other:
        for _ in range(3):
            with deadline.limited(mine.fileno(), 20, 1_000) as call:
                other.sendall(b"x" * 900)
                until(lambda: deadline.received(mine.fileno()) == call.limit - 100, 20, "it to come")  # type: ignore[operator]
                assert not call.too_much
        assert not call.cut


@pytest.mark.parametrize("descriptor", [-1, 1_000_000])
def test_a_line_that_is_closed_already_is_shut_without_a_word(descriptor: int) -> None:
    deadline.shut(descriptor)


def test_a_session_whose_line_libpq_has_closed_is_severed_without_a_word(silent: FakeServer) -> None:
    connection = connected(silent)
    deadline.shut(connection.fileno())
    with pytest.raises(pg.DriverError):
        connection.cursor().execute("SELECT 1")
    pg.sever(connection)
    pg.cancel(connection)


def test_a_connection_without_tcp_has_no_count() -> None:
    mine, other = socket.socketpair()
    with mine, other:
        assert deadline.received(mine.fileno()) is None


def test_a_descriptor_beyond_the_first_thousand_is_kept_too() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _MANY_FILES], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.split() == ["done"], ran.stderr


_MANY_FILES = """
import os, resource, socket
from slotkeeper.core.drivers import deadline
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
mine, other = socket.socketpair()
with deadline.limited(mine.fileno(), 0.05) as call:
    mine.recv(1)
assert call.cut
print("done")
"""


def test_a_child_of_a_fork_has_limits_of_its_own_and_leaves_its_parents_calls_alone() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _FORKED], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.split() == ["done"], ran.stderr


_FORKED = """
import os, signal, socket
from slotkeeper.core.drivers import deadline

def waited(line):
    with deadline.limited(line.fileno(), 0.05) as call:
        line.recv(1)
    assert call.cut is deadline.Cut.LATE

mine, other = socket.socketpair()
with deadline.interrupts_heard(), deadline.limited(mine.fileno(), 60) as call:
    before = set(os.listdir("/proc/self/fd"))
    child = os.fork()
    if not child:
        assert signal.set_wakeup_fd(-1) == -1
        assert len(os.listdir("/proc/self/fd")) == len(before) - 3  # pipe and copy of the parent's
        one, two = socket.socketpair()
        waited(one)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    other.send(b"x")
    assert mine.recv(1) == b"x" and call.cut is None
waited(mine)
print("done")
"""


@pytest.mark.parametrize("mode", [Mode.MUTE, Mode.HANG_AT_LOGIN, Mode.TLS_HANG])
def test_a_login_that_is_not_answered_ends_with_its_own_limit(mode: Mode) -> None:
    with fake_server(mode) as server:
        assert took(session(server).ready) < 4


def test_a_login_that_never_ends_is_cut_off_once_no_caller_waits_for_it() -> None:
    with fake_server(Mode.FLOOD_AT_LOGIN) as server:
        with pytest.raises(Unreachable):
            session(server).ready()
        until(lambda: not [one for one in threading.enumerate() if one.name == "slotkeeper-login"], 10, "its end")


def test_a_login_that_receives_too_much_is_cut_off_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "LOGIN_BYTES", 1024**2)
    began = time.monotonic()
    with fake_server(Mode.FLOOD_AT_LOGIN) as server, pytest.raises(Unreachable):
        Session(server.endpoint(connect_timeout_ms=60_000), SECRET, "slotkeeper/test", DIALECT).ready()
    assert time.monotonic() - began < 30


def test_a_session_has_the_timeout_of_its_line_that_was_meant() -> None:
    with fake_server(Mode.HANG) as server:
        connection = connected(server)
        with deadline.lent(connection.fileno()) as line:
            assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


def test_what_a_server_says_at_a_login_is_written_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    with fake_server(Mode.NOTICE_AT_LOGIN) as server:
        connected(server).close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("mode", [Mode.GARBAGE, Mode.CLEARTEXT])
def test_a_port_that_serves_no_database_fails_at_once_with_an_error(mode: Mode) -> None:
    with fake_server(mode) as server, pytest.raises(Exception) as raised:
        session(server).ready()
    assert SECRET not in str(raised.value)


def test_a_server_that_repeats_the_password_in_a_later_error_is_quoted_without_it() -> None:
    with (
        fake_server(Mode.ECHO_LATER, password=SECRET) as server,
        pytest.raises(Unclassified, match=r"no: \*\*\*") as raised,
    ):
        session(server).composed_rows(pg.sql.SQL("SELECT 1"), None)
    assert SECRET not in repr(raised.value.args) + str(raised.value)


def test_the_interpreter_continues_where_a_copy_ends_on_a_full_connection() -> None:
    """psycopg2 would send the last 8 KB while holding the interpreter's lock, which would block the whole process."""
    ran = subprocess.run(
        [sys.executable, "-c", _FULL_LINE], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.split()[-1:] == ["done"], ran.stderr


_FULL_LINE = """
import io, socket, threading, time
from slotkeeper.core.drivers import pg
from tests.support.fake_server import Mode, FakeServer
pg.GRACE_SECONDS = 0.1

def copied(most):
    server = FakeServer(Mode.HANG)
    connection = pg.connect(server.endpoint(), "x", "test", {"statement_timeout": "50"}, autocommit=True)
    line = socket.socket(fileno=connection.fileno())
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    line.detach()
    given = [0]
    class Rows(io.RawIOBase):
        def read(self, size=-1):
            if given[0] >= most:
                return b""
            given[0] += 1024
            return b"x" * 1023 + b"\\n"
    try:
        pg.copy_in(connection.cursor(), pg.sql.SQL("COPY t FROM STDIN"), Rows())
    except pg.NoAnswer:
        pass
    server.close()
    return given[0]

full = copied(1 << 40)
for less in range(8, 13):
    copied(full - less * 1024)
print("done")
"""


def test_cancelling_at_a_server_that_does_not_answer_delays_no_other_caller(silent: FakeServer) -> None:
    connection = connected(silent)
    asking = threading.Thread(target=pg.cancel, args=(connection,), daemon=True)
    asking.start()
    assert silent.cancelled.wait(20), "this thread was suspended, or the request did not arrive"
    assert asking.is_alive()


def test_a_deadline_shuts_no_socket_but_its_own() -> None:
    mine, other = socket.socketpair()
    another, rest = socket.socketpair()
    with mine, other, another, rest:
        with deadline.limited(another.fileno(), 20), deadline.limited(mine.fileno(), 0.05) as call:
            assert mine.recv(1) == b""
            assert call.cut is deadline.Cut.LATE
        rest.sendall(b"x")
        assert another.recv(1) == b"x"


def test_a_call_that_ended_is_not_shut_later() -> None:
    mine, other = socket.socketpair()
    with mine, other:
        with deadline.limited(mine.fileno(), 0.05) as call:
            pass
        with deadline.limited(mine.fileno(), 0.1) as next_call:
            assert mine.recv(1) == b""
        assert next_call.cut and not call.cut


def test_many_short_calls_leave_nothing_behind() -> None:
    mine, other = socket.socketpair()
    with mine, other:
        for _ in range(2_000):
            with deadline.limited(mine.fileno(), 600):
                pass
    assert len(deadline._watchdog._due) < 500


def test_a_result_that_comes_too_late_is_handed_on() -> None:
    go_on = threading.Event()
    late: list[str] = []

    def call() -> str:
        go_on.wait(20)
        return "late"

    with pytest.raises(deadline.Late):
        deadline.in_time(call, 0.01, late.append)
    go_on.set()
    until(lambda: late == ["late"], 20, "the result to be handed on")


def test_an_error_comes_out_of_the_thread() -> None:
    def call() -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        deadline.in_time(call, 20, lambda result: None)
