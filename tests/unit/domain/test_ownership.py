"""The rule about the owner of a path, without a file system."""

from __future__ import annotations

import pytest

from slotkeeper.core.ownership import Kind, Part, Team, complaint

ALICE, BOB, CAROL = 1001, 1002, 1003
TEAM = 50


def folder(path: str, uid: int = 0, mode: int = 0o755, gid: int = 0) -> Part:
    return Part(path, Kind.FOLDER, uid, gid, mode, f"uid {uid}")


def file(path: str = "/a/c.toml", uid: int = ALICE, mode: int = 0o600, gid: int = 0) -> Part:
    return Part(path, Kind.FILE, uid, gid, mode, f"uid {uid}")


def link(path: str, uid: int) -> Part:
    return Part(path, Kind.LINK, uid, 0, 0o777, f"uid {uid}")


def said(*parts: Part, uid: int = ALICE, team: Team | None = None) -> str:
    found = complaint("configuration c", parts, uid, team)
    return f"{found.text} | {found.hint}" if found else ""


@pytest.mark.parametrize(
    "parts",
    [
        (folder("/"), folder("/a", ALICE), file()),
        (folder("/"), folder("/a", 0), file(uid=0, mode=0o644)),
        (folder("/"), folder("/tmp", 0, 0o1777), file("/tmp/c.toml")),
        (folder("/"), folder("/a", ALICE, 0o500), link("/a/l", 0), file("/a/c.toml", mode=0o644)),
    ],
)
def test_what_is_ours_or_roots_all_the_way_is_fine(parts: tuple[Part, ...]) -> None:
    assert said(*parts) == ""


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((folder("/"), file(uid=BOB)), "configuration c belongs to another user (uid 1002)"),
        ((folder("/"), file(mode=0o620)), "configuration c is writable by other users (mode 0620)"),
        ((folder("/"), file(mode=0o602)), "configuration c is writable by other users (mode 0602)"),
        ((folder("/"), folder("/b", BOB), file()), "is below /b, which belongs to another user (uid 1002)"),
        ((folder("/"), folder("/b", 0, 0o777), file()), "is below /b, which is writable by other users (mode 0777)"),
        ((folder("/"), folder("/b", 0, 0o775), file()), "is below /b, which is writable by other users (mode 0775)"),
        ((folder("/"), folder("/tmp", 0, 0o1777), file(uid=BOB)), "belongs to another user (uid 1002)"),
        (
            (folder("/"), folder("/tmp", 0, 0o1777), link("/tmp/l", BOB), file()),
            "reached through the link /tmp/l, which belongs",
        ),
    ],
)
def test_what_somebody_else_could_change_is_named_with_the_way_out(parts: tuple[Part, ...], words: str) -> None:
    assert words in said(*parts)
    assert "chmod go-w" in said(*parts) or "use one that you or root owns" in said(*parts)


@pytest.mark.parametrize("uid", [ALICE, 0])
@pytest.mark.parametrize("mode", [0o2775, 0o2777])
def test_a_kubernetes_volume_with_an_fs_group_is_rejected_with_the_command_that_makes_it_safe(
    uid: int, mode: int
) -> None:
    volume = folder("/state", 0, mode, TEAM)
    below = said(folder("/"), volume, folder("/state/slotkeeper", uid, 0o700), uid=uid)
    assert f"is below /state, which is writable by other users (mode {mode:04o})" in below
    assert "run as root, for a Kubernetes fsGroup in an init container: chmod +t /state; see" in below
    itself = said(folder("/"), volume, uid=ALICE)
    assert f"configuration c is writable by other users (mode {mode:04o})" in itself
    assert "in an init container: chmod 2770 /state; see" in itself
    assert all("`slotkeeper docs security#files`" in one for one in (below, itself))


def test_root_obeys_no_users_file() -> None:
    text = said(folder("/"), folder("/users/alice", ALICE), file(), uid=0)
    assert "below /users/alice, which belongs to another user (uid 1001), and this command runs as root" in text
    assert "sudo -u" in text and "chown root /users/alice" in text


def test_a_folder_that_anybody_may_write_is_none_to_keep_state_in_whatever_its_sticky_bit() -> None:
    assert "is writable by other users (mode 1777)" in said(folder("/"), folder("/tmp", 0, 0o1777))


def test_a_teams_folder_may_be_its_members_and_lie_in_another_of_the_teams() -> None:
    team = Team(TEAM, frozenset({BOB}))
    inner = folder("/srv/state", BOB, 0o2770, TEAM)
    assert said(folder("/"), folder("/srv", 0, 0o2770, TEAM), inner, team=team) == ""
    assert "belongs to another user" in said(folder("/"), folder("/srv/state", CAROL, 0o2770, TEAM), team=team)
    assert "is writable by other users" in said(folder("/"), folder("/srv", 0, 0o770, 51), inner, team=team)
    assert "is writable by other users" in said(folder("/"), folder("/srv/state", BOB, 0o2772, TEAM), team=team)
