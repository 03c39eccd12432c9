"""Each verb and each right, in commands and in the console's menus: rejected and audited, or allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.actions.menu import entry_actions, job_entries
from slotkeeper.console.actions.verbs import EntryVerb, JobVerb, SlotVerb
from slotkeeper.console.cli import rights
from slotkeeper.console.cli.context import Invocation
from slotkeeper.console.commands.main import main_command
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.tui.services import services_for
from slotkeeper.console.views.quarantine import Choice
from slotkeeper.core.domain.access import Account, Right
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.errors import Refused
from slotkeeper.core.launch import access
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from tests.unit.config.samples import VALID

ANN = Account(4711, "ann", frozenset({"staff"}))
JOB, TABLE, SLOT = "orders_rt", "ods.orders", "orders_slot"
ARGUMENTS: dict[str, list[str]] = {
    **{key: [JOB] for key in ("jobs", "errors", "watch", "verify", "run")},
    **{key: [JOB, "1"] for key in ("errors show", "errors replay")},
    "errors discard": [JOB, "1", "--execute"],
    **{key: [] for key in ("jobs list", "jobs ensure", "errors list", "slots list", "views list", "locks list")},
    "jobs limit": [JOB, "--none"],
    "jobs recopy": [JOB, TABLE],
    "slots": [TABLE, SLOT, "--execute"],
    "slots undo": ["20260101T000000-abcdef", "--execute"],
    **{key: [TABLE, SLOT] for key in ("slots history", "slots show")},
    **{key: [TABLE] for key in ("slots preflight", "slots peek")},
    "alerts": ["0"],
    **{key: [] for key in ("alerts list", "alerts test")},
    "alerts serve": ["--port", "0"],
    "alerts silence": ["0", "--for", "1h"],
    "locks end": ["1"],
    "views": [JOB, "v.v"],
    "doctor": [],
    "probe": ["live", JOB],
}
"""The arguments of a command, or of the commands of a group."""
CHECKED = [path for path, need in rights.NEEDS.items() if need.right is not None and path != "console"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of the configuration; the account of this process is ANN."""
    monkeypatch.setattr(access, "account", lambda: ANN)
    monkeypatch.setattr(access, "SYSTEM", tmp_path / "none")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "slotkeeper"


def configured(tmp_path: Path, *given: Right, jobs: str = "*") -> Path:
    """A configuration that gives ANN these rights, and the group `dba` every right."""
    words = ", ".join(f'"{right.value}"' for right in given)
    every = ", ".join(f'"{right.value}"' for right in Right)
    rules = f'[[access.rules]]\ngroups = ["dba"]\nallow = [{every}]\n'
    if given:
        rules += f'[[access.rules]]\nusers = ["ann"]\njobs = ["{jobs}"]\nallow = [{words}]\n'
    file = tmp_path / f"{len(given)}{given[0].value if given else ''}.toml"
    file.write_text(f"{VALID}\n{rules}", "utf-8")
    return file


def arguments(path: str) -> list[str]:
    return [*path.split(), *ARGUMENTS.get(path, ARGUMENTS.get(path.split()[0], []))]


def commands(command: Any, *path: str) -> Iterator[str]:
    """The names of all commands, from Typer."""
    below = getattr(command, "commands", None) or {}
    if path and (not below or command.invoke_without_command):
        yield " ".join(path)
    names = command.list_commands(None) if not path else below
    for name in names:
        yield from commands(command.get_command(None, name), *path, name)


def refusals(folder: Path) -> list[str]:
    lines = Audit(StateFolder.open(folder)).read(1_000).lines
    return [f"{one.action}: {one.outcome}" for one in lines if "refused" in one.outcome]


def test_every_command_needs_a_right_or_is_declared_to_need_none() -> None:
    assert sorted(commands(main_command())) == sorted(rights.NEEDS.keys() - {"console"})
    assert {verb.does.right for verb in (*JobVerb, *SlotVerb, *EntryVerb)} <= {*Right}


