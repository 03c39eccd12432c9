"""The right that each command needs, and the check before a command runs.

Verbs of jobs, slots and quarantined rows declare their right (`slotkeeper.console.actions.verbs`); the table below has
the other commands. A command without an entry is a defect, and a test compares the table with all commands. The console
runs commands for its verbs, so this check covers both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotkeeper.console.actions.verbs import EntryVerb, JobVerb, SlotVerb
from slotkeeper.console.cli import context, diagnostics
from slotkeeper.console.cli.context import Invocation
from slotkeeper.core.domain.access import EVERY_JOB, Right
from slotkeeper.core.errors import ConfigError, SlotkeeperError

if TYPE_CHECKING:
    import typer

    from slotkeeper.core.launch.access import Access


@dataclass(frozen=True, slots=True)
class Need:
    """The right that a command needs; None: none, because it reads no job and no server.

    `listed`: the right on any one job is sufficient, because the command lists all jobs. `dry`: without `--execute`,
    the command changes nothing. `also` is a further right that an option needs.
    """

    right: Right | None
    listed: bool = False
    dry: bool = False
    also: tuple[str, Right] | None = None


_FREE, _LISTS, _READS = Need(None), Need(Right.READ, listed=True), Need(Right.READ)
STARTS = ("jobs start", "jobs restart", "run")
"""The commands that start one job with the configuration in use."""
NEEDS: Mapping[str, Need] = {
    **{" ".join((*verb.does.command, verb.value)): Need(verb.does.right) for verb in JobVerb},
    **{f"slots {verb.value}": Need(verb.does.right, dry=verb.does.right is Right.RESET) for verb in SlotVerb},
    **{f"errors {verb.value}": Need(verb.does.right, dry=verb.does.final) for verb in EntryVerb},
    "jobs start": Need(JobVerb.START.does.right, also=("confirm", Right.RESET)),  # the consent to a copy
    "run": Need(Right.START),
    "agent": Need(Right.START),
    "jobs ensure": Need(Right.START),
    "jobs limit": Need(Right.PAUSE),
    "jobs recopy": Need(Right.RESET),
    "jobs list": _LISTS,
    "jobs show": _READS,
    "jobs logs": _READS,
    "slots list": _LISTS,
    "slots show": _READS,
    "slots peek": Need(Right.READ, also=("unmask", Right.REVEAL)),
    "slots approve": _FREE,  # `approve` checks the right `reset` on the plan's job
    "errors list": _READS,
    "errors show": Need(Right.REVEAL),
    "status": _LISTS,
    "console": _LISTS,
    "watch": _READS,
    "probe": _READS,
    "audit list": _LISTS,
    "audit export": _LISTS,
    "audit verify": _LISTS,
    "audit accept": Need(Right.RESET),
    "sync show": _READS,
    "alerts list": _LISTS,
    "alerts ack": Need(Right.PAUSE),
    "alerts unack": Need(Right.PAUSE),
    "alerts silence": Need(Right.PAUSE),
    "alerts test": Need(Right.PAUSE),
    "alerts serve": _READS,
    "locks list": _READS,
    "locks end": Need(Right.START),
    "views list": _READS,
    "views show": _READS,
    "views verify": _READS,
    "views explain": _READS,
    "views rebuild": Need(Right.RESET),
    "views drop": Need(Right.RESET),
    "doctor": Need(Right.READ, listed=True, also=("execute", Right.RESET)),
    "config show": _LISTS,
    "upgrade": _LISTS,
    "config check": _FREE,
    "demo": _FREE,
    "demo stop": _FREE,
    "init": Need(Right.START),
    "import": _FREE,
    "completion": _FREE,
    "docs": _FREE,
    "man": _FREE,
}


def guard(command: Any, path: str) -> None:
    """Let a command of the shell, or each command of a group, check its right before it runs."""
    below = getattr(command, "commands", None)
    if below:
        for name, one in below.items():
            guard(one, f"{path} {name}")
    if not below or getattr(command, "invoke_without_command", False):
        invoke = command.invoke
        command.invoke = lambda ctx: _checked(ctx, path, invoke)


def _checked(ctx: typer.Context, path: str, invoke: Callable[[typer.Context], Any]) -> Any:
    check(path, context.of(ctx), ctx.params)
    return invoke(ctx)


def access_of(shared: Invocation, state_dir: Path | None = None) -> Access:
    """Return the rules for a command line; `state_dir`: for a state folder without a configuration.

    Raises ConfigError if a file that the command reads is invalid.
    """
    from slotkeeper.core.config.load import default_state_dir, find, load_access
    from slotkeeper.core.config.model import NoConfig
    from slotkeeper.core.launch.access import Access

    if state_dir is not None:
        return Access(None, state_dir, shared.env)
    try:
        file = find(shared.config, shared.env)
    except NoConfig:
        return Access(None, default_state_dir(shared.env), shared.env)
    rules, folder = load_access(file, shared.env)
    return Access(rules, folder, shared.env, str(file.absolute()))


def check(path: str, shared: Invocation, params: Mapping[str, Any]) -> None:
    """Raise Refused, after a line in the audit, if the user of this process lacks the right for a command."""
    need = NEEDS[path]
    if need.right is None:
        return
    try:
        access = access_of(shared, params.get("state_dir"))
    except ConfigError:
        return  # every command but `status` reads the same file first, and reports this error itself
    if not access.ruled and path not in STARTS:
        return
    job = _job(shared, access, params) if access.ruled else str(params.get("job") or "")
    if path in STARTS:
        access.start(path, job, diagnostics.warn)
    elif need.dry and not (params.get("execute") or params.get("go_on")):
        access.require(path, Right.READ, job, tell=diagnostics.warn)
    else:
        access.require(path, need.right, job, need.listed, diagnostics.warn)
    if need.also and params.get(need.also[0]):
        access.require(f"{path} --{need.also[0]}", need.also[1], job, tell=diagnostics.warn)


def _job(shared: Invocation, access: Access, params: Mapping[str, Any]) -> str:
    """Return the job that a command acts on; EVERY_JOB if it is not exactly one."""
    if "job" in params:
        return str(params["job"] or EVERY_JOB)
    table, slot = str(params.get("table") or ""), str(params.get("slot") or "")
    if backup := str(params.get("backup") or "") if not table else "":
        from slotkeeper.core.domain.reset_files import BACKUPS
        from slotkeeper.core.state.files import ResetFiles
        from slotkeeper.core.state.folder import StateFolder

        with suppress(SlotkeeperError, ValueError, KeyError, TypeError):
            kept = json.loads(ResetFiles(StateFolder.looked_at(access.folder)).load(BACKUPS, backup) or "{}")
            table, slot = kept["table"], kept["slot"]
    if not table:
        return EVERY_JOB
    from slotkeeper.core.config.model import job_at

    with suppress(SlotkeeperError):
        return job_at(shared.load(), table, slot, str(params.get("source") or ""))
    return EVERY_JOB
