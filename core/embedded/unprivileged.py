"""Run a program without root rights: PostgreSQL refuses to start as root.

Started as a script in a process of its own (`python -I -S unprivileged.py MODE UID GID PROGRAM ...`), because the
change of rights must happen between fork and exec, and the parent may have threads.

Modes: PLAIN for an ordinary user; USERNS maps root to `nobody` inside a new user namespace (files keep root as
owner outside, folders of root stay readable, no file mode changes); SETUID becomes `nobody` for good (binaries and
data must be in folders that everybody may enter).
Next door: `core.embedded.postgres` chooses the folders, `core.embedded.binaries` the programs.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

CLONE_NEWUSER = 0x10000000
PROBE_LIMIT_S = 30.0


class Mode(Enum):
    """How the rights of root are dropped."""

    PLAIN = "plain"
    USERNS = "userns"
    SETUID = "setuid"


def nobody() -> tuple[int, int]:
    """(uid, gid) of `nobody`; the uid needs a line in the user database because initdb looks it up."""
    import pwd  # not on every platform, and needed by root only

    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def choose_mode() -> Mode:
    """PLAIN for ordinary users; for root USERNS where the kernel (or a container's filter) allows it, else SETUID."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return Mode.PLAIN
    probe = subprocess.run(
        wrapped(Mode.USERNS, [sys.executable, "-I", "-S", "-c", "import os; raise SystemExit(os.geteuid() == 0)"]),
        capture_output=True,
        check=False,
        timeout=PROBE_LIMIT_S,
        env={name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ},
    )
    return Mode.USERNS if probe.returncode == 0 else Mode.SETUID


def wrapped(mode: Mode, command: Sequence[str]) -> list[str]:
    """The command line that runs `command` in `mode`."""
    if mode is Mode.PLAIN:
        return list(command)
    uid, gid = nobody()
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), mode.value, str(uid), str(gid), *command]


def _enter_user_namespace(uid: int, gid: int) -> None:
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"unshare: {os.strerror(code)}")
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny", encoding="ascii")
    (own / "gid_map").write_text(f"{gid} {outer_gid} 1", encoding="ascii")
    (own / "uid_map").write_text(f"{uid} {outer_uid} 1", encoding="ascii")


def _become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def main(arguments: Sequence[str]) -> None:
    """Drop the rights as MODE says and become the program."""
    mode, uid, gid = Mode(arguments[0]), int(arguments[1]), int(arguments[2])
    if mode is Mode.USERNS:
        _enter_user_namespace(uid, gid)
    elif mode is Mode.SETUID:
        _become(uid, gid)
    os.execv(arguments[3], list(arguments[3:]))  # noqa: S606  no shell on purpose


if __name__ == "__main__":
    main(sys.argv[1:])
