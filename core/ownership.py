"""Files that we obey, read only where nobody but us and root could have written them.

The path is followed name by name, links included, and what is read is what was looked at: the file is opened without
following anything, and judged and read by that descriptor. Nobody else can change what lies between, since every
folder on the way was found to be ours or root's.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from slotkeeper.core.domain.ownership import Complaint, Kind, Part, Team, complaint
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused

LINKS_MOST = 40
"""As many links as Linux follows in one path (path_resolution(7))."""
_KINDS = {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.FOLDER, stat.S_IFLNK: Kind.LINK}


class NotOurs(Refused):
    """A file or folder that others could change; the message names it, the hint says how to set it right."""


def read(path: Path, what: str, most: int) -> bytes:
    """At most so many bytes of a regular file that nobody else can change; `what` names it in messages.

    Raises NotOurs where others could, OSError where it cannot be read, ValueError where the path has a NUL.
    """
    *above, end = follow(path)
    if end.kind is Kind.FOLDER:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if end.kind is Kind.OTHER:
        raise NotOurs(f"{what} is no regular file", "name a file; a FIFO or a device is none")
    # O_NONBLOCK: whoever could put a FIFO there must not make us wait for its writer
    descriptor = os.open(end.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        refuse([*above, _part(Path(end.path), os.fstat(descriptor))], what)
        return stream.read(most)


def check(path: Path, what: str) -> Complaint | None:
    """What is wrong with a file without reading it, or None; raises OSError where it cannot be looked at."""
    parts = follow(path)
    if parts[-1].kind is not Kind.FILE:
        return Complaint(f"{what} is no regular file", "name a file; a FIFO or a device is none")
    return complaint(what, parts, os.geteuid())


def refuse(parts: Sequence[Part], what: str, team: Team | None = None) -> None:
    """Raise NotOurs where others could change what the parts lead to."""
    if found := complaint(what, parts, os.geteuid(), team):
        raise NotOurs(found.text, found.hint)


def follow(path: Path) -> tuple[Part, ...]:
    """Every folder and link that a path leads through, from / on, and its end; raises OSError where it ends early."""
    here = Path(os.sep)
    parts = [_part(here, here.lstat())]
    pending = [*reversed(path.absolute().parts[1:])]
    links = 0
    while pending:
        name = pending.pop()
        if name == os.pardir:
            here = here.parent
            continue
        there = here / name
        parts.append(_part(there, there.lstat()))
        if parts[-1].kind is not Kind.LINK:
            here = there
            continue
        if (links := links + 1) > LINKS_MOST:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = there.readlink()
        here = Path(os.sep) if target.is_absolute() else here
        pending += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return tuple(parts if parts[-1].path == str(here) else [*parts, _part(here, here.lstat())])


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing, all 0700: `Path.mkdir` gives the ones above what the umask
    leaves, which may be everybody's to write."""
    for folder in (*reversed(path.absolute().parents), path.absolute()):
        try:
            folder.mkdir(mode=0o700)
        except OSError:
            if not folder.is_dir():
                raise


@cache
def shown_user(uid: int) -> str:
    """A user in words.

    >>> shown_user(0)
    'root (uid 0)'
    """
    try:
        return f"{safe(pwd.getpwuid(uid).pw_name, 80)} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def is_member(uid: int, gid: int) -> bool:
    """Whether a user is in a group as far as this system knows: a user without a name is in none."""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return False
    return gid in os.getgrouplist(user.pw_name, user.pw_gid)


def team(parts: Sequence[Part], gid: int) -> Team:
    """A group, and which owners of the parts are in it."""
    return Team(gid, frozenset(uid for uid in {part.uid for part in parts} if is_member(uid, gid)))


def _part(path: Path, found: os.stat_result) -> Part:
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), Kind.OTHER)
    return Part(str(path), kind, found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode), shown_user(found.st_uid))
