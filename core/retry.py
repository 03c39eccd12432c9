"""Decide whether to retry after a failure. Pure: the caller passes the history and a random number.

There are two levels. The *quick* series has the limits that the vendor's connector documents; after it, transient
causes are retried according to `[jobs.X.retry]`, with backoff and jitter, by default indefinitely.

| kind | decision |
| --- | --- |
| TRANSIENT, CONTENTION | quick series of the failed side, then long waits until `give_up_after` (default: never) |
| UNKNOWN | the same waits, ten tries in all, then Stop |
| ACCESS | two tries in all, the second after a long wait, then Stop, so that no account is locked |
| LOGIN | waits that double up to a minute, without a limit; at a job's first start two tries in all, then Stop |
| OVERSIZE | Halve at once, down to one sync point; Stop if that fails |
| TOPOLOGY, OPERATOR, CONFIG, DATA, DEFECT | Stop |
| SUPERSEDED | EndQuietly |

The vendor's client retries only five classes; they map to these kinds:

| vendor's class | kind |
| --- | --- |
| connection failure | TRANSIENT |
| database read-only | TRANSIENT (a temporary failover) |
| timeout | CONTENTION; OVERSIZE if a step's own read or write ran out of time |
| too many connections | CONTENTION |
| lock failure | CONTENTION |

The quick series of the source has `binlog_max_retry_times` retries, with waits of `binlog_retry_interval` x attempt +
Random(100) ms. That of the sink has `max_flush_retry_times` tries in total, with waits of 1 s x n. Apart from its
jitter, a wait never becomes shorter until a success resets the history.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from slotkeeper.core.domain.spec import BinlogOptions, JobSpec, RetryOptions, SinkOptions
from slotkeeper.core.domain.tries import History
from slotkeeper.core.errors import ErrorKind, SlotkeeperError

UNKNOWN_TRIES = 10
ACCESS_TRIES = 2
LOGIN_WAIT_MOST = 60.0
"""Seconds between two comparisons of a rejected password with its reference; if they are equal, no login is tried."""
FLUSH_WAIT = 1.0
"""Seconds by which each wait of the sink's quick series exceeds the previous one (the connector's 1 s x n)."""
SOURCE_JITTER = 0.1
"""The connector's Random(100), in seconds."""
_DOUBLINGS = 40
"""Maximum number of doublings of the backoff, far above every allowed `wait_max`; the limit prevents an overflow."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure: `where` is "source", "sink" or ""; `width`: the step's number of sync points, 0 if none."""

    kind: ErrorKind
    where: str = ""
    width: int = 0

    @classmethod
    def of(cls, error: SlotkeeperError, width: int = 0) -> Failure:
        return cls(error.kind, error.where, width)


_BINLOG, _SINK, _RETRY = BinlogOptions(), SinkOptions(), RetryOptions()


