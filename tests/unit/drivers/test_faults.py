"""Classification of errors from DWS: rejected logins are tried twice without a lockout; transient ones are retried."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import psycopg2
import pytest

from slotkeeper.core import retry
from slotkeeper.core.domain.endpoint import Endpoint, Secret
from slotkeeper.core.domain.tries import NO_HISTORY
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.login import AGAIN_SECONDS, RECENT_AT_ONCE, RECENT_SECONDS, TRIES, Refusals
from slotkeeper.core.errors import AccessRefused, Busy, ErrorKind, RowRefused, SlotkeeperError, TooLarge, Unreachable
from slotkeeper.core.retry import Failure, RetryAfter, RetryRules, Stop
from slotkeeper.core.sinks.postgres import session as sink
from slotkeeper.core.sources.dws import session as source

BOTH: list[Callable[[BaseException, str], SlotkeeperError]] = [source.classify, sink.classify]
LOGIN = [
    "FATAL:  Invalid username/password,login denied.",
    "FATAL:  The account has been locked.",
    'FATAL:  password authentication failed for user "etl"',
    'FATAL:  no pg_hba.conf entry for host "10.0.0.7", user "etl", database "db", no encryption',
]

RETRIED = [f"YY{n:03}" for n in range(1, 17)] + ["08000", "57P01", "XX003", "XX009", "CG003", "CG004", "F0011", "45003"]
"""DWS, retry_ecode_list: its default except 53200 and 08006, which have their own rules."""


class AtLoginError(psycopg2.OperationalError):
    """The error that psycopg2 raises at a login: it never has an SQLSTATE."""


class StatementError(psycopg2.OperationalError):
    """The error that psycopg2 raises at a statement."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code

    @property
    def pgcode(self) -> str:  # type: ignore[override]
        return self.code


@pytest.mark.parametrize("classify", BOTH, ids=["source", "sink"])
@pytest.mark.parametrize("text", LOGIN)
@pytest.mark.parametrize("code", ["", "28000", "28P01", "08006"])
def test_a_login_that_a_dws_refuses_is_tried_twice_and_then_the_job_is_failed(
    classify: Callable[[BaseException, str], SlotkeeperError], text: str, code: str
) -> None:
    raised = StatementError(text, code) if code else AtLoginError(text)
    error = classify(raised, "dws1")
    assert isinstance(error, AccessRefused) and error.hint
    failure, rules = Failure.of(error), RetryRules(awaits_secret=False)
    assert isinstance(retry.decide(failure, NO_HISTORY, rules, 0.0), RetryAfter)
    again = retry.after(NO_HISTORY, failure, rules)
    assert isinstance(retry.decide(failure, again, rules, 0.0), Stop)


def test_a_locked_account_names_the_statement_that_unlocks_it() -> None:
    for classify in BOTH:
        assert "ACCOUNT UNLOCK" in classify(AtLoginError(LOGIN[1]), "dws1").hint


@pytest.mark.parametrize("classify", BOTH, ids=["source", "sink"])
@pytest.mark.parametrize("code", RETRIED)
def test_every_code_that_a_coordinator_retries_passes_by_itself(
    classify: Callable[[BaseException, str], SlotkeeperError], code: str
) -> None:
    error = classify(StatementError("ERROR:  dn_6001_6002: whatever it says", code), "dws1")
    assert error.kind in (ErrorKind.TRANSIENT, ErrorKind.CONTENTION), error


@pytest.mark.parametrize("classify", BOTH, ids=["source", "sink"])
@pytest.mark.parametrize(
    ("code", "kind"),
    [("YY001", Unreachable), ("YY015", Unreachable), ("YY003", Busy), ("YY006", Busy), ("YY014", Busy)],
)
def test_a_lost_line_is_unreachable_and_a_lock_or_lack_of_memory_is_busy(
    classify: Callable[[BaseException, str], SlotkeeperError], code: str, kind: type[SlotkeeperError]
) -> None:
    assert type(classify(StatementError("ERROR: x", code), "dws1")) is kind


@pytest.mark.parametrize("classify", BOTH, ids=["source", "sink"])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("FATAL:  could not set up the session: ERROR YY003: Lock wait timeout", Busy),
        ("FATAL:  sorry, too many clients already", Busy),
        ("FATAL:  the database system is starting up", Unreachable),
        ("could not connect to server: Connection refused", Unreachable),
        ("pooler: failed to create 1 connections, Error Message: remote node dn_1, detail: YY015", Unreachable),
    ],
)
def test_an_error_at_login_counts_by_the_code_or_the_sentence_that_it_wraps(
    classify: Callable[[BaseException, str], SlotkeeperError], text: str, kind: type[SlotkeeperError]
) -> None:
    assert type(classify(AtLoginError(text), "dws1")) is kind


def test_a_value_of_a_row_that_speaks_of_logins_is_a_bad_row_and_no_refused_login() -> None:
    said = StatementError('ERROR:  invalid input syntax for type integer: "The account has been locked."', "22P02")
    assert isinstance(sink.classify(said, "mart"), RowRefused)


def test_memory_that_a_read_of_a_range_lacks_is_answered_by_a_smaller_step_and_a_looks_by_waiting() -> None:
    full = StatementError("ERROR:  out of memory", "53200")
    assert isinstance(source.classify(full, "dws1", TooLarge), TooLarge)
    assert isinstance(source.classify(full, "dws1"), Busy)


