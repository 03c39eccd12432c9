"""The commands that change a slot (create, register a full-sync point, drop): plan, execution and check of each.

All three commands are dry runs unless they are executed with a reason and the typed name of the slot. If rows would be
lost, their number must be typed as well. For a slot without a configured job, or a source whose environment is PROD,
the name of the table must also be typed. Create queries the slot's points on every DN, which creates the slot and
starts recording. The slot stays unregistered: a first `jobs start` expects a point of 0 and treats a slot with any
other point as another program's slot. Register moves a slot to the newest point on every DN, for use after full data
was loaded in another way; the slot's unread changes are skipped, so their number must be typed. If the kernel cannot
drop a slot, the slot is abandoned until its TTL clears it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.query_report import AFTER_A_MOVE
from slotkeeper.core.domain.spec import slot_name
from slotkeeper.core.domain.text import typed
from slotkeeper.core.domain.traits import SourceTraits
from slotkeeper.core.domain.ttl import TimeLeft, in_words
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import NEUTRAL, Inspector, SlotWords, SourceTable
from slotkeeper.core.slots.status import SlotOnShard, SlotView, TableSlots, count_unread, inspect, read_table
from slotkeeper.core.sqltext import dotted, literal

PROD = "PROD"
UNKNOWN_ROWS = "unknown"
"""The text to type instead of the number of rows if the server cannot count them."""

SINK_SILENT = (
    "the sink of job {job} does not answer: its progress rows are unknown, and so is the effect on the next start"
)

AT_REST = frozenset({
    JobState.STOPPED, JobState.FAILED, JobState.FINISHED, JobState.CANCELLED, JobState.AWAITS_COPY,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Owner:
    """The configured job of a slot.

    `state` is None if the job was never started on this host; `positions` is the number of its progress rows, or None
    if the sink does not answer. For a DataFrame query, `query` is the reason why its slot cannot be changed, and
    `query_to_do` is the action that the user of the query must take first; both are "" for other jobs.
    """

    job: str
    state: JobState | None = None
    lives: bool = False
    elsewhere: bool = False
    positions: int | None = None
    query: str = ""
    query_to_do: str = ""


@dataclass(frozen=True, slots=True)
class Consent:
    """The values that a user typed."""

    execute: bool = False
    reason: str = ""
    confirm: str = ""
    confirm_table: str = ""
    rows: str = ""


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """The effects of a command; `rows` is the number of rows that would be lost, or None if they cannot be counted.

    `before` is the current state of the slot; with `highest`, the table's name must be typed as well.
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
        """The name of the slot in the audit."""
        return f"{self.source} {self.table} slot {self.slot}"

    @property
    def rows_to_type(self) -> str:
        """The number to type as consent to the loss of unread rows; "" if there are none.

        It is ten times the current number of unread rows: a table in use gains rows while the command is being typed,
        and the number for a recently created slot soon doubles.
        """
        return UNKNOWN_ROWS if self.rows is None else str(10 * self.rows) if self.rows else ""


