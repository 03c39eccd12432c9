"""Read trusted files only if no user except this one and root could have written them.

A user who can change a trusted file, such as a configuration that names commands, can run programs as this user. The
rule (`complaint`) is that of sshd's StrictModes (`safe_path` in OpenSSH's misc.c): the file and every folder above it
belong to this user or to root, and no other user can write to them. As in Kupsch and Miller, "How to Open a File and
Not Get Hacked" (2008), links on the path are checked, too, and a folder with the sticky bit, such as /tmp, can be
writable by all, because only the owner of an entry can rename it there (unlink(2)). An access control list is visible
in the group bits, which contain its mask (acl(5)).

The path is followed component by component, including links. The file is opened without following links, then checked
and read through that descriptor, so the checked file is the file that is read. No other user can change the path in
between: every folder on it belongs to this user or to root.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from slotkeeper.core.domain.text import safe, see
from slotkeeper.core.errors import Refused

TEAM_MODE = 0o2770
"""The mode of a team's folder: its group can write, other users have no access, and new entries get its group."""
ROOT = 0


class Kind(Enum):
    """The kind of a file system entry."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Part:
    """One entry on the path to a file."""

    path: str
    kind: Kind
    uid: int
    gid: int
    mode: int
    """The entry's permission bits."""
    owner: str
    """The entry's owner as text: "alice (uid 1000)"."""


