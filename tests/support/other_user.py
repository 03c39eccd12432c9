"""Another user's access to a state folder, from a process that was root until its imports were done.

`python -m tests.support.other_user VERB FOLDER UID UMASK GROUP` prints what happened as JSON. So it works even if that
user cannot reach the checkout.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from slotkeeper.console.actions.record import Record
from slotkeeper.console.actions.runner import Records
from slotkeeper.console.tui.export import put
from slotkeeper.core.domain.fault import Ack
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.domain.reset_files import BACKUPS, MARKS, PLANS
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.launch import identity, log
from slotkeeper.core.state import schema
from slotkeeper.core.state.alerts import AckFile
from slotkeeper.core.state.audit import Audit, intent
from slotkeeper.core.state.files import ResetFiles
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store
from tests.support import strangers
from tests.support.strangers import Served

ROOT = Path(__file__).parents[2]
ACTION = "20260101T000000-000000"
AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def run(
    verb: str, folder: Path, uid: int, umask: int = 0o022, group: int = 0, served: Served | None = None
) -> dict[str, str]:
    """Run it as that user, whose own group has the same number, and who may be in another group."""
    env = dict(os.environ)
    if served is not None:
        env |= {"SLOTKEEPER_TEST_SERVED": json.dumps(asdict(served))}
        env |= {"SLOTKEEPER_TEST_PATHS": json.dumps(served.paths)}
        env |= {"SLOTKEEPER_TEST_PROCESSES": json.dumps(served.processes)}
    words = [verb, str(folder), str(uid), str(umask), str(group or uid)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.other_user", *words],
        capture_output=True, text=True, cwd=ROOT, timeout=60, check=False, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def use(path: Path) -> dict[str, str]:
    """Write again every file that commands, consoles and supervisors create in a state folder."""
    with Store.open(path) as store:
        folder, files = store.folder, ResetFiles(store.folder)
        store.register_job("orders", "c")
        store.record_event("orders", "used", f"by {os.geteuid()}")
        for kind in (PLANS, BACKUPS, MARKS, "probes"):
            files.save(kind, "same", f"{kind} of {os.geteuid()}")
            assert files.load(kind, "same") == f"{kind} of {os.geteuid()}"
            files.save(kind, "gone", "")
            files.remove(kind, "gone")
            assert files.names(kind) == ["same"]
        Audit(folder).append(intent("use", "it", ""))
        assert Audit(folder).read().lines[0].actor.pid == os.getpid()
        for _ in range(2):
            log.say(folder, "orders", "used")
            assert log.rotate(folder, "orders", 1, 3)
        log.say(folder, "orders", "last")
        AckFile(folder).put("k", Ack("me", AT))
        records = Records(folder)
        records.save(Record(ACTION, ("jobs", "stop"), "stop", "orders", "me", True, AT))
        os.close(records.stream(ACTION, "out"))
        put(path, "clip.txt", "mine")
        put(path, f"exports/of-{os.geteuid()}.csv", "mine")
        folder.subfolder("spark")
        with folder.locked("orders", "start", 0.0):
            pass
        assert "last" in log.last_lines(folder.log("orders"), 1)[0]
        return {str(one.relative_to(path)): f"{one.stat().st_mode & 0o7777:04o}" for one in (path, *path.rglob("*"))}


def intrude(path: Path) -> dict[str, str]:
    """Return everything in a folder below a public one that can be listed, read, written or opened."""
    found = {}
    tries: dict[str, Callable[[Path], object]] = {
        "list": lambda one: list(one.iterdir()),
        "read": lambda one: one.read_bytes(),
        "write": lambda one: one.open("ab").close(),
        "make": lambda one: (one / "planted").touch(),
        "take away": lambda one: one.unlink(),
        "open as state": StateFolder.open,
        "open as store": lambda one: Store.open(one).close(),
    }
    for one in json.loads(os.environ["SLOTKEEPER_TEST_PATHS"]):
        for name, act in tries.items():
            try:
                act(Path(one))
                found[f"{name} {one}"] = "done"
            except (OSError, SlotkeeperError):
                continue
    return found


def signals(path: Path) -> dict[str, str]:
    """The results of signalling and inspecting the processes that a file names."""
    found = {}
    for values in json.loads(os.environ["SLOTKEEPER_TEST_PROCESSES"]):
        its = Identity(**values)
        for name in ("environ", "fd", "mem", "cwd"):
            found[f"{name} {its.pid}"] = str(os.access(f"/proc/{its.pid}/{name}", os.R_OK))
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(its.pid, number)
                found[f"kill {its.pid} {number}"] = "done"
            except PermissionError:
                found[f"kill {its.pid} {number}"] = "refused"
        asks: dict[str, Callable[[], bool]] = {
            "": lambda: True,
            " by its files": partial(identity.has_open, its.pid, Path("/")),
        }
        for name, also in asks.items():
            try:
                identity.terminate(its, also)
                found[f"terminate {its.pid}{name}"] = "done"
            except SlotkeeperError as error:
                found[f"terminate {its.pid}{name}"] = error.message
    return found


def break_in(path: Path) -> dict[str, str]:
    """The accesses that succeeded at embedded servers, at their files and at their processes."""
    served = Served(**json.loads(os.environ["SLOTKEEPER_TEST_SERVED"]))
    done = {what: came for what, came in signals(path).items() if came in ("done", "True")}
    return {**strangers.break_in(served), **intrude(path), **done}


def attempt(path: Path) -> dict[str, str]:
    """Open the folder; returns the error if that is denied."""
    try:
        StateFolder.open(path)
    except SlotkeeperError as error:
        return {"refused": f"{error.message} | {error.hint}"}
    return {}


VERBS: dict[str, Callable[[Path], dict[str, str]]] = {
    "use": use,
    "intrude": intrude,
    "signals": signals,
    "attempt": attempt,
    "break_in": break_in,
}


def main() -> None:
    verb, folder, uid, umask, group = sys.argv[1:]
    if verb == "break_in":
        strangers.load_all()
    identity.of(os.getpid())  # import everything now, while the checkout can be reached
    statements = schema.migrations()
    schema.migrations = lambda: statements
    os.umask(int(umask))
    os.setgroups([int(group)])
    os.setgid(int(uid))
    os.setuid(int(uid))
    print(json.dumps(VERBS[verb](Path(folder))))


if __name__ == "__main__":
    main()