@dataclass(frozen=True, slots=True)
class Done:
    """The observed result per DN; `missed` lists the DNs on which the requested result was not reached."""

    outcome: str
    result: Mapping[str, str]
    missed: tuple[str, ...] = ()
    after: SlotView | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A slot command as requested, before any query is sent."""

    source: str
    table: str
    slot: str
    environment: str = ""
    owner: Owner | None = None
    owners: Mapping[str, str] = field(default_factory=dict)
    words: SlotWords = NEUTRAL

    @property
    def highest(self) -> bool:
        """Whether the strictest level of consent is required."""
        return self.owner is None or self.environment.upper() == PROD


@dataclass(frozen=True, slots=True)
class SlotVerb:
    """A slot command, with functions that plan and execute it; their TimeLeft is the time until the slot's TTL ends.

    `instead` describes what to do at a source that creates slots implicitly, where the command does not apply.
    """

    name: str
    instead: str

    plan: Callable[[Inspector, Asked, TimeLeft | None], ChangePlan]
    act: Callable[[SourceTable, Inspector, ChangePlan, Asked, TimeLeft | None], Done]


def refuse_unasked(traits: SourceTraits, source: str, verb: SlotVerb) -> None:
    """Raise Refused if the source creates slots implicitly, because then there is nothing to create, move or drop."""
    if not traits.slot_unasked:
        return
    what = f"source {source} has no slots, because any client can read its binlog: nothing to {verb.name}"
    raise Refused(what, verb.instead, where="source")


def seen(inspector: Inspector, asked: Asked) -> TableSlots:
    points, unread = read_table(inspector, asked.table).points, count_unread(inspector)
    return inspect(asked.source, asked.table, asked.owners, points, unread, asked.words)


def planned(
    asked: Asked, verb: str, before: SlotView, rows: int | None, effects: Sequence[str], sql: Sequence[str]
) -> ChangePlan:
    """Return the plan for the request; in `sql`, {} is replaced by the table and the slot as literals."""
    names = f"{literal(dotted(asked.table))}, {literal(asked.slot)}"
    calls = tuple(each.replace("{}", names) for each in sql)
    place = (asked.source, asked.table, asked.slot)
    return ChangePlan(verb, *place, asked.owner, asked.highest, before, rows, tuple(effects), calls)


def unread_rows(rows: int | None) -> str:
    """Describe the changes that a slot has not read."""
    return "its unread rows (number unknown)" if rows is None else f"{rows} unread rows"


def for_owner(owner: Owner | None, foreign: str, rows: str, no_rows: str) -> list[str]:
    """Return the consequence for the slot's reader: one of the given sentences, in which {job} is the owning job.

    The sentence is `foreign` if no configured job owns the slot, `rows` if its sink has progress rows, else `no_rows`.
    """
    if owner is None:
        return [foreign] if foreign else []
    if owner.query:
        return [AFTER_A_MOVE]
    said = SINK_SILENT if owner.positions is None else rows if owner.positions else no_rows
    return [said.format(job=owner.job)]


def view_of(found: TableSlots, slot: str) -> SlotView:
    """Return the slot as observed; an unlisted slot is absent, or unknown if the server cannot list slots."""
    listed = next((one for one in found.slots if one.name == slot), None)
    if listed is not None:
        return listed
    return SlotView(slot, None, False if found.listed else None)


def refuse_unless_at_rest(owner: Owner | None) -> None:
    """Raise Refused if the owning job is running, may be running on another host, or has the desired state run."""
    if owner is not None and owner.query and owner.lives:
        raise Refused(owner.query, f"it is a DataFrame query: {owner.query_to_do}")
    if owner is None or owner.state is None:
        return
    if owner.elsewhere:
        raise Refused(f"job {owner.job} was started on another host and may be running there", "stop it there first")
    if owner.lives or owner.state not in AT_REST:
        raise Refused(f"job {owner.job} is {owner.state.value}", f"`slotkeeper jobs stop {owner.job}` first")


def refuse_without_consent(plan: ChangePlan, consent: Consent) -> None:
    """Raise Refused if a required typed value is missing or wrong."""
    if not consent.reason.strip():
        raise Refused(f"{plan.verb} of slot {plan.slot} needs a reason", "--reason TEXT")
    if consent.confirm != plan.slot:
        raise Refused(f"the typed name is not {plan.slot!r}", f"--confirm {plan.slot}")
    if plan.highest and consent.confirm_table != plan.table:
        why = "no configured job owns it" if plan.owner is None else "its source is PROD"
        raise Refused(f"slot {plan.slot}: {why}, so type the table's name as well", f"--confirm-table {plan.table}")
    wanted = plan.rows_to_type
    most = int(consent.rows) if consent.rows.isdecimal() else -1
    if wanted and (consent.rows != UNKNOWN_ROWS if plan.rows is None else most < plan.rows):
        rows = "an unknown number of" if plan.rows is None else plan.rows
        typed = f", but {consent.rows} was typed" if consent.rows else ""
        raise Refused(f"slot {plan.slot} would lose {rows} unread rows{typed}", f"--rows {wanted}")


def per_shard(view: SlotView, shards: Sequence[str] = ()) -> dict[str, str]:
    found = {one.shard: f"live {_said(one.live)}, durable {_said(one.durable)}" for one in view.shards}
    for one in view.shards:
        if one.unread is not None:
            found[one.shard] += f", {one.unread} unread"
    return {name: found.get(name, "no point") for name in sorted({*found, *shards})}


def _said(point: Position | None) -> str:
    return "none" if point is None else point.shown


def plan_create(inspector: Inspector, asked: Asked, left: TimeLeft | None = None) -> ChangePlan:
    """Return the plan of a creation; raises Refused if the slot exists or its name is invalid."""
    try:
        slot_name(asked.slot)
    except ValueError as error:
        raise Refused(str(error)) from error
    found = seen(inspector, asked)
    before = view_of(found, asked.slot)
    if before.exists:
        raise Refused(f"{asked.source} {asked.table} already has a slot {asked.slot!r}", "`slots show` shows it")
    if before.exists is None:
        silent = asked.words.no_list.partition(" (")[0]
        what = f"{silent}: it is unknown whether {asked.slot!r} exists, and a query would create it"
        raise Refused(what, "`jobs start` creates the slot of a job")
    kept = "the source retains every change from now on until a reader confirms it"
    effects = [kept, *filter(None, [asked.words.lapses])]
    if not any(one.exists for one in found.slots):
        effects.insert(0, "it is the first slot of the table: recording starts with it")
    if asked.owner is None:
        effects.append("no configured job reads it")
    return planned(asked, "create", before, 0, effects, asked.words.calls.create)


def create(
    table: SourceTable, inspector: Inspector, plan: ChangePlan, asked: Asked, left: TimeLeft | None = None
) -> Done:
    """Create the slot and read the status again."""
    nodes = table.source.nodes()
    table.source.open_lanes()
    after = view_of(seen(inspector, asked), asked.slot)
    complete = {one.shard for one in after.shards if one.live is not None and one.durable is not None}
    missed = tuple(sorted(shard.name for shard in nodes if shard.name not in complete))
    outcome = "created on every DN" if not missed else f"not created on {', '.join(missed)}"
    return Done(outcome, per_shard(after, [shard.name for shard in nodes]), missed, after)


CREATE = SlotVerb("create", "`jobs start` reads it without a slot", plan_create, create)


FOREIGN = "its reader continues after the gap without an error"
ROWS_STAY = (
    "the next start of job {job} fails (SLOT MOVED): its progress rows do not move; "
    "`slots reset --to latest` moves both"
)
NO_ROWS_TO_MOVE = (
    "the next start of job {job} fails (PROGRESS LOST): the slot has points, but its sink has no progress row"
)


def plan_register(inspector: Inspector, asked: Asked, left: TimeLeft | None = None) -> ChangePlan:
    """Return the plan of a registration, with the changes that it skips; raises Refused if the slot does not exist."""
    before = view_of(seen(inspector, asked), asked.slot)
    if before.exists is False:
        to_do = f"`slots create {typed(asked.table, asked.slot)}`"
        raise Refused(f"{asked.source} {asked.table} has no slot {asked.slot!r}", to_do)
    rows = before.unread
    effects = [asked.words.moved, f"skipped permanently: {unread_rows(rows)}"]
    effects += for_owner(asked.owner, FOREIGN, ROWS_STAY, NO_ROWS_TO_MOVE)
    return planned(asked, "register", before, rows, effects, [asked.words.calls.register])


def register(
    table: SourceTable, inspector: Inspector, plan: ChangePlan, asked: Asked, left: TimeLeft | None = None
) -> Done:
    """Move the slot and check it: a DN counts as moved only if both points reached the previously newest point."""
    newest = inspector.latest()
    names = sorted(shard.name for shard in table.source.nodes())
    answered = table.own_slot.full_sync()
    after = view_of(seen(inspector, asked), asked.slot)
    if after.exists is None:
        return Done(f"sent; the server answered {answered}; {asked.words.no_after}", {})
    moved = {one.shard for one in after.shards if _moved(one, newest)}
    missed = tuple(name for name in names if name not in moved)
    outcome = "registered on every DN" if not missed else f"not registered on {', '.join(missed)}"
    values = {
        name: f"not moved: {text}" if name in missed else f"observed {text}"
        for name, text in per_shard(after, names).items()
    }
    return Done(outcome, values, missed, after)


def _moved(one: SlotOnShard, newest: Mapping[str, Position | None] | None) -> bool:
    if one.live is None or one.live != one.durable or not one.live.pair[0]:
        return False
    least = (newest or {}).get(one.shard)
    return one.live >= least if least is not None else one.unread == 0


REGISTER = SlotVerb("register", "`slots reset --to latest` moves a job's own position", plan_register, register)


ROWS_LEFT = "the next start of job {job} fails (SLOT LOST); then take a new snapshot"
NO_ROWS_LEFT = "job {job} has no progress row: its next start creates the slot again"


def plan_drop(inspector: Inspector, asked: Asked, left: TimeLeft | None) -> ChangePlan:
    """Return the plan of a drop, with its losses; raises Refused if the slot does not exist or cannot be dropped."""
    found = seen(inspector, asked)
    before = view_of(found, asked.slot)
    if before.exists is False:
        raise Refused(f"{asked.source} {asked.table} has no slot {asked.slot!r}")
    allowed = inspector.may_drop() if inspector.may_drop else None
    if allowed is False:
        what = f"this login cannot execute {asked.words.calls.drops}"
        raise Refused(what, "request EXECUTE on it, or let the slot expire")
    rows = before.unread
    who = f"job {asked.owner.job}" if asked.owner else "its reader (no job of this configuration)"
    effects = [f"{who} loses {unread_rows(rows)}", *for_owner(asked.owner, "", ROWS_LEFT, NO_ROWS_LEFT)]
    others = [one.name for one in found.slots if one.exists and one.name != asked.slot]
    if found.untold:
        effects.append("other slots of the table are unknown")
    elif others:
        effects.append(f"other slots lose nothing: {', '.join(others)}")
    else:
        effects.append("it is the table's last slot: changes are no longer recorded")
    if allowed is None:
        effects.append(f"abandon: {asked.words.no_drop}; {expiry(left)}")
    calls = [asked.words.calls.drop] if allowed else []
    return planned(asked, "drop" if allowed else "abandon", before, rows, effects, calls)


def drop(table: SourceTable, inspector: Inspector, plan: ChangePlan, asked: Asked, left: TimeLeft | None) -> Done:
    """Clear the slot and read the status again; a DN that still shows a point is reported as missed.

    If the kernel cannot clear the slot, nothing is sent, and the result states when the slot expires.
    """
    if not plan.sql:
        after = view_of(seen(inspector, asked), asked.slot)
        return Done(f"abandoned; nothing was sent; {expiry(left)}", per_shard(after), (), after)
    names = sorted(shard.name for shard in table.source.nodes())
    count = table.own_slot.clear()
    after = view_of(seen(inspector, asked), asked.slot)
    if after.exists is None:
        return Done(f"sent; the server reports {count} points cleared; {asked.words.no_after}", {})
    still = per_shard(after)
    missed = tuple(sorted(still))
    result = {name: f"still present: {still[name]}" if name in still else "gone" for name in sorted({*names, *still})}
    outcome = f"dropped; {count} points cleared" if not missed else f"still present on {', '.join(missed)}"
    return Done(outcome, result, missed, after)


def expiry(left: TimeLeft | None) -> str:
    """Describe when the TTL clears an unconfirmed slot."""
    if left is None:
        return "it expires by its TTL at an unknown time"
    at = f"{left.expires_at:%Y-%m-%dT%H:%M:%SZ}"
    return f"it expires by its TTL at {at} (in {in_words(left.seconds)}) unless confirmed"


DROP = SlotVerb("drop", "the source retains no changes for a stopped job", plan_drop, drop)