@dataclass(frozen=True, slots=True)
class RetryRules:
    """The limits of both levels: waits in milliseconds, `give_up_after` None means never."""

    source_retries: int = _BINLOG.binlog_max_retry_times
    source_interval: int = _BINLOG.binlog_retry_interval
    flush_tries: int = _SINK.max_flush_retry_times
    wait_initial: int = _RETRY.wait_initial
    wait_max: int = _RETRY.wait_max
    wait_jitter: int = _RETRY.wait_jitter
    give_up_after: int | None = None
    awaits_secret: bool = True
    """Whether to wait for a new password after a rejection; False at a first start, because a user is watching it."""

    @classmethod
    def of(cls, spec: JobSpec) -> RetryRules:
        return cls(
            source_retries=spec.binlog.binlog_max_retry_times,
            source_interval=spec.binlog.binlog_retry_interval,
            flush_tries=spec.sink_options.max_flush_retry_times,
            wait_initial=spec.retry.wait_initial,
            wait_max=spec.retry.wait_max,
            wait_jitter=spec.retry.wait_jitter,
            give_up_after=spec.retry.give_up_after,
        )


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Retry the same step after `seconds`; `attempt` counts the retries since the last success, from 1."""

    seconds: float
    attempt: int


@dataclass(frozen=True, slots=True)
class Halve:
    """Retry at once with a step of `width` sync points."""

    width: int


@dataclass(frozen=True, slots=True)
class Stop:
    """The job is FAILED and needs an action; `reason`: why it is not retried."""

    reason: str


@dataclass(frozen=True, slots=True)
class EndQuietly:
    """End without FAILED and without a restart: a later start of the same job has taken over."""


Decision = RetryAfter | Halve | Stop | EndQuietly


def decide(failure: Failure, history: History, rules: RetryRules, rand: float) -> Decision:
    """Return the decision about a failure; `history` does not include it yet, and `rand` is in [0, 1)."""
    match failure.kind:
        case ErrorKind.TRANSIENT | ErrorKind.CONTENTION:
            return _wait(failure, history, rules, rand)
        case ErrorKind.UNKNOWN:
            if history.unknown + 1 >= UNKNOWN_TRIES:
                return Stop(f"unknown error, tried {UNKNOWN_TRIES} times")
            return _wait(failure, history, rules, rand)
        case ErrorKind.ACCESS:
            if history.access + 1 >= ACCESS_TRIES:
                return Stop(f"access denied {ACCESS_TRIES} times; not retried, to avoid locking the account")
            return _wait(failure, history, rules, rand)
        case ErrorKind.LOGIN:
            if not rules.awaits_secret and history.login + 1 >= ACCESS_TRIES:
                return Stop(f"login rejected {ACCESS_TRIES} times; not retried, to avoid locking the account")
            return RetryAfter(min(LOGIN_WAIT_MOST, 2.0 ** min(history.login, _DOUBLINGS)), history.failures + 1)
        case ErrorKind.OVERSIZE:
            return _halve(failure.width)
        case ErrorKind.SUPERSEDED:
            return EndQuietly()
        case ErrorKind.TOPOLOGY | ErrorKind.OPERATOR | ErrorKind.CONFIG | ErrorKind.DATA | ErrorKind.DEFECT:
            return Stop(_STOPS[failure.kind])
    assert_never(failure.kind)


AWAITS_SECRET = "login rejected; waiting for a new secret (checked automatically at least once a minute)"  # noqa: S105
LOGIN_REFUSED = "login rejected: the one remaining attempt is made at its scheduled time, to avoid locking the account"


def why_not_now(history: History) -> str:
    """Return why a requested retry must not shorten the wait; "" if it can; the retry counts like any other.

    >>> why_not_now(History(failures=3, sink=3)), why_not_now(History(failures=1, access=1)) == LOGIN_REFUSED
    ('', True)
    """
    if history.login:
        return AWAITS_SECRET
    return LOGIN_REFUSED if history.access else ""


def after(history: History, failure: Failure, rules: RetryRules) -> History:
    """Return the history including this failure, for the next `decide`.

    OVERSIZE leads to a smaller step, not to a wait, so it does not change the other counts. If the job waits for a new
    password, `login` counts consecutive rejections; any other failure resets it, because it shows that the login
    succeeded.
    """
    if failure.kind is ErrorKind.OVERSIZE:
        return history
    quick = _is_quick(failure, history, rules)
    refused_before = 0 if rules.awaits_secret and failure.kind is not ErrorKind.LOGIN else history.login
    return replace(
        history,
        failures=history.failures + 1,
        source=history.source + (quick and failure.where == "source"),
        sink=history.sink + (quick and failure.where == "sink"),
        access=history.access + (failure.kind is ErrorKind.ACCESS),
        login=refused_before + (failure.kind is ErrorKind.LOGIN),
        unknown=history.unknown + (failure.kind is ErrorKind.UNKNOWN),
        long=history.long + (not quick and failure.kind is not ErrorKind.LOGIN),
    )


_STOPS = {
    ErrorKind.TOPOLOGY: "the set of data nodes has changed",
    ErrorKind.OPERATOR: "an operator must act first",
    ErrorKind.CONFIG: "the configuration cannot be used",
    ErrorKind.DATA: "the sink rejects a row's values",
    ErrorKind.DEFECT: "an internal invariant is violated",
}


def _halve(width: int) -> Decision:
    if width > 1:
        return Halve(width // 2)
    if width == 1:
        return Stop("a single sync point is too large for the time, disk or memory limits")
    return Stop("too large for the time, disk or memory limits, and not divisible")


def _wait(failure: Failure, history: History, rules: RetryRules, rand: float) -> Decision:
    """Return the next wait: of the quick series while it lasts, else of the long level."""
    attempt = history.failures + 1
    if _is_quick(failure, history, rules):
        return RetryAfter(_quick_wait(failure, history, rules, rand), attempt)
    if rules.give_up_after is not None and history.elapsed * 1000 >= rules.give_up_after:
        return Stop(f"gave up after {history.elapsed:.0f} s, as set by give_up_after")
    return RetryAfter(_long_wait(history, rules, rand), attempt)


def _is_quick(failure: Failure, history: History, rules: RetryRules) -> bool:
    """Whether the quick series of the failed side has a try left; always False once the long level has started."""
    if history.long or failure.kind in (ErrorKind.ACCESS, ErrorKind.LOGIN):
        return False
    if failure.where == "source":
        return history.source < rules.source_retries
    if failure.where == "sink":
        return history.sink + 1 < rules.flush_tries
    return False


def _quick_wait(failure: Failure, history: History, rules: RetryRules, rand: float) -> float:
    """Return the documented wait; not shorter than the last quick wait of the other side, if both fail."""
    source, sink = _last_quick(history, rules)
    if failure.where == "source":
        return max(rules.source_interval / 1000 * (history.source + 1), sink) + rand * SOURCE_JITTER
    return max(FLUSH_WAIT * (history.sink + 1), source)


def _long_wait(history: History, rules: RetryRules, rand: float) -> float:
    """Return the long wait: doubled from `wait_initial` to `wait_max`, at least the last quick wait, plus jitter."""
    base = min(rules.wait_max, rules.wait_initial << min(history.long, _DOUBLINGS)) / 1000
    return max(base, *_last_quick(history, rules)) + rand * rules.wait_jitter / 1000


def _last_quick(history: History, rules: RetryRules) -> tuple[float, float]:
    """Return the last quick waits of source and sink without their jitter, in seconds; 0 if there was none."""
    return rules.source_interval / 1000 * history.source, FLUSH_WAIT * history.sink