class Server:
    """Rejects or accepts logins, and counts them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.password = "right"
        self.crowd = 0
        self._crowded = threading.Event()

    def connect(self, *, password: str, **_: Any) -> str:
        self.asked.append(password)
        if len(self.asked) >= self.crowd:
            self._crowded.set()
        self._crowded.wait(0.1)
        if password != self.password:
            self.refuse()
        return "session"

    def refuse(self) -> NoReturn:
        raise AtLoginError(LOGIN[0])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A fake server for the driver, without rejected logins remembered from other tests."""
    made = Server()
    monkeypatch.setattr(psycopg2, "connect", made.connect)
    monkeypatch.setattr(pg, "_refusals", Refusals())
    yield made


PLACE = Endpoint("dws1", "127.0.0.1", 8000, "db", "etl")


def login(password: str | Secret) -> object:
    return pg.login_as(pg.Connection, PLACE, password, "slotkeeper/test/look", "")


def test_one_process_asks_twice_with_a_password_that_is_refused_however_many_sessions_it_opens(server: Server) -> None:
    said = []
    for _ in range(12):
        with pytest.raises(pg.DriverError) as refused:
            login("wrong")
        said.append(source.classify(refused.value, "dws1"))
    assert server.asked == ["wrong", "wrong"], "DWS locks an account after 10 (failed_login_attempts)"
    assert all(isinstance(one, AccessRefused) for one in said) and "not tried again" in said[-1].message


def test_another_password_is_tried_at_once_and_a_login_that_succeeds_restarts_the_count(server: Server) -> None:
    for _ in range(3):
        with pytest.raises(pg.DriverError):
            login("wrong")
    assert login("right") == "session"
    server.password = "other"
    for _ in range(3):
        with pytest.raises(pg.DriverError):
            login("right")
    assert server.asked == ["wrong"] * 2 + ["right"] * 3


def test_a_refused_login_is_asked_again_once_in_hours_because_somebody_may_have_unlocked_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(pg, "_refusals", Refusals(lambda: now[0]))
    for _ in range(3):
        with pytest.raises(pg.DriverError):
            login("wrong")
    now[0] += AGAIN_SECONDS
    server.password = "wrong"
    assert login("wrong") == "session"


def at_once(server: Server, password: str, threads: int = 12) -> None:
    """Log in with `threads` sessions at once; the server answers after all have connected, or after a short time."""
    server.crowd = len(server.asked) + threads
    server._crowded.clear()
    gate = threading.Barrier(threads)

    def one() -> None:
        gate.wait(10)
        with pytest.raises(pg.DriverError):
            login(password)

    begun = [threading.Thread(target=one, daemon=True) for _ in range(threads)]
    for thread in begun:
        thread.start()
    for thread in begun:
        thread.join(20)


def test_sessions_that_log_in_at_once_ask_twice_with_a_password_that_is_refused(server: Server) -> None:
    at_once(server, "wrong")
    assert server.asked == ["wrong", "wrong"], "DWS locks an account after 10 (failed_login_attempts)"


@pytest.mark.parametrize(("seconds", "most"), [(0.0, RECENT_AT_ONCE), (RECENT_SECONDS, TRIES)])
def test_a_password_that_changes_under_sessions_that_log_in_at_once_locks_no_account(
    server: Server, monkeypatch: pytest.MonkeyPatch, seconds: float, most: int
) -> None:
    now = [0.0]
    monkeypatch.setattr(pg, "_refusals", Refusals(lambda: now[0]))
    assert login("right") == "session"
    now[0], server.password = seconds, "other"
    at_once(server, "right")
    assert len(server.asked) == 1 + most < 10


def test_a_server_that_is_silent_delays_no_caller_longer_than_one_login(server: Server) -> None:
    known = Refusals()
    with known.turn(PLACE, "x", 20), known.turn(PLACE, "x", 20), known.turn(PLACE, "x", 0.01) as standing:
        assert standing == ""


class Rotated:
    """A secret whose reference resolves to `plain`; implements `slotkeeper.core.domain.endpoint.Secret`."""

    def __init__(self, plain: str) -> None:
        self.plain, self._accepted = plain, ""

    def now(self) -> str:
        return self.plain

    def refused(self, plain: str) -> None:
        """Do nothing: the secret is read each time."""

    def taken(self, plain: str) -> None:
        self._accepted = plain

    def accepted(self) -> str:
        return self._accepted

    def hidden_in(self, text: str) -> str:
        return text


def test_a_password_that_is_ahead_of_its_server_is_not_held_against_it(server: Server) -> None:
    secret = Rotated("right")
    assert login(secret) == "session"
    secret.plain = "new"
    for _ in range(5):
        assert login(secret) == "session", "the server still accepts the older one"
    server.password = "new"
    assert login(secret) == "session"


def test_of_a_rotated_password_the_server_is_asked_once_and_then_with_the_new_one(server: Server) -> None:
    secret = Rotated("right")
    login(secret)
    server.password = "new"
    for _ in range(5):
        with pytest.raises(pg.DriverError):
            login(secret)
    secret.plain = "new"
    assert login(secret) == "session"
    assert server.asked == ["right"] * 3 + ["new"]