@pytest.mark.parametrize("path", CHECKED)
def test_a_command_without_its_right_is_refused_and_audited_and_changes_nothing(
    path: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need = rights.NEEDS[path].right
    assert need is not None
    config = configured(tmp_path, *(right for right in Right if right is not need))
    assert main(["--config", str(config), *arguments(path)]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert f"account ann (uid 4711) lacks the right `{need.value}`, which group dba has the rules are in" in said
    assert [one for one in refusals(folder) if one.startswith(f"{path}: refused: account ann")]
    assert not (folder / "state.sqlite3").exists()


@pytest.mark.parametrize("right", Right)
def test_a_command_is_allowed_by_its_right_alone(right: Right, folder: Path, tmp_path: Path) -> None:
    shared = Invocation(configured(tmp_path, right), env={"XDG_STATE_HOME": str(tmp_path / "state")})
    allowed = set()
    for path in CHECKED:
        try:
            rights.check(path, shared, {"job": JOB, "execute": True})
            allowed.add(path)
        except Refused:
            pass
    assert allowed == {path for path in CHECKED if rights.NEEDS[path].right is right} - {"doctor"}


def test_options_that_reveal_or_consent_need_more_than_the_command(folder: Path, tmp_path: Path) -> None:
    shared = Invocation(configured(tmp_path, Right.READ, Right.START), env={"XDG_STATE_HOME": str(tmp_path / "state")})
    rights.check("slots reset", shared, {"table": TABLE, "slot": SLOT})
    for path, params in (
        ("slots reset", {"table": TABLE, "slot": SLOT, "execute": True}),
        ("slots reset", {"go_on": True}),
        ("slots peek", {"table": TABLE, "slot": "", "unmask": True}),
        ("jobs start", {"job": JOB, "confirm": JOB}),
    ):
        with pytest.raises(Refused, match="lacks the right"):
            rights.check(path, shared, params)


def test_the_rights_on_some_jobs_are_none_on_others_nor_on_all(folder: Path, tmp_path: Path) -> None:
    shared = Invocation(configured(tmp_path, *Right, jobs="ord*"), env={"XDG_STATE_HOME": str(tmp_path / "state")})
    rights.check("jobs stop", shared, {"job": JOB})
    rights.check("slots drop", shared, {"table": TABLE, "slot": SLOT, "execute": True})
    rights.check("jobs list", shared, {})
    for path, params in (
        ("jobs stop", {"job": "payments"}),
        ("slots drop", {"table": TABLE, "slot": "foreign", "execute": True}),
        ("locks end", {"pid": 1}),
        ("jobs ensure", {}),
        ("errors list", {"job": ""}),
    ):
        with pytest.raises(Refused, match="lacks the right"):
            rights.check(path, shared, params)


def test_without_rules_nothing_is_checked_nor_written(folder: Path, tmp_path: Path) -> None:
    (file := tmp_path / "c.toml").write_text(VALID, "utf-8")
    shared = Invocation(file, env={"XDG_STATE_HOME": str(tmp_path / "state")})
    for path in CHECKED:
        rights.check(path, shared, {"job": JOB, "execute": True})
    assert not folder.exists()


@pytest.mark.parametrize("right", [None, *Right])
def test_a_menu_says_which_right_is_missing(right: Right | None, folder: Path, tmp_path: Path) -> None:
    given = [right] if right else []
    services = services_for(Invocation(configured(tmp_path, Right.READ, *given)))
    running = JobFacts(JOB, Level.FINE, JobState.RUNNING, alive=True)
    found = {one.what: one.why_not for one in job_entries([running], [JOB], services.barred)}
    found |= {one.what: one.why_not for one in entry_actions(Choice(JOB, (1,), 1, 1), [JOB], services.barred)}
    barred = {verb for verb, why in found.items() if "lacks the right" in why}
    declared = {verb.value: verb.does.right for verb in (*JobVerb, *EntryVerb)}
    assert barred == {what for what in found if declared[what.removesuffix(" all")] not in (Right.READ, right)}


def test_the_console_opens_for_those_who_may_look_and_reveals_to_those_who_may(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="lacks the right `look`"):
        services_for(Invocation(configured(tmp_path)))
    services = services_for(Invocation(configured(tmp_path, Right.READ)))
    for action in ("alerts ack", "errors show"):
        with pytest.raises(Refused, match="lacks the right"):
            services.require(action, Right.PAUSE if action == "alerts ack" else Right.REVEAL, JOB)
    assert len(refusals(folder)) == 3
