"""What create, register and drop have in common: who owns the slot, whether it may be touched, what was consented to.

One rule for all three: a dry run unless executed with a reason and the slot's name typed; rows that would be lost need
their number typed; a slot of no configured job, or a source whose environment is PROD, needs the table's name as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.query_report import AFTER_A_MOVE
from slotkeeper.core.domain.traits import SourceTraits
from slotkeeper.core.domain.ttl import TimeLeft
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import SlotVerbs, SlotViewer
from slotkeeper.core.slots.status.inspect import SlotView, TableSlots, inspect
from slotkeeper.core.sqltext import dotted, literal

PROD = "PROD"
UNKNOWN_ROWS = "unknown"
"""What is typed as the number of rows where the server cannot count them."""

SINK_SILENT = (
    "the sink of job {job} does not answer: whether it has progress rows, and so how it starts next, is not known"
)

AT_REST = frozenset({JobState.STOPPED, JobState.FAILED, JobState.FINISHED, JobState.CANCELLED})


@dataclass(frozen=True, slots=True)
class Owner:
    """The configured job of a slot: `state` None where it was never started here; `positions` counts its progress rows,
    None where the sink does not answer. `query` is why nothing may be done to its slot, and `query_to_do` what its
    reader does first, where that is a DataFrame query; "" where it is none."""

    job: str
    state: JobState | None = None
    lives: bool = False
    elsewhere: bool = False
    positions: int | None = None
    query: str = ""
    query_to_do: str = ""


@dataclass(frozen=True, slots=True)
class Consent:
    """What a person typed."""

    execute: bool = False
    reason: str = ""
    confirm: str = ""
    confirm_table: str = ""
    rows: str = ""


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """What a verb would do; `rows` are those that nobody could read any more, None where they cannot be counted.

    `before` is the slot as it is; `highest` asks for the table's name as well.
    """

    verb: str
    source: str
    table: str
    slot: str
    owner: Owner | None
    highest: bool
    before: SlotView
    rows: int | None
    effects: tuple[str, ...]
    sql: tuple[str, ...]

    @property
    def what(self) -> str:
        """The thing, as the audit names it."""
        return f"{self.source} {self.table} slot {self.slot}"


@dataclass(frozen=True, slots=True)
class Done:
    """What was seen afterwards, per DN; `missed` names the DNs where it is not what was asked for."""

    outcome: str
    result: Mapping[str, str]
    missed: tuple[str, ...] = ()
    after: SlotView | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A slot command before anything was looked at."""

    source: str
    table: str
    slot: str
    environment: str = ""
    owner: Owner | None = None
    owners: Mapping[str, str] = field(default_factory=dict)

    @property
    def highest(self) -> bool:
        """Whether the highest tier of consent is asked for."""
        return self.owner is None or self.environment.upper() == PROD


@dataclass(frozen=True, slots=True)
class SlotVerb:
    """One slot command: what it would do, and doing it; `left` is what the slot's TTL leaves it.

    `instead` is what a person does where a slot exists without being asked for, so that the verb has no sense.
    """

    name: str
    instead: str

    plan: Callable[[SlotViewer, Asked, TimeLeft | None], ChangePlan]
    act: Callable[[SlotVerbs, SlotViewer, ChangePlan, Asked, TimeLeft | None], Done]


def refuse_unasked(traits: SourceTraits, source: str, verb: SlotVerb) -> None:
    """Raise Refused where a slot exists without being asked for: there is nothing to make, move or drop."""
    if not traits.slot_unasked:
        return
    what = f"source {source} keeps no slots, its binlog is there for whoever reads it: nothing to {verb.name}"
    raise Refused(what, verb.instead, where="source")


def refuse_shared(traits: SourceTraits, job: str, channels: int) -> None:
    """Raise Refused where a slot is one position for several channels of a job: no verb is about one table of it."""
    if channels > 1 and traits.shares_position:
        what = f"the slot is one position for all {channels} channels of job {job}: it is not moved for one of them"
        raise Refused(what, "a job for each channel has a slot of its own", where="source")


