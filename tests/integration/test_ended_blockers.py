"""`slotkeeper locks end`: only the one session that blocks a job's session is ended, at a real PostgreSQL."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.load import load
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.audit import Phase
from slotkeeper.core.domain.ending import InFront, moment
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.domain.locks import PREFIX
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused
from slotkeeper.core.services import ending
from slotkeeper.core.sinks.postgres.check.viewer import PostgresLockWaits
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.demo.postgres import write_password
from tests.contract.test_lock_waits import STATEMENT, TABLE, Place, now, place, run
from tests.support.polling import config, job
from tests.support.printed import typed
from tests.support.waiting import until

__all__ = ["place"]
_numbers = itertools.count(1)
OURS = "slotkeeper/orders/7"


def file_of(at: Place, endpoint: Endpoint | None = None) -> Path:
    endpoint = endpoint or at.endpoint()
    sink = replace(endpoint, name="mart")
    return config(at.folder, replace(endpoint, name="dws1"), sink, job("orders", "s1", "ods.orders", TABLE))


def call(capfd: pytest.CaptureFixture[str], file: Path, *words: str) -> tuple[int, str, str]:
    return typed(capfd, "locks", *words, "--config", str(file))


def began_of(at: Place, pid: int) -> float:
    with at.session("admin").cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM backend_start)::float8 FROM pg_stat_activity WHERE pid = %s", (pid,))
        found = cursor.fetchone()
    assert found is not None
    return float(found[0])


def is_there(at: Place, pid: int) -> bool:
    with at.session("admin").cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,))
        return cursor.fetchone() is not None


def in_front(at: Place, name: str = OURS, holder: str = "psql") -> tuple[int, float]:
    """A stranger with the table's lock, and a session of the job that waits for it."""
    pid = at.stranger(f"LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE", name=holder).info.backend_pid
    at.waiting(STATEMENT, name)
    at.waits(at.reader("slotkeeper"))
    return pid, began_of(at, pid)


def lines_of(file: Path) -> list[Any]:
    return list(reversed(Audit(StateFolder.looked_at(load(file, {}).state_dir)).read().lines))


