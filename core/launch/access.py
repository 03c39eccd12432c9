"""The check of a verb against the access rules, its audit line, and second accounts' approvals.

Three places can have rules, and all of them must allow a verb: this host's file (SYSTEM), the configuration in use, and
the configuration with which a job was last started. The last is stored in the state folder, so that another `--config`
does not remove a job's rules. docs/access.md lists the limits of this check.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.load import load_access, system_access
from slotkeeper.core.domain.access import EVERY_JOB, AccessRules, Account, Approval, Right
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError, Refused, SlotkeeperError
from slotkeeper.core.redaction import masked

if TYPE_CHECKING:  # without rules, the first frame of a console needs no file of the state folder
    from slotkeeper.core.state.files import ResetFiles

SYSTEM = Path("/etc/slotkeeper/access.toml")
"""The rules of this host; only root can write them. No option and no environment variable can select another file."""
RULES, APPROVALS = "access", "approvals"
"""The folders of the rules of started jobs, one file per job, and of approvals, one file per plan."""
ANOTHER_FILE = "a start with another configuration file needs every right and the same second_account"
Tell = Callable[[str], object]


def account() -> Account:
    """Return the account of this process: of its login uid if the kernel has recorded it, else of its uid."""
    from slotkeeper.core.state.audit import actor

    one = actor()
    if one.login_uid is None or one.login_uid == one.uid:
        numbers = {os.getegid(), *os.getgroups()}
        return Account(os.getuid(), one.os_user, frozenset(filter(None, map(_group, numbers))))
    try:
        user = pwd.getpwuid(one.login_uid)
    except KeyError:
        return Account(one.login_uid, str(one.login_uid))
    numbers = set(os.getgrouplist(user.pw_name, user.pw_gid))
    return Account(one.login_uid, user.pw_name, frozenset(filter(None, map(_group, numbers))))


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:  # the group has no name on this host
        return ""


@dataclass(frozen=True)
class Access:
    """The rules that apply to commands with a configuration, None if there is none, and a state folder."""

    given: AccessRules | None
    folder: Path
    env: Mapping[str, str]
    config: str = ""
    """The absolute path of the configuration; "" if there is none."""

    @cached_property
    def system(self) -> AccessRules | None:
        return system_access(SYSTEM)

    @cached_property
    def account(self) -> Account:
        return account()

    @property
    def ruled(self) -> bool:
        """Whether any rule applies, so that the job of a verb must be known."""
        return bool(self.system or self.given or self._stored())

    def _stored(self) -> list[str]:
        """Return the jobs whose rules are stored."""
        if not (self.folder / RULES).is_dir():
            return []
        from slotkeeper.core.state.files import names

        return names(self.folder, RULES)

    def missing(self, right: Right, job: str = EVERY_JOB, any_job: bool = False) -> tuple[str, str]:
        """Return why this account cannot use a right on a job, and the file of that rule; ("", "") if it can.

        With `any_job`, the right on any one job is sufficient.
        """
        for rules in self._rules(job):
            if why := rules.missing(self.account, right, job, any_job):
                return why, rules.file
        return "", ""

    def require(self, action: str, right: Right, job: str = EVERY_JOB, any_job: bool = False, tell: Tell = str) -> None:
        """Raise Refused, after writing a line to the audit, if this account lacks a right."""
        why, file = self.missing(right, job, any_job)
        if why:
            self.refuse(action, job, why, file, tell)

    def start(self, action: str, job: str, tell: Tell = str) -> None:
        """Check a verb that starts a job as `require` does, and store the job's rules for later commands.

        A job with stored rules can be started with another file only by an account that has every right.
        """
        self.require(action, Right.START, job, tell=tell)
        kept = self._kept(job)
        if kept is not None and self.config != kept.file:
            lacking = next(filter(None, (self.missing(right, job)[0] for right in Right)), "")
            if not lacking and self.needs_approval(job) and not (self.given and self.given.second_account):
                lacking = "the other file does not set second_account"
            if lacking:
                self.refuse(action, job, f"{lacking}; {ANOTHER_FILE}", kept.file, tell)
        if kept != self.given:
            from slotkeeper.core import codec

            files = self._files()
            if self.given is None:
                files.remove(RULES, job)
            else:
                files.save(RULES, job, codec.text_of(self.given))

    def refuse(self, action: str, job: str, why: str, file: str, tell: Tell) -> None:
        """Write the refusal to the audit and raise it."""
        from slotkeeper.core.state.audit import Audit, intent, outcome
        from slotkeeper.core.state.folder import StateFolder

        what = f"job {job}" if job else "every job"
        try:
            audit = Audit(StateFolder.open(self.folder))
            audit.append(outcome(intent(action, what, ""), f"refused: {safe(why, 300)}", {}))
        except (SlotkeeperError, OSError) as error:
            tell(f"not in the audit: {error}")
        raise Refused(f"{action} {safe(job, 80)}".rstrip() + f": {why}", f"the rules are in {file}")

    def _rules(self, job: str) -> Iterator[AccessRules]:
        yield from filter(None, (self.system, self.given))
        stored = self._stored()
        # a job without stored rules can be one of these jobs under another name
        for one in (job,) if job in stored else stored:
            kept = self._kept(one)
            if kept is None or kept.file == self.config:
                continue
            try:
                rules, _ = load_access(Path(kept.file), self.env)
            except ConfigError:  # deleted, or not readable by this account
                rules = kept
            if rules is not None:
                yield rules

    def _kept(self, job: str) -> AccessRules | None:
        """Return the rules with which a job was last started. Raises Refused if they cannot be read."""
        from slotkeeper.core import codec
        from slotkeeper.core.state.faults import StateError
        from slotkeeper.core.state.files import ResetFiles
        from slotkeeper.core.state.folder import StateFolder

        file, folder = self.folder / RULES / f"{job}.json", StateFolder.looked_at(self.folder)
        try:
            text = ResetFiles(folder).load(RULES, job)
            return codec.record_from(AccessRules, text) if text else None
        except (ValueError, StateError, OSError) as error:
            raise Refused(f"the rules of job {safe(job, 80)} cannot be read from {file}", "restore the file") from error

    # -- a second account's approval

    def needs_approval(self, job: str) -> bool:
        """Return whether a loss of rows of a job needs the approval of a second account."""
        return any(rules.second_account for rules in self._rules(job))

    def approved(self, id: str, job: str, what: str) -> None:
        """Raise Refused unless a second account has approved this plan, if the rules require it; store the request."""
        if not self.needs_approval(job):
            return
        from slotkeeper.core.state.audit import actor

        files = self._files()
        found = self._approval(files, id)
        if found is None:
            found = Approval(id, job, what, actor().text)
            files.save(APPROVALS, id, found.text)
        found.refuse(self.account, SystemClock().utc().timestamp())
        # another configuration may have given the right to approve
        for rules in self._rules(job):
            if why := rules.missing(found.approver, Right.RESET, job):
                raise Refused(f"the approval of plan {id} does not count: {why}", f"the rules are in {rules.file}")

    def approve(self, id: str, reason: str, tell: Tell = str) -> Approval:
        """Store and audit this account's approval of a requested plan. Raises Refused without the right `reset`."""
        from slotkeeper.core.state.audit import Audit, intent, outcome
        from slotkeeper.core.state.folder import StateFolder

        files = self._files()
        found = self._approval(files, id)
        if found is None:
            raise Refused(f"no plan {safe(id, 40)!r} awaits an approval", "its command without approval requests it")
        self.require("slots approve", Right.RESET, found.job, tell=tell)
        if not reason.strip():
            raise Refused(f"the approval of plan {id} needs a reason", "--reason TEXT")
        line = intent("slots approve", f"job {found.job} plan {id}", reason, {"effect": found.what})
        audit = Audit(StateFolder.open(self.folder))
        audit.append(line)
        now = SystemClock().utc().timestamp()
        by = self.account
        given = replace(found, who=line.actor.text, uid=by.uid, name=by.name, groups=tuple(sorted(by.groups)))
        given = replace(given, reason=masked(reason), at=now)
        files.save(APPROVALS, id, given.text)
        audit.append(outcome(line, "given: valid for 24 hours", {}))
        return given

    def _files(self) -> ResetFiles:
        from slotkeeper.core.state.files import ResetFiles
        from slotkeeper.core.state.folder import StateFolder

        return ResetFiles(StateFolder.open(self.folder))

    def _approval(self, files: ResetFiles, id: str) -> Approval | None:
        from slotkeeper.core.state.faults import StateError

        with suppress(StateError):
            found = Approval.parse(files.load(APPROVALS, id) or "")
            return found if found is not None and found.id == id else None
        return None
