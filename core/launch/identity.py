"""Identify processes, wait for them and end them by facts that were recorded at their start, never by name.

Ending processes by their command line can kill another user's processes. Therefore, a process counts as Slotkeeper's
own only if its pid, its start time (in ticks since boot, which clock changes do not affect) and its session match the
record. The members of its session count only while it is certain that the session is still the recorded session. psutil
is imported only where processes have to be searched for: /proc is sufficient to check a recorded process, and importing
psutil takes a tenth of the time of `status`.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from slotkeeper.core.domain.report import Identity
from slotkeeper.core.errors import Refused

MARK = "SLOTKEEPER_RUN"
"""The environment variable with the id of the run, set for a driver and all processes that it starts."""
_PROC = Path("/proc")
_POLL = 0.05


@dataclass(frozen=True, slots=True)
class _Seen:
    """Current information from the system about a pid."""

    started: str
    session_id: int
    stopped: bool = field(default=False, compare=False)
    """Whether a signal or a debugger has stopped it (proc(5): state T or t)."""


def of(pid: int, run_id: str = "") -> Identity:
    """Return the identity of a running process; raises ProcessLookupError if the process does not exist."""
    seen = _observe(pid)
    if seen is None:
        raise ProcessLookupError(errno.ESRCH, f"no process {pid}")
    return Identity(pid, seen.started, seen.session_id, run_id, socket.gethostname())


def alive(identity: Identity | None) -> bool:
    """Return whether exactly that process is running here: same pid, start and session; a zombie counts as exited."""
    if identity is None:
        return False
    return _observe(identity.pid) == _recorded(identity)


def stopped(identity: Identity | None) -> bool:
    """Return whether the process exists but a signal or a debugger has stopped it (proc(5): state T or t)."""
    seen = None if identity is None else _observe(identity.pid)
    return seen is not None and identity is not None and seen.stopped and seen == _recorded(identity)


def elsewhere(identity: Identity | None) -> bool:
    """Return whether the process was recorded on another host or in another container, and so is not visible here."""
    if identity is None:
        return False
    return identity.host != socket.gethostname() and not identity.started.startswith(f"{_machine()}:")


def session_members(session_id: int) -> list[int]:
    import psutil

    found = []
    for pid in psutil.pids():
        seen = _observe(pid)
        if seen is not None and seen.session_id == session_id and pid != os.getpid():
            found.append(pid)
    return found


def members(identity: Identity) -> list[int]:
    """Return a recorded driver's running processes: the members of its session, and those with its marker (a JVM).

    The kernel does not reuse a pid while a session with that id has members. Therefore, while the recorded leader runs,
    the session is the recorded one. If another process leads the session, all recorded processes have exited; if no
    process leads it, a member counts only with the marker. A driver that does not lead its session (started in the
    foreground of a shell) owns only itself.
    """
    import psutil

    found = {pid for pid in psutil.pids() if pid != os.getpid() and _marked(pid, identity.run_id)}
    if alive(identity):
        found.add(identity.pid)
        if identity.pid == identity.session_id:
            found.update(session_members(identity.session_id))
    return sorted(found)


def wait_gone(still_there: Callable[[], bool], seconds: float) -> bool:
    """Wait until `still_there` returns False; return False if it still returns True after `seconds`."""
    deadline = time.monotonic() + seconds
    while still_there():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


def end(identity: Identity, grace: float) -> bool:
    """Send SIGTERM to a process and SIGKILL to it and its members after `grace` seconds; return True if all exited."""
    if alive(identity):
        _send(identity.pid, signal.SIGTERM, lambda: alive(identity))
        wait_gone(lambda: alive(identity), grace)
    return kill_members(identity)


def interrupt(identity: Identity) -> bool:
    """Interrupt a process, as Ctrl-C does; return False if it has already exited."""
    return _send(identity.pid, signal.SIGINT, lambda: alive(identity))


def terminate(identity: Identity, also: Callable[[], bool] = lambda: True) -> bool:
    """Send SIGTERM to a process; return False if it has exited, or if the further check `also` fails."""
    return _send(identity.pid, signal.SIGTERM, lambda: alive(identity) and also())


def has_open(pid: int, file: Path) -> bool:
    """Return whether a process has exactly this file open; raises Refused for another user's process."""
    import psutil

    try:
        return any(Path(one.path).samefile(file) for one in psutil.Process(pid).open_files())
    except psutil.AccessDenied as error:
        raise _of_another_user(pid) from error
    except (psutil.Error, OSError):
        return False


def kill_members(identity: Identity) -> bool:
    """Send SIGKILL to the remaining processes of a recorded driver; return True once all have exited."""
    for _ in range(3):
        left = members(identity)
        for pid in left:
            _send(pid, signal.SIGKILL, lambda pid=pid: pid in members(identity))  # type: ignore[misc]
        if wait_gone(lambda: bool(members(identity)), 1.0):
            return True
    return not members(identity)


def _send(pid: int, number: signal.Signals, still_ours: Callable[[], bool]) -> bool:
    """Signal a process through a descriptor opened before its identity is checked, in case its pid is reused."""
    try:
        descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        try:
            if not still_ours():
                return False
            if descriptor is None:
                os.kill(pid, number)
            else:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            if descriptor is not None:
                os.close(descriptor)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise _of_another_user(pid) from error
    return True


def _of_another_user(pid: int) -> Refused:
    return Refused(
        f"pid {pid} belongs to another user: this user cannot signal it", "ask that user, or use that account"
    )


def _recorded(identity: Identity) -> _Seen:
    return _Seen(identity.started, identity.session_id)


def _observe(pid: int) -> _Seen | None:
    if not _PROC.joinpath("self", "stat").exists():
        return _observe_portably(pid)
    try:
        text = _PROC.joinpath(str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command name can contain blanks and parentheses, so the fields are counted after its last parenthesis.
    rest = text[text.rindex(")") + 2 :].split()
    if rest[0] in "ZXx":
        return None
    return _Seen(f"{_machine()}:{rest[19]}", int(rest[3]), rest[0] in "Tt")


def _observe_portably(pid: int) -> _Seen | None:
    import psutil

    try:
        found = psutil.Process(pid)
        status = found.status()
        if status == psutil.STATUS_ZOMBIE:
            return None
        stopped = status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
        return _Seen(f"{_machine()}:{found.create_time():.2f}", os.getsid(pid), stopped)
    except (psutil.Error, OSError):
        return None


@cache
def _machine() -> str:
    """Return the id of this boot and pid namespace; a start time is meaningful only within both."""
    try:
        boot = _PROC.joinpath("sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = _PROC.joinpath("self/ns/pid").readlink().name
    except OSError:
        return f"host:{socket.gethostname()}"
    return f"{boot}:{namespace}"


def _marked(pid: int, run_id: str) -> bool:
    if not run_id or _observe(pid) is None:
        return False
    import psutil

    try:
        if _PROC.joinpath("self", "environ").exists():
            words = _PROC.joinpath(str(pid), "environ").read_bytes().split(b"\0")
            return f"{MARK}={run_id}".encode() in words
        return psutil.Process(pid).environ().get(MARK) == run_id
    except (OSError, psutil.Error):
        return False