def test_the_session_in_front_ends_ours_continues_and_both_lines_are_in_the_audit(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    pid, began = in_front(place)
    file = file_of(place)
    code, out, _ = call(capfd, file)
    shown = " ".join(out.split())
    assert code == 0 and f"locks end {pid} --began {moment(began)} --sink mart --reason REASON`" in shown
    words = ("end", str(pid), "--began", moment(began), "--reason", "INC-7", "--json")
    code, out, err = call(capfd, file, *words)
    said = json.loads(out)
    assert code == 0, err
    assert (said["server"], said["pid"], said["ended"], said["outcome"]) == ("sink mart", pid, True, "it has ended")
    assert not is_there(place, pid)
    until(lambda: not place.reader().read(now()), 20, "ours to continue")
    before, after = lines_of(file)
    assert (before.action, before.phase, before.reason) == ("locks end", Phase.INTENT, "INC-7")
    assert before.what == f"sink mart session {pid}" and before.result["began"] == moment(began)
    assert (after.phase, after.outcome) == (Phase.OUTCOME, "it has ended")


def test_a_session_that_blocks_no_session_of_a_job_is_never_ended(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    pid = place.stranger(f"SELECT * FROM {TABLE}").info.backend_pid
    place.waiting("SELECT pg_sleep(0)", OURS)
    began = moment(began_of(place, pid))
    code, _, err = call(capfd, file_of(place), "end", str(pid), "--began", began, "--reason", "INC-7")
    assert code == 3 and f"pid {pid} does not block a job's session" in err and is_there(place, pid)
    assert not (place.folder / "state" / "audit.jsonl").exists()


def test_a_session_in_front_of_strangers_only_is_never_ended(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    pid, began = in_front(place, name="slotkeeperish")
    code, _, err = call(capfd, file_of(place), "end", str(pid), "--began", moment(began), "--reason", "INC-7")
    assert code == 3 and "does not block a job's session" in err and is_there(place, pid)


@pytest.mark.parametrize("shift", [-1.0, 0.01])
def test_another_session_that_has_got_the_pid_is_never_ended(
    shift: float, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    pid, began = in_front(place)
    code, _, err = call(capfd, file_of(place), "end", str(pid), "--began", moment(began + shift), "--reason", "INC-7")
    assert (
        code == 3 and "not the session connected" in err and f"--began {moment(began)}" in err and is_there(place, pid)
    )
    reader = place.reader()
    seen = reader.in_front(pid, now(), began + shift)
    assert seen is not None and not seen.sent and is_there(place, pid)


@pytest.mark.parametrize("words", [(), ("--began", "yesterday"), ("--reason", "INC-7"), ("--reason", "  ")])
def test_without_its_moment_or_a_reason_nothing_is_ended(
    words: tuple[str, ...], place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    pid, _ = in_front(place)
    code, _, err = call(capfd, file_of(place), "end", str(pid), *words)
    assert code in (2, 3) and err and is_there(place, pid)


def test_a_job_s_own_session_and_one_that_calls_itself_so_are_never_ended(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    pid, began = in_front(place, holder="slotkeeper/`x`; DROP")
    code, _, err = call(capfd, file_of(place), "end", str(pid), "--began", moment(began), "--reason", "INC-7")
    assert code == 3 and "has the application name of a job's session" in err and is_there(place, pid)
    assert (seen := place.reader().in_front(pid, now(), began)) is not None and not seen.sent


def test_a_session_that_lets_go_between_the_look_and_the_act_is_left_alone_and_the_audit_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid, began = in_front(place)
    loaded = load(file_of(place), {})
    look: Callable[..., InFront | None] = PostgresLockWaits.in_front

    def lets_go(self: PostgresLockWaits, pid: int, at: float, end: float | None = None) -> InFront | None:
        if end is not None:
            with place.session("admin").cursor() as cursor:
                cursor.execute(
                    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (OURS,)
                )
            until(lambda: not place.reader().read(now()), 20, "ours to wait no more")
        return look(self, pid, at, end)

    monkeypatch.setattr(PostgresLockWaits, "in_front", lets_go)
    asked = ending.Asked("sink mart", pid, began, "INC-7")
    with pytest.raises(Refused, match="does not block a job's session"):
        ending.end(loaded, asked, lambda: SystemClock().utc().timestamp())
    assert is_there(place, pid)
    before, after = lines_of(file_of(place))
    assert before.phase is Phase.INTENT and after.outcome.startswith(f"failed: pid {pid} does not block")


def test_without_a_line_in_the_audit_nothing_is_ended(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    pid, began = in_front(place)
    file = file_of(place)
    folder = load(file, {}).state_dir
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "audit.jsonl").mkdir()
    code, _, err = call(capfd, file, "end", str(pid), "--began", moment(began), "--reason", "INC-7")
    assert code and "audit" in err and is_there(place, pid)


@dataclass
class Roles:
    """Two logins without any rights, dropped at the end."""

    at: Place
    admin: pg.Connection

    def __post_init__(self) -> None:
        number = next(_numbers)
        self.names = {"etl": f"etl_ends_{number}", "eve": f"eve_ends_{number}"}
        for name in self.names.values():
            file = self.at.folder / f"{name}.password"
            run(
                self.admin, f"CREATE ROLE {name} LOGIN PASSWORD '{write_password(file)}'",
                f"GRANT USAGE ON SCHEMA mart TO {name}", f"GRANT ALL ON {TABLE} TO {name}",
            )  # fmt: skip
            self.at.stack.callback(run, self.admin, f"DROP OWNED BY {name}", f"DROP ROLE {name}")

    def endpoint(self, who: str) -> Endpoint:
        name = self.names[who]
        return self.at.endpoint(name, SecretRef("file", str(self.at.folder / f"{name}.password")))

    def session(self, who: str, name: str) -> pg.Connection:
        given = login(self.endpoint(who) if who else self.at.endpoint(), name)
        return self.at.stack.enter_context(closing(pg.connect(given.endpoint, given.password, name)))


@pytest.mark.parametrize(
    ("grants", "holder", "code", "said"),
    [
        ("", "eve", 3, "GRANT pg_read_all_stats TO {etl}"),
        ("pg_read_all_stats", "eve", 3, "`GRANT pg_signal_backend TO {etl}`"),
        ("pg_read_all_stats, pg_signal_backend", "eve", 0, "it has ended"),
        ("pg_read_all_stats, pg_signal_backend", "", 3, "a superuser can run `SELECT pg_terminate_backend({pid})"),
        ("", "etl", 0, "it has ended"),
    ],
    ids=["cannot see", "may not", "pg_signal_backend", "a superuser's", "the same role"],
)
def test_a_role_ends_what_it_may_and_names_who_can_where_it_may_not(
    grants: str, holder: str, code: int, said: str, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    admin = place.session("admin")
    admin.autocommit = True
    roles = Roles(place, admin)
    run(admin, *([f"GRANT {grants} TO {roles.names['etl']}"] if grants else []))
    blocker = roles.session(holder, "psql")
    run(blocker, f"LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE")
    pid = blocker.info.backend_pid
    place.waits_in_thread(roles.session("etl", OURS), STATEMENT)
    place.waits(place.reader(PREFIX))
    began = moment(began_of(place, pid))
    file = file_of(place, roles.endpoint("etl"))
    ended, out, err = call(capfd, file, "end", str(pid), "--began", began, "--reason", "INC-7")
    words = said.format(pid=pid, **roles.names)
    assert (ended, words in " ".join((out + err).split())) == (code, True), out + err
    assert is_there(place, pid) is bool(code)
