"""A source that is unreachable or hangs is shown as such, and a reader ends with its job (apache/doris #13503)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.demo.mariadb import MariaServer
from tests.support import maria as support
from tests.support.pairs import MakeMysqlPair, MysqlPair
from tests.support.sqlite_pair.pair import supervised
from tests.support.waiting import until

pytestmark = pytest.mark.chaos
SECONDS = 10
"""Seconds since the last answer."""


@pytest.fixture
def own() -> Iterator[MariaServer]:
    server = support.begin({})
    yield server
    support.end(server)


@contextmanager
def ended(server: MariaServer) -> Iterator[None]:
    server.stop(crash=True)
    yield
    server.start()


@contextmanager
def stopped(server: MariaServer) -> Iterator[None]:
    assert server.child is not None
    pid = server.child.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("gone", [ended, stopped])
def test_a_source_that_does_not_answer_is_named_and_the_job_resumes_by_itself(
    make_mysql_pair: MakeMysqlPair, own: MariaServer, gone: Callable[[MariaServer], object]
) -> None:
    pair = make_mysql_pair(at=own)
    mirror = pair.mirror
    mirror.start().wait_running()
    pair.write((1, 1))
    pair.wait_equal()
    mirror.heard.retries.clear()
    with gone(own):  # type: ignore[attr-defined]
        began = time.monotonic()
        until(lambda: bool(troubles(pair)), SECONDS, "the source to be named")
        print(f"named after {time.monotonic() - began:.1f} s: {troubles(pair)}")
        assert any("source maria" in one for one in troubles(pair))
    refuse_silence(pair)


def troubles(pair: MysqlPair) -> list[str]:
    """The job's own report of its lanes and of itself."""
    heard = pair.mirror.heard
    return [str(lane.error) for lane in heard.now.values() if lane.error] + heard.retries


def refuse_silence(pair: MysqlPair) -> None:
    pair.session.close()
    pair.session = support.log_in(pair.server)
    pair.write((2, 2))
    pair.wait_equal(60)
    pair.mirror.stop()


def test_a_job_that_was_stopped_leaves_no_reader_at_the_source(make_mysql_pair: MakeMysqlPair, tmp_path: Path) -> None:
    pair = make_mysql_pair()
    readers = "SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
    with supervised(pair, tmp_path, "local") as job:
        job.wait_for(JobState.RUNNING)
        pair.write((1, 1))
        pair.wait_equal()
        until(lambda: pair.rows(readers)[0][0] > 0, 30, "the job's reader")
        assert job.stop().state is JobState.STOPPED
        until(lambda: pair.rows(readers)[0][0] == 0, 30, "no reader to be left")
