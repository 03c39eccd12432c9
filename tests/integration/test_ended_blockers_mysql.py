"""A DDL that waits at a MariaDB and blocks a job's session is ended if the login has the right; no other session is."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain import ending
from slotkeeper.core.domain.ending import InFront
from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import SourceSession
from slotkeeper.core.ports.sink import SessionEnder
from slotkeeper.core.services import ending as service
from slotkeeper.core.sources import registry
from slotkeeper.core.sources.mysql import doctor
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from tests.integration.test_mysql_waits import READER, REFRESHED, Stage, first, stage
from tests.support.maria import endpoint
from tests.support.waiting import until

__all__ = ["stage"]
OLD = "SELECT 1 FROM information_schema.innodb_trx WHERE TIMESTAMPDIFF(SECOND, trx_started, NOW()) >= 2"


def ender(stage: Stage) -> SessionEnder:
    found = stage.reader().ender
    assert found is not None
    return found


def after_it(stage: Stage, user: str = READER) -> None:
    """A session that reads the table, and waits until the blocking DDL has ended."""
    session = stage.login(user)
    session.seconds = 300.0

    def go() -> None:
        with suppress(my.DriverError):
            session.rows(f"SELECT COUNT(*) FROM {stage.table}")

    thread = threading.Thread(target=go)
    thread.start()
    stage.stack.callback(thread.join)
    stage.stack.callback(session.sever)


def waiting(stage: Stage, user: str = READER) -> int:
    """The pid of a DDL that waits for a job's transaction, once a session of that user waits after it."""
    stage.copy()
    until(lambda: stage.maria.rows(OLD), 20, "the copy's transaction to age in whole seconds", REFRESHED)
    stage.begins(f"ALTER TABLE {stage.table} ADD COLUMN c int")
    pid = first(stage.reader()).waiter.pid
    assert pid is not None
    after_it(stage, user)
    first(stage.reader(), 1)
    return pid


def there(stage: Stage, pid: int) -> bool:
    return bool(stage.maria.rows(f"SELECT 1 FROM information_schema.processlist WHERE id = {pid}"))


def seen(at: SessionEnder, pid: int, end: float | None = None) -> InFront:
    """Return the report of it, as soon as the server shows which of the two has waited longer."""
    return until(lambda: at.in_front(pid, time.time(), end), 20, "it to be in front")


def test_a_login_that_may_ends_the_ddl_in_front_of_a_job_and_one_that_may_not_says_who_can(stage: Stage) -> None:
    pid, at = waiting(stage), ender(stage)
    found = seen(at, pid)
    began = found.blocker.began
    assert began is not None and not found.right and found.blocker.user == "root"
    with pytest.raises(Refused) as refused:
        ending.refuse(found, pid, began, "source m")
    assert f"`KILL {pid}`" in refused.value.hint and f"CONNECTION_ADMIN ON *.* TO '{READER}'@'%'" in refused.value.hint
    assert not seen(at, pid, began).sent and there(stage, pid)
    stage.maria.run(f"GRANT CONNECTION ADMIN ON *.* TO {READER}@'%'")
    at = ender(stage)  # a session has the rights of the time of its login
    found = seen(at, pid, began - 60.0)
    assert found.right == "CONNECTION ADMIN" and not found.sent and there(stage, pid)
    with pytest.raises(Refused, match="not the session connected"):
        ending.refuse(found, pid, began - 60.0, "source m")
    assert at.is_there(pid, began) and seen(at, pid, began).sent
    until(lambda: not there(stage, pid), 20, "it to end")
    assert not at.is_there(pid, began) and at.in_front(pid, time.time()) is None


def test_the_command_ends_it_and_the_audit_has_both_lines(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.maria.run(f"GRANT CONNECTION ADMIN ON *.* TO {READER}@'%'")
    pid = waiting(stage)
    began = seen(ender(stage), pid).blocker.began
    at = Login(endpoint(stage.maria.server, READER), "", "slotkeeper-locks")

    def open_source() -> tuple[SourceSession, SessionEnder | None]:
        session = registry.open("mysql").connect(at)
        waits = session.doctor.waits({stage.table: {"orders_slot": "orders"}})
        return session, waits.ender if waits is not None else None

    monkeypatch.setattr(service, "askers", lambda loaded: {"source shop": open_source})
    loaded = cast(Loaded, SimpleNamespace(state_dir=tmp_path / "state"))
    asked = service.Asked(service.server_of(loaded, "", "shop"), pid, began, "INC-7")
    ended = until(lambda: _ended(loaded, asked), 20, "the server to tell that it is in front")
    assert ended.gone and not there(stage, pid)
    after, before, *_ = Audit(StateFolder.looked_at(tmp_path / "state")).read().lines
    assert before.what == f"source shop session {pid}" and before.reason == "INC-7" and before.result["user"] == "root"
    assert after.outcome == "it has ended"


def _ended(loaded: Loaded, asked: service.Asked) -> service.Ended | None:
    try:
        return service.end(loaded, asked, time.time)
    except Refused as error:
        assert "does not block" in error.message
        return None


def test_a_right_that_the_session_has_not_yet_ends_nothing_and_says_who_can(stage: Stage) -> None:
    pid, at = waiting(stage), ender(stage)
    began = seen(at, pid).blocker.began
    stage.maria.run(f"GRANT CONNECTION ADMIN ON *.* TO {READER}@'%'")
    found = seen(at, pid, began)
    assert not found.sent and not found.right and there(stage, pid)


def test_a_ddl_that_no_session_of_a_job_waits_after_blocks_no_session(stage: Stage) -> None:
    stage.maria.run(f"GRANT CONNECTION ADMIN ON *.* TO {READER}@'%'")
    pid, at = waiting(stage, ""), ender(stage)
    assert at.in_front(pid, time.time()) is None
    assert at.in_front(pid, time.time(), first(stage.reader()).waiter.began) is None and there(stage, pid)


def test_a_session_that_waits_to_read_or_that_does_nothing_blocks_no_session(stage: Stage) -> None:
    waiting(stage)
    rows = stage.maria.rows(doctor._WAITING.replace("%%", "%"))
    readers = [int(row[0]) for row in rows if row[1] == READER]
    idle = stage.login("")
    number = int(idle.rows("SELECT CONNECTION_ID()")[0][0])
    assert readers and all(ender(stage).in_front(pid, time.time()) is None for pid in (*readers, number))