def seen(viewer: SlotViewer, asked: Asked) -> TableSlots:
    """The table's slots as they are now."""
    points, unread = viewer.points(asked.table), viewer.unread(asked.table)
    return inspect(asked.source, asked.table, asked.owners, points, unread, viewer.words)


def planned(
    asked: Asked, verb: str, before: SlotView, rows: int | None, effects: Sequence[str], sql: Sequence[str]
) -> ChangePlan:
    """The plan of what was asked for; in `sql`, {} stands for the table and the slot as literals."""
    names = f"{literal(dotted(asked.table))}, {literal(asked.slot)}"
    return ChangePlan(
        verb,
        asked.source,
        asked.table,
        asked.slot,
        asked.owner,
        asked.highest,
        before,
        rows,
        tuple(effects),
        tuple(each.replace("{}", names) for each in sql),
    )


def unread_rows(rows: int | None) -> str:
    """What a slot has not read, in words."""
    return "what it has not read (it cannot be counted here)" if rows is None else f"{rows} unread rows"


def for_owner(owner: Owner | None, foreign: str, rows: str, no_rows: str) -> list[str]:
    """What it means for whoever reads the slot: one of these sentences, in which {job} is the owning job.

    `foreign` where no configured job owns it, `rows` and `no_rows` by whether that job's sink has progress rows.
    """
    if owner is None:
        return [foreign] if foreign else []
    if owner.query:
        return [AFTER_A_MOVE]
    said = SINK_SILENT if owner.positions is None else rows if owner.positions else no_rows
    return [said.format(job=owner.job)]


def view_of(found: TableSlots, slot: str) -> SlotView:
    """The slot as seen; absent or unknown where it is not listed."""
    listed = next((one for one in found.slots if one.name == slot), None)
    if listed is not None:
        return listed
    return SlotView(slot, None, False if found.listed else None)


def refuse_unless_at_rest(owner: Owner | None) -> None:
    """Raise Refused while the owning job lives, may live elsewhere, or is meant to live."""
    if owner is not None and owner.query and owner.lives:
        raise Refused(owner.query, f"it is a DataFrame query: {owner.query_to_do}")
    if owner is None or owner.state is None:
        return
    if owner.elsewhere:
        raise Refused(f"job {owner.job} was started elsewhere and may live there", "stop it there first")
    if owner.lives or owner.state not in AT_REST:
        raise Refused(f"job {owner.job} is {owner.state.value}", f"`slotkeeper jobs stop {owner.job}` first")


def refuse_without_consent(plan: ChangePlan, consent: Consent) -> None:
    """Raise Refused where something that had to be typed is missing or other; nothing where all was typed."""
    if not consent.reason.strip():
        raise Refused(f"{plan.verb} of slot {plan.slot} needs a reason", "--reason TEXT")
    if consent.confirm != plan.slot:
        raise Refused(f"the name typed is not {plan.slot!r}", f"--confirm {plan.slot}")
    if plan.highest and consent.confirm_table != plan.table:
        why = "no configured job owns it" if plan.owner is None else "its source is PROD"
        raise Refused(f"slot {plan.slot}: {why}, so the table's name is asked for", f"--confirm-table {plan.table}")
    wanted = UNKNOWN_ROWS if plan.rows is None else str(plan.rows)
    if wanted != "0" and consent.rows != wanted:
        said = "cannot be counted here" if plan.rows is None else f"are {plan.rows} now"
        typed = f", not {consent.rows}" if consent.rows else ""
        raise Refused(f"the unread rows of slot {plan.slot} that would be lost {said}{typed}", f"--rows {wanted}")


def per_shard(view: SlotView, shards: Sequence[str] = ()) -> dict[str, str]:
    """A slot DN by DN, in words."""
    found = {one.shard: f"live {_said(one.live)}, durable {_said(one.durable)}" for one in view.shards}
    for one in view.shards:
        if one.unread is not None:
            found[one.shard] += f", {one.unread} unread"
    return {name: found.get(name, "no point") for name in sorted({*found, *shards})}


def _said(point: Position | None) -> str:
    return "none" if point is None else point.shown
