"""The user of a server: PostgreSQL does not start as root, and a server has the file permissions of its user.

If started by root, each server runs with a user id that has no account. User `nobody` does not qualify: other programs
run as this user, and they could signal the server and read its files. A user namespace does not help either: an id
that maps to root outside owns the files of root. An ordinary user's servers run as that user.
"""

from __future__ import annotations

import os
import random
from typing import TypedDict

import psutil

from slotkeeper.core.errors import ConfigError

UNUSED_IDS = range(60_706, 61_184)
"""Ids not assigned to accounts, containers or services: systemd.io, "Users, Groups, UIDs and GIDs on systemd
Systems".
"""


class Rights(TypedDict, total=False):
    """The arguments of `subprocess` that start a program as another user, without Python code between fork and exec,
    because this process can have threads."""

    user: int
    group: int
    extra_groups: tuple[int, ...]


def must_drop() -> bool:
    """Whether this process runs as root, so that a server needs another user."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def unused_id() -> int:
    """Return a user id, also for its group, that no account and no running process has. Raises ConfigError."""
    import grp  # not every platform has these modules, and only root needs them
    import pwd

    taken = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    for process in psutil.process_iter(("uids",)):
        taken.update(process.info["uids"] or ())
    free = [number for number in UNUSED_IDS if number not in taken]
    if not free:
        what = f"root cannot start a server as another user: user ids {UNUSED_IDS[0]} to {UNUSED_IDS[-1]} are in use"
        raise ConfigError(what, hint="run as an ordinary user")
    return random.choice(free)  # noqa: S311  servers that start together should differ; security does not depend on it


def rights(owner: int, named: bool = False) -> Rights:
    """Return the arguments to start a server's program whose files belong to `owner`: as that user, with only its
    group.

    `named`: as `nobody` in that group, for a program that looks up the name of its user.
    """
    if not must_drop():
        return {}
    import pwd

    user = pwd.getpwnam("nobody").pw_uid if named else owner
    return {"user": user, "group": owner, "extra_groups": ()}
