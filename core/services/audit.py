"""The audit of a command: a line before, a line after, a copy of both in the job's sink; and the audit's verification.

The local file is written first: if the line before an action cannot be written, the action is not carried out. A failed
copy blocks nothing; it is reported, retried with the next line, and recorded in the outcome. Verification covers the
file's own chain, and the hashes of its lines that are stored in sinks.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial

from slotkeeper.core.config.model import Loaded, SinkEntry
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.audit import AuditLine, Chain, Compared, Phase, compare
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.kinds import AuditCopy, StoreSession
from slotkeeper.core.services.looking import asked, passwords, poll_name
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.slots.change import Done
from slotkeeper.core.state.audit import Audit, intent, outcome
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import StateFolder

Tell = Callable[[str], None]


def silent(sentence: str) -> None: ...


class CopiedAudit(Audit):
    """The audit file, and its copy in a sink. There is no sink session for a slot whose sink is unknown.

    `tell` receives a sentence if a copy fails, once for each different failure.
    """

    def __init__(self, folder: StateFolder, session: StoreSession | None, tell: Tell = silent) -> None:
        super().__init__(folder)
        self._copy = session.audit() if session else None
        self._tell = tell
        self._waiting: list[tuple[AuditLine, str]] = []
        self._fault = ""

    def append(self, line: AuditLine) -> str:
        """Write one line and return its hash; raises StateError if the file cannot be written.

        A sink that cannot store the copy blocks nothing, because the action must be recorded here in any case.
        """
        if self._fault and line.phase is Phase.OUTCOME:
            line = replace(line, outcome=f"{line.outcome} (the sink has no copy of the previous line: {self._fault})")
        head = super().append(line)
        self._waiting.append((line, head))
        if self._copy is not None:
            self._copy_waiting(self._copy)
        return head

    def _copy_waiting(self, copy: AuditCopy) -> None:
        try:
            while self._waiting:
                copy.append(self._waiting[0][0], self.place, self._waiting[0][1])
                del self._waiting[0]
        except SlotkeeperError as error:
            fault = safe(error, 200)
            if fault != self._fault:
                self._tell(f"the sink has no copy of the audit's newest lines: {fault}")
            self._fault = fault


class DriverAudit:
    """The audit of a job's own actions; implements `slotkeeper.core.engine.driver.context.JobAudit`.

    `connect` opens a session on the job's store for each line, because years can pass between two lines.
    """

    def __init__(self, folder: StateFolder, connect: Callable[[], StoreSession], tell: Tell = silent) -> None:
        self._folder, self._connect, self._tell = folder, connect, tell

    def intent(self, action: str, what: str, reason: str, result: Mapping[str, str]) -> AuditLine:
        line = intent(action, what, reason, result)
        self._append(line)
        return line

    def outcome(self, line: AuditLine, said: str, result: Mapping[str, str]) -> None:
        self._append(outcome(line, said, result))

    def _append(self, line: AuditLine) -> None:
        with closing(self._connect()) as session:
            CopiedAudit(self._folder, session, self._tell).append(line)


def audited(
    audit: Audit,
    line: AuditLine,
    act: Callable[[], Done],
    after: Callable[[], Mapping[str, str]] = dict,
    catches: type[BaseException] = Exception,
) -> Done:
    """Run an action between its two audit lines; if it fails, write the result that `after` observes."""
    audit.append(line)
    try:
        done = act()
    except catches as error:
        result: Mapping[str, str] = {}
        with suppress(SlotkeeperError):
            result = after()
        said = "interrupted" if isinstance(error, KeyboardInterrupt) else f"failed: {safe(error, 300)}"
        with suppress(StateError):
            audit.append(outcome(line, said, result))
        raise
    try:
        audit.append(outcome(line, done.outcome, done.result))
    except StateError as error:
        return replace(done, outcome=f"{done.outcome} (the audit lacks the outcome: {error.message})")
    return done


@dataclass(frozen=True, slots=True)
class SinkProof:
    """One sink's answer; `fault`: why the sink could not be queried; nothing is compared then."""

    name: str
    compared: Compared | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """A chain, and each sink's answer about it."""

    chain: Chain
    sinks: tuple[SinkProof, ...] = ()

    @property
    def altered(self) -> bool:
        """Whether a line was changed, removed or added."""
        return bool(self.chain.broken or any(one.compared and one.compared.missing for one in self.sinks))

    @property
    def differs(self) -> bool:
        """Whether a line was changed, removed or added, or lacks its hash."""
        return self.altered or bool(self.chain.unlinked)

    @property
    def unlinked(self) -> str:
        """The explanation of lines without a hash, with the action."""
        links = self.chain.unlinked
        names = "has no hash of the line before it" if len(links) == 1 else "have no hash of the line before them"
        first = f" (the first: {links[0].place})" if links else ""
        return (
            f"{many(len(links), 'line')}{first} {names}. An older version without the chain wrote them, or the hashes"
            " were removed. Compare them with a backup or with the copy in the sink. If they are correct:"
            " `slotkeeper audit accept --reason TEXT`"
        )

    @property
    def unasked(self) -> bool:
        """Whether a sink did not answer."""
        return any(one.fault for one in self.sinks)

    @property
    def after(self) -> int:
        """The number of newest lines for which no sink has a hash of the line or of a later one."""
        known = [one.compared.after for one in self.sinks if one.compared]
        return min([len(self.chain.whole), *known])

    @property
    def unproven(self) -> list[str]:
        """The facts that this check cannot prove, one sentence each."""
        found = []
        if self.after:
            found.append(f"whether the newest {self.after} lines are unchanged: no sink has a hash of them")
        if self.chain.damaged:
            found.append(f"the content of {len(self.chain.damaged)} damaged lines: {', '.join(self.chain.damaged[:5])}")
        if self.chain.accepted:
            found.append(f"whether {self.chain.accepted} unlinked lines were unchanged before they were accepted")
        if self.chain.rotated_out:
            found.append("the content of files that were dropped because there were too many")
        found += [
            f"whether those files contained {one.compared.older} lines of which sink {one.name} has a hash"
            for one in self.sinks
            if one.compared and one.compared.older
        ]
        return [
            *found,
            "whether a user who can write both this folder and the sink's table has rewritten both",
            "which person acted: users can change their uid; names, addresses and reasons are not verified",
        ]


def prove(audit: Audit, loaded: Loaded | None) -> Proof:
    """Check the chain and compare it with every store of the configuration; only file errors raise StateError."""
    chain = audit.chain()
    _, _, folder = audit.place.partition(":")
    hosts = {link.line.actor.host for link in chain.whole if link.line} | {socket.gethostname()}
    chains = sorted(f"{host}:{folder}" for host in hosts)
    entries = [one for one in (loaded.sinks.values() if loaded else ()) if sinks.open(one.kind).traits.is_store]
    passwords(one.endpoint for one in entries)

    def ask(entry: SinkEntry) -> SinkProof:
        named = login(entry.endpoint, poll_name("audit"))
        with closing(sinks.open(entry.kind).connect(named, entry.progress_schema)) as session:
            return SinkProof(entry.name, compare(chain, session.audit().heads(chains)))

    found = asked({f"sink {one.name}": [(one.name, partial(ask, one))] for one in entries})
    answers = (
        SinkProof(name, fault=str(one)) if isinstance(one, SlotkeeperError) else one for name, one in found.items()
    )
    return Proof(chain, tuple(answers))
