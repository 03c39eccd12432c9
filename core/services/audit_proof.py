"""What can be proven of an audit: its own chain, and the hashes of its lines that sinks have; and what cannot."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from slotkeeper.core.config.model import Loaded, SinkEntry
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.audit import Chain, Compared, compare
from slotkeeper.core.domain.text import many
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.services.looking import asked, passwords
from slotkeeper.core.services.sessions import poll_name
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.state.audit import Audit


@dataclass(frozen=True, slots=True)
class SinkProof:
    """What one sink says; `fault` where it could not be asked, and then nothing is compared."""

    name: str
    compared: Compared | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """A chain, and what each sink says of it."""

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
        """What lines without a hash mean, and what to do."""
        links = self.chain.unlinked
        names = "names no line before it" if len(links) == 1 else "name no line before them"
        first = f" (the first: {links[0].place})" if links else ""
        return (
            f"{many(len(links), 'line')}{first} {names}. A version before the chain wrote them, or their hashes were"
            " removed. Compare them with a backup or with the copy in the sink. If they are right:"
            " `slotkeeper audit accept --reason TEXT`"
        )

    @property
    def unasked(self) -> bool:
        """Whether a sink did not answer."""
        return any(one.fault for one in self.sinks)

    @property
    def after(self) -> int:
        """How many of the newest lines no sink has a hash of, or of a later one."""
        known = [one.compared.after for one in self.sinks if one.compared]
        return min([len(self.chain.whole), *known])

    @property
    def unproven(self) -> list[str]:
        """What nothing here can tell, as sentences."""
        found = (
            [f"whether the newest {self.after} lines are as they were: no sink has a hash of them"]
            if self.after
            else []
        )
        if self.chain.damaged:
            found.append(f"what {len(self.chain.damaged)} damaged lines said: {', '.join(self.chain.damaged[:5])}")
        if self.chain.accepted:
            found.append(f"whether {self.chain.accepted} unlinked lines were as they are before they were accepted")
        if self.chain.rotated_out:
            found.append("what stood in the files that were dropped because there were too many")
        found += [
            f"whether {one.compared.older} lines of which sink {one.name} has a hash stood in those files"
            for one in self.sinks
            if one.compared and one.compared.older
        ]
        return [
            *found,
            "whether somebody who may write both this folder and the sink's table has written both anew",
            "who sat at the keyboard: a uid is whoever became it; names, addresses and reasons are what was claimed",
        ]


def prove(audit: Audit, loaded: Loaded | None) -> Proof:
    """Judge the chain and compare it with every store of the configuration; raises StateError for the files only."""
    chain = audit.chain()
    _, _, folder = audit.place.partition(":")
    hosts = {link.line.actor.host for link in chain.whole if link.line} | {socket.gethostname()}
    chains = sorted(f"{host}:{folder}" for host in hosts)
    entries = [one for one in (loaded.sinks.values() if loaded else ()) if sinks.open(one.kind).traits.is_store]
    passwords(one.endpoint for one in entries)
    lanes = {f"sink {one.name}": [(one.name, partial(_asked, one, chain, chains))] for one in entries}
    return Proof(
        chain,
        tuple(
            SinkProof(name, fault=str(found)) if isinstance(found, SlotkeeperError) else found
            for name, found in asked(lanes).items()
        ),
    )


def _asked(entry: SinkEntry, chain: Chain, chains: list[str]) -> SinkProof:
    named = login(entry.endpoint, poll_name("audit"))
    with closing(sinks.open(entry.kind).connect(named, entry.progress_schema)) as session:
        return SinkProof(entry.name, compare(chain, session.audit().heads(chains)))
