"""`slotkeeper locks`: it queries the sinks directly, each within its time limit, and changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.test_lock_waits import STATEMENT, TABLE, Place, place
from tests.support.fake_server import Mode, fake_server
from tests.support.polling import config, job, server
from tests.support.printed import typed
from tests.support.waiting import until

__all__ = ["place"]


def call(capfd: pytest.CaptureFixture[str], at: Place, *words: str, more: str = "") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command over a configuration with two jobs into this sink."""
    sink = replace(at.endpoint(), name="mart")
    jobs = (job("orders", "s1", "ods.orders", TABLE), job("prices", "s2", "ods.prices", "mart.prices"), more)
    file = config(at.folder, replace(at.endpoint(), name="dws1"), sink, *jobs)
    return typed(capfd, "locks", *words, "--config", str(file))


def waiting(capfd: pytest.CaptureFixture[str], at: Place, *words: str) -> Sequence[dict[str, Any]]:
    code, out, err = call(capfd, at, *words, "--json")
    assert code == 0, err
    (sink,) = json.loads(out)["sinks"]
    assert sink["sink"] == "mart" and sink["error"] is None
    found: list[dict[str, Any]] = sink["waits"]
    return found


def test_no_session_waits(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capfd, place)
    assert (code, err) == (0, "")
    at, there = (replace(place.endpoint(), name=name).place for name in ("mart", "dws1"))
    sink, source = out.splitlines()[0], " ".join(out.splitlines()[1:])
    assert sink == f"sink {at}: no session of a job waits for a lock"
    assert source.startswith(f"source {there}: hidden: ") and "no session waits" not in source


def test_who_waits_who_is_in_front_and_what_ends_it(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    pid = place.stranger(f"LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE").info.backend_pid
    place.waiting(STATEMENT, "slotkeeper/orders/7")
    (wait,) = until(lambda: waiting(capfd, place), 20, "it to wait")
    assert (wait["session"], wait["job"], wait["thing"], wait["statement"]) == (
        "slotkeeper/orders/7", "orders", TABLE, STATEMENT,
    )  # fmt: skip
    (blocker,) = wait["blockers"]
    assert (blocker["pid"], blocker["state"], blocker["waits"]) == (pid, "idle in transaction", False)
    assert waiting(capfd, place, "orders") and not waiting(capfd, place, "prices")
    code, out, _ = call(capfd, place)
    assert code == 0 and f"{TABLE} is locked by pid {pid}, user " in " ".join(out.split())
    assert f"SELECT pg_terminate_backend({pid})" in " ".join(out.split())


def test_the_printed_statement_ends_it_and_the_job_continues(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    place.stranger(f"LOCK TABLE {TABLE}")
    place.waiting(STATEMENT, "slotkeeper/orders/7")
    (wait,) = until(lambda: waiting(capfd, place), 20, "it to wait")
    sql = str(wait["do"])[str(wait["do"]).index("SELECT") :].partition("`")[0]
    admin = place.session("admin")
    with admin.cursor() as cursor:
        cursor.execute(sql)
        assert cursor.fetchone() == (True,)
    until(lambda: not waiting(capfd, place), 20, "no session to wait any more")


def test_a_sink_that_hangs_is_not_known_and_the_others_are_told(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    with fake_server(Mode.MUTE) as mute:
        silent = server("sinks", replace(mute.endpoint("dwh"), connect_timeout_ms=2_000), ['connect_timeout = "2s"'])
        lost = silent + job("lost", "s3", "ods.lost", "mart.lost").replace('sink = "mart"', 'sink = "dwh"')
        began = time.monotonic()
        code, out, err = call(capfd, place, more=lost)
        took = time.monotonic() - began
    assert code == 5 and took < 20
    assert ": unknown\n" in out and ": no session of a job waits for a lock\n" in out
    assert "does not answer within" in err and "Traceback" not in err


def test_an_unknown_job_is_refused_by_name(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capfd, place, "order")
    assert code == 2 and "unknown job 'order'" in err and "did you mean orders?" in err
