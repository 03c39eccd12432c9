"""A start that meets another set of DNs than its progress rows name: what may be adopted, and what is named. Pure.

Adopted are DNs under a new name, known by their id, and new DNs that hold a point of the slot, because recording began
there at that point and everything older lies on the DNs that are known (design 4.5; tests/model/topology.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.start import StartAction, StartDecision
from slotkeeper.core.errors import TroubleName


@dataclass(frozen=True, slots=True)
class NodeChange:
    """What a start may adopt; `sentence` says what changed."""

    renamed: tuple[tuple[ProgressRow, Shard], ...]
    come: tuple[SlotStatus, ...]
    sentence: str

    @property
    def begins(self) -> Position | None:
        """Up to here nothing may be unread on the old DNs: where the last new one begins; None without new ones."""
        found = [status.kept.furthest for status in self.come]
        return max((place for place in found if place is not None), default=None)


def node_change(
    rows: Iterable[ProgressRow], statuses: Iterable[SlotStatus], nodes: Iterable[Shard], adopts: bool
) -> NodeChange | StartDecision | None:
    """None where the DNs are those of the rows; else what may be adopted, or TOPOLOGY CHANGED.

    `nodes` are the cluster's DNs; a DN counts as there where it is one of them or answers when it is asked. `adopts` is
    the parameter need_redistribution.
    """
    rows = list(rows)
    ours = {row.node_id: row for row in rows}
    seen = {status.shard.node_id: status for status in statuses}
    there = {shard.node_id: shard for shard in (*nodes, *(status.shard for status in seen.values()))}
    gone = [row for node, row in ours.items() if node not in there]
    come = [shard for node, shard in sorted(there.items()) if node not in ours]
    renamed = [(row, there[node]) for node, row in ours.items() if node in there and there[node].name != row.key.shard]
    if not (gone or come or renamed):
        return None
    sentence = _sentence(gone, come, renamed)
    if not adopts:
        return _refused(sentence, "need_redistribution = false adopts none")
    if gone:
        return _refused(sentence, "what was left unread on a DN that is gone cannot be told")
    if come and any(row.state is LaneState.COPYING for row in rows):
        return _refused(sentence, "this was during the copy, which is discarded")
    for shard in come:
        status = seen.get(shard.node_id)
        if status is None or not status.kept.settled:
            stands = "none" if status is None else status.kept.shown
            return _refused(sentence, f"since when {shard.name} records is not known, its points of the slot: {stands}")
    return NodeChange(tuple(renamed), tuple(seen[shard.node_id] for shard in come), sentence)


def left_unread(change: NodeChange, shards: Iterable[Shard]) -> StartDecision:
    """TOPOLOGY CHANGED where rows moved past changes that were not applied yet."""
    names = ", ".join(sorted(shard.name for shard in shards))
    begins = change.begins.shown if change.begins else "them"
    return _refused(change.sentence, f"changes before {begins} are left unread on {names}")


def _sentence(gone: list[ProgressRow], come: list[Shard], renamed: list[tuple[ProgressRow, Shard]]) -> str:
    parts = {
        "gone": sorted(row.key.shard for row in gone),
        "new": sorted(shard.name for shard in come),
        "renamed": sorted(f"{row.key.shard} to {shard.name}" for row, shard in renamed),
    }
    return "the DN set changed: " + "; ".join(f"{word} {', '.join(names)}" for word, names in parts.items() if names)


def _refused(sentence: str, why: str) -> StartDecision:
    return StartDecision(StartAction.REFUSE, TroubleName.TOPOLOGY_CHANGED, f"{sentence}; {why}")