@dataclass(frozen=True, slots=True)
class Team:
    """The group of a team's folder, and the owners on the path who are members of it."""

    gid: int
    members: frozenset[int]


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why a file or folder must not be used, and how to correct that."""

    text: str
    hint: str


def complaint(what: str, parts: Sequence[Part], us: int, team: Team | None = None) -> Complaint | None:
    """Return the problem with a path, given as its parts from /, or None if it is safe. `us`: the effective user.

    `what` names the file or folder in messages.

    >>> root, end = Part("/", Kind.FOLDER, 0, 0, 0o755, "root"), Part("/c", Kind.FILE, 7, 0, 0o600, "bob (uid 7)")
    >>> complaint("password_file /c", [root, end], 5).text
    'password_file /c belongs to another user (bob (uid 7))'
    """
    trusted = {us, ROOT} | (team.members if team else frozenset())
    *above, end = parts
    for part in above:
        subject = f"{what} is {'reached through the link' if part.kind is Kind.LINK else 'below'} {part.path}, which"
        if part.uid not in trusted:
            return _foreign(subject, part, us)
        if _open_to_others(part, team) and not part.mode & stat.S_ISVTX:
            text = f"{subject} is writable by other users (mode {part.mode:04o})"
            if _is_volume(part):
                return Complaint(text, _in_an_init_container(f"chmod +t {part.path}"))
            return Complaint(text, f"chmod go-w {part.path}, or move it to your own folder")
    if end.uid not in trusted:
        return _foreign(what, end, us)
    if _open_to_others(end, team):
        text = f"{what} is writable by other users (mode {end.mode:04o})"
        if _is_volume(end) and us != ROOT:
            return Complaint(text, _in_an_init_container(f"chmod {TEAM_MODE:o} {end.path}"))
        team_hint = f"chmod 700 {end.path} (or 2770 with a team's group)"
        return Complaint(text, team_hint if end.kind is Kind.FOLDER else f"chmod go-w {end.path}")
    return None


def _open_to_others(part: Part, team: Team | None) -> bool:
    if part.kind is Kind.LINK:
        return False
    of_the_team = team is not None and part.gid == team.gid
    return bool(part.mode & stat.S_IWOTH) or (bool(part.mode & stat.S_IWGRP) and not of_the_team)


def _is_volume(part: Part) -> bool:
    """Whether a folder has the owner and the setgid bit of a Kubernetes volume with an `fsGroup`.

    The kubelet only adds permissions (PodSecurityContext.fsGroup): it leaves the sticky bit and mode 2770 as they are.
    """
    return part.kind is Kind.FOLDER and part.uid == ROOT and bool(part.mode & stat.S_ISGID)


def _in_an_init_container(command: str) -> str:
    return f"run as root, for a Kubernetes fsGroup in an init container: {command}; see {see('security', 'Files')}"


def _foreign(subject: str, part: Part, us: int) -> Complaint:
    if us == ROOT:
        text = f"{subject} belongs to another user ({part.owner}), and this command runs as root"
        return Complaint(text, f"run as that user (`sudo -u ...`, a container's --user), or: chown root {part.path}")
    return Complaint(f"{subject} belongs to another user ({part.owner})", "use one that you or root owns")


LINKS_MOST = 40
"""Maximum number of links that Linux follows in one path (path_resolution(7))."""
_KINDS = {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.FOLDER, stat.S_IFLNK: Kind.LINK}


class NotOurs(Refused):
    """A file or folder that other users could change; the message names it, the hint says how to correct that."""


def read(path: Path, what: str, most: int) -> bytes:
    """Read at most `most` bytes of a regular file that no other user can change; `what` names it in messages.

    Raises NotOurs if another user could change it, OSError if it cannot be read, ValueError if the path contains a NUL.
    """
    *above, end = follow(path)
    if end.kind is Kind.FOLDER:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if end.kind is Kind.OTHER:
        raise NotOurs(f"{what} is not a regular file", "name a regular file, not a FIFO or a device")
    # O_NONBLOCK: if a user puts a FIFO there, this process must not wait for a writer
    descriptor = os.open(end.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        refuse([*above, _part(Path(end.path), os.fstat(descriptor))], what)
        return stream.read(most)


def read_private(path: Path, what: str, most: int) -> bytes:
    """Read a file like `read`, but only if it is this user's, not a link, and inaccessible to others (mode 0600).

    Raises NotOurs, OSError and ValueError, like `read`.
    """
    above = follow(path.parent)
    end = Path(above[-1].path, path.name)
    try:
        descriptor = os.open(end, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise NotOurs(f"{what} is a link", "replace the link with the file itself") from None
        raise
    with os.fdopen(descriptor, "rb") as stream:
        part = _part(end, os.fstat(descriptor))
        if part.kind is not Kind.FILE:
            raise NotOurs(f"{what} is not a regular file", "name a regular file, not a FIFO or a device")
        refuse([*above, part], what)
        if part.uid != os.geteuid():
            raise NotOurs(f"{what} belongs to {part.owner}", "use one that you own")
        if part.mode & ~0o600:
            raise NotOurs(f"{what} is accessible to other users (mode {part.mode:04o})", f"chmod 600 {end}")
        return stream.read(most)


def check(path: Path, what: str) -> Complaint | None:
    """Return the problem with a file, without reading it, or None; raises OSError if it cannot be inspected."""
    parts = follow(path)
    if parts[-1].kind is not Kind.FILE:
        return Complaint(f"{what} is not a regular file", "name a regular file, not a FIFO or a device")
    return complaint(what, parts, os.geteuid())


def refuse(parts: Sequence[Part], what: str, team: Team | None = None) -> None:
    """Raise NotOurs if other users could change the file or folder that these path entries lead to."""
    if found := complaint(what, parts, os.geteuid(), team):
        raise NotOurs(found.text, found.hint)


def follow(path: Path) -> tuple[Part, ...]:
    """Return each folder and link on a path, from / to its last component; raises OSError if a component is missing."""
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
    """Make a folder and its missing parents, all with mode 0700.

    `Path.mkdir` makes parents with the mode that the umask leaves, which can be writable by all users.
    """
    for folder in (*reversed(path.absolute().parents), path.absolute()):
        try:
            folder.mkdir(mode=0o700)
        except OSError:
            if not folder.is_dir():
                raise


@cache
def shown_user(uid: int) -> str:
    """Return a user as text.

    >>> shown_user(0)
    'root (uid 0)'
    """
    try:
        return f"{safe(pwd.getpwuid(uid).pw_name, 80)} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def is_member(uid: int, gid: int) -> bool:
    """Whether a user is in a group, according to this system; a user without a name is in no group."""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return False
    return gid in os.getgrouplist(user.pw_name, user.pw_gid)


def team(parts: Sequence[Part], gid: int) -> Team:
    """Return the team of a group: the group, and the owners of the path entries who are its members."""
    return Team(gid, frozenset(uid for uid in {part.uid for part in parts} if is_member(uid, gid)))


def _part(path: Path, found: os.stat_result) -> Part:
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), Kind.OTHER)
    return Part(str(path), kind, found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode), shown_user(found.st_uid))


def private_folder(path: Path) -> bool:
    """Create `path` with mode 0700; return False if it cannot be created or written, or has another owner.

    Files in the folder are executed (Java shim) or mapped into the JVM, so another owner is an error, not a warning.
    """
    try:
        make_folder(path)
        seen = path.stat(follow_symlinks=False)
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
            return False
        if seen.st_mode & 0o077:
            path.chmod(0o700)
    except OSError:
        return False
    return os.access(path, os.W_OK | os.X_OK)
