"""Whether nobody but us and root can change what a path leads to: the rule alone, without a look at any disk.

Whoever can change a file that we obey (a configuration names commands) decides what runs as us. The rule is the one of
sshd's StrictModes (`safe_path` in OpenSSH's misc.c): the file and every folder above it belong to us or to root and
nobody else may write them. As in Kupsch and Miller, "How to Open a File and Not Get Hacked" (2008), the links on the
way count too, and a folder with the sticky bit, such as /tmp, may be anybody's to write, because only the owner of an
entry can rename it there (unlink(2)). An access list shows in the group's bits, whose mask it sets (acl(5)).
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from slotkeeper.core.domain.text import see

TEAM_MODE = 0o2770
"""Of a team's folder: its group writes, everybody else is kept out, and what is made in it gets its group."""
ROOT = 0


class Kind(Enum):
    """What a name of a path stands for."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Part:
    """One name on the way to a file; `mode` are its permission bits, `owner` its user in words: "alice (uid 1000)"."""

    path: str
    kind: Kind
    uid: int
    gid: int
    mode: int
    owner: str


@dataclass(frozen=True, slots=True)
class Team:
    """The group of a team's folder, and those of the owners on the way who are in it."""

    gid: int
    members: frozenset[int]


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why something is not to be used, and what to do about it."""

    text: str
    hint: str


def complaint(what: str, parts: Sequence[Part], us: int, team: Team | None = None) -> Complaint | None:
    """What is wrong with a path, `parts` from / to its end, or None; `us` is the effective user.

    `what` is what lies there, in words.

    >>> root, end = Part("/", Kind.FOLDER, 0, 0, 0o755, "root"), Part("/c", Kind.FILE, 7, 0, 0o600, "bob (uid 7)")
    >>> complaint("password_file /c", [root, end], 5).text
    'password_file /c belongs to another user (bob (uid 7))'
    """
    trusted = {us, ROOT} | (team.members if team else frozenset())
    *above, end = parts
    for part in above:
        subject = f"{what} lies {'behind the link' if part.kind is Kind.LINK else 'below'} {part.path}, which"
        if part.uid not in trusted:
            return _foreign(subject, part, us)
        if _open_to_others(part, team) and not part.mode & stat.S_ISVTX:
            text = f"{subject} can be written by others (mode {part.mode:04o})"
            if _is_volume(part):
                return Complaint(text, _in_an_init_container(f"chmod +t {part.path}"))
            return Complaint(text, f"chmod go-w {part.path}, or move it to a folder of yours")
    if end.uid not in trusted:
        return _foreign(what, end, us)
    if _open_to_others(end, team):
        text = f"{what} can be written by others (mode {end.mode:04o})"
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
        text = f"{subject} belongs to another user ({part.owner}), and we run as root"
        return Complaint(text, f"run as that user (`sudo -u ...`, a container's --user), or: chown root {part.path}")
    return Complaint(f"{subject} belongs to another user ({part.owner})", "use one of your own, or of root")
