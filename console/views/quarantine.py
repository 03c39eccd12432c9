"""The quarantines of all jobs as text, derived from the sinks' counts and the jobs' reports. Pure.

A sink's count takes precedence over a job's last report. If neither is known, nothing is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from slotkeeper.console.monitor.snapshot import Level, MonitorState, SinkSeen, sink_of
from slotkeeper.console.views.binlog import WORDS, worded
from slotkeeper.console.views.detail import labelled, listed
from slotkeeper.console.views.remedies import QUARANTINED_ROWS, numbered
from slotkeeper.console.views.rows import NARROW, UNKNOWN, WIDE, Column, Row, age, clock, count
from slotkeeper.core.domain.fault import Ack, is_quiet
from slotkeeper.core.domain.quarantine import COPIED, EVERYWHERE, EntryState, QuarantineEntry, Wanted, nearly_full
from slotkeeper.core.domain.row_counts import rows_quarantined
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import safe

if TYPE_CHECKING:
    from slotkeeper.core.config.model import Loaded

NO_SINK = "no job of this configuration writes to that sink"
HAS_NONE = "this kind of sink has no quarantine: a job stops at the first rejected row"
NOT_RECORDED = "quarantined rows are not recorded in history; press R to leave history"
Place = tuple[str, str, str]
"""Source, source table, slot."""
_KINDS = {**WORDS, "B": "old half of a changed key", "U": "update", COPIED: "copied row"}
_STATE = Column("state", "STATE", 11)
_COLUMNS = (
    Column("mark", "", 1),
    Column("id", "ID", 5, right=True),
    Column("since", "SINCE UTC", 11),
    Column("table", "TABLE", 14, least=WIDE, name=True),
    Column("dn", "DN", 8, least=NARROW, name=True),
    Column("position", "POSITION", 12, right=True, least=NARROW),
    Column("kind", "T", 1),
    Column("key", "KEY", 0),
    Column("code", "CODE", 5),
    Column("where", "COLUMN", 12),
    Column("tries", "TRY", 3, right=True),
    Column("pair", "PAIR", 5, right=True, least=WIDE),
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Entries of a job that were quarantined at the key press; with `every`, all entries when the action runs.

    `number` is the number of chosen entries, `total` the number of all quarantined ones; None if unknown. The two
    halves of a changed key count as two entries. `over` is the number of chosen entries that are no longer quarantined.
    """

    job: str
    ids: tuple[int, ...]
    number: int | None
    total: int | None
    over: int = 0
    every: bool = False


@dataclass(frozen=True, slots=True)
class JobQuarantine:
    """The quarantine of one job: `number` is None if unknown, `oldest` is None if only a report is known.

    `spec` is None for a job that is not in this configuration; `fault` is the error if the sink could not be queried.
    The two halves of a changed key count as one row and two `entries`, which only the sink can count. `fullest` is the
    highest number of rows in a table, because the limit applies to each table.
    """

    job: str
    number: int | None
    oldest: datetime | None = None
    places: tuple[Place, ...] = ()
    spec: JobSpec | None = None
    sink: str = ""
    asked_at: datetime | None = None
    fault: str = ""
    entries: int | None = None
    fullest: int = 0

    @property
    def key(self) -> str:
        """A key that is unique among all quarantines and errors."""
        return f"quarantined\x1f{self.job}\x1f{'' if self.spec else self.sink}"

    @property
    def ack(self) -> str:
        """The key of an acknowledgement: it covers this number of rows only."""
        return f"{self.key}\x1f{self.number}"

    @property
    def limit(self) -> int | None:
        """The number of quarantined rows of a table above which the job stops; None if it stops at the first."""
        return self.spec.sink_options.quarantine_limit if self.spec and self.spec.sink_options.quarantines else None

    @property
    def has_none(self) -> bool:
        """True if its sink cannot quarantine rows, because the sink's progress rows are in another store."""
        return self.spec is not None and self.spec.store is not None and not self.number

    @property
    def level(self) -> Level:
        """The level: warning, or critical near the limit; unknown if no server could be queried."""
        return Level.UNKNOWN if self.number is None else fullness(self.fullest or self.number, self.limit)

    @property
    def text(self) -> str:
        """A one-line description of the quarantine."""
        if self.number is None:
            return f"rows in quarantine: unknown; {safe(self.fault, 300)}"
        if self.has_none:
            return HAS_NONE
        if not self.number:
            return "no rows in quarantine"
        oldest = f", oldest {self.oldest:%m-%d %H:%M} UTC" if self.oldest else ", as last reported"
        each = " per table" if self.spec and self.spec.several else ""
        limit = "" if self.limit is None else f", limit {self.limit}{each}"
        return f"{rows_quarantined(self.number)}{oldest}{limit}"

    @property
    def choice(self) -> Choice:
        """A choice that includes all entries."""
        return Choice(self.job, (), self.entries, self.entries, every=True)


def fullness(number: int, limit: int | None) -> Level:
    """Return the level of `number` quarantined rows.

    >>> [fullness(number, limit).name for number, limit in ((3, 100), (90, 100), (90, None))]
    ['WARNING', 'CRITICAL', 'WARNING']
    """
    return Level.CRITICAL if nearly_full(number, limit) else Level.WARNING


def quarantine_of(monitor: MonitorState, jobs: Mapping[str, JobSpec]) -> list[JobQuarantine]:
    """Return the quarantines by job, largest first; quarantines that could not be queried are included as unknown."""
    found = _counted(monitor.sinks.values(), jobs)
    counted = {one.sink for one in monitor.sinks.values() if one.at is not None}
    for facts in monitor.local.jobs:
        spec, name = jobs.get(facts.name), facts.name
        sink = sink_of(spec) if spec else ""
        seen = monitor.sinks.get(sink)
        if sink in counted or (name, "") in found:
            continue
        if facts.quarantined:
            found[name, ""] = JobQuarantine(
                name, facts.quarantined, None, _places(spec), spec, sink, fault=seen.fault if seen else ""
            )
        elif spec and spec.sink_options.quarantines and seen and seen.fault:
            found[name, ""] = JobQuarantine(name, None, None, _places(spec), spec, sink, None, seen.fault)
    return sorted(found.values(), key=lambda one: (-(one.number or 0), one.job))


def _counted(sinks: Iterable[SinkSeen], jobs: Mapping[str, JobSpec]) -> dict[tuple[str, str], JobQuarantine]:
    """Return the sinks' counts by job; slots without a configured job are listed under their entries' job name."""
    owners = {(sink_of(job), place): job for job in jobs.values() for place in _places(job)}
    found: dict[tuple[str, str], JobQuarantine] = {}
    for seen in sinks:
        for one in seen.counts:
            place = (one.source, one.source_table, one.slot)
            spec = owners.get((seen.sink, place))
            key = (spec.name, "") if spec else (one.job, seen.sink)
            so_far = found.get(key) or JobQuarantine(key[0], 0, one.oldest, (), spec, seen.sink, seen.at, seen.fault)
            found[key] = replace(
                so_far,
                number=(so_far.number or 0) + one.quarantined,
                entries=(so_far.entries or 0) + one.entries,
                fullest=max(so_far.fullest, one.quarantined),
                oldest=min(so_far.oldest or one.oldest, one.oldest),
                places=(*so_far.places, place),
            )
    return found


def _places(job: JobSpec | None) -> tuple[Place, ...]:
    return tuple((job.source.name, each.source_table, job.slot) for each in job.channels) if job else ()


def places_of(one: JobQuarantine) -> tuple[Place, ...]:
    """Return the source, table and slot of each channel whose entries belong to the job."""
    return tuple(dict.fromkeys((*one.places, *_places(one.spec))))


def nothing_quarantined(job: str, spec: JobSpec | None, last: JobQuarantine | None) -> JobQuarantine:
    """Return an empty quarantine for a job, based on the configuration, otherwise on the last known quarantine."""
    if spec is None and last is not None:
        return replace(last, number=0, oldest=None, entries=0)
    return JobQuarantine(job, 0, None, _places(spec), spec, sink_of(spec) if spec else "", entries=0)


def asked_by(of: JobQuarantine, loaded: Loaded | None) -> JobSpec | None:
    """Return the job through which the sink is queried: the quarantine's own, or any job of the same sink."""
    jobs = loaded.jobs.values() if loaded else ()
    return of.spec or next((job for job in jobs if sink_of(job) == of.sink), None)


def wanted_of(of: JobQuarantine, every: bool, limit: int, before: int | None) -> Wanted:
    """Return the query for the sink: by source, slot and table if the job has a slot, otherwise by job name."""
    places = places_of(of)
    states = () if every else (EntryState.QUARANTINED,)
    if not places:
        return Wanted(states, job=of.job, before=before, limit=limit)
    table = places[0][1] if len(places) == 1 else ""
    return Wanted(states, places[0][0], table, places[0][2], before=before, limit=limit)


def only_of(of: JobQuarantine, entries: Iterable[QuarantineEntry]) -> list[QuarantineEntry]:
    """Return the entries of this job's tables, because other jobs can have a slot with the same name."""
    places = set(places_of(of))
    return [one for one in entries if not places or (one.source, one.source_table, one.slot) in places]


def number_of(found: Iterable[JobQuarantine], acks: Mapping[str, Ack], now: datetime) -> int:
    """Return the number of jobs that need attention because their quarantined-row count is not acknowledged."""
    return sum(bool(one.number) and not is_quiet(acks.get(one.ack), now) for one in found)


# -- on the Errors screen --------------------------------------------------------------------------------------------


def group_rows(found: Iterable[JobQuarantine], acks: Mapping[str, Ack], now: datetime) -> list[Row]:
    """Return one row per job, using the columns of errors."""
    return [_group(one, is_quiet(acks.get(one.ack), now)) for one in found]


def _group(one: JobQuarantine, quiet: bool) -> Row:
    level = Level.REST if quiet else one.level
    cells = {
        "mark": level.value,
        "last": "-",
        "first": clock(one.oldest),
        "number": count(one.number),
        "job": safe(one.job, 80),
        "dn": "-",
        "side": "sink",
        "state": "acked" if quiet else "bad rows",
        "signature": one.text,
    }
    order = {"last": None, "first": one.oldest.timestamp() if one.oldest else None, "number": one.number}
    return Row(one.key, level, cells, order)


def group_lines(one: JobQuarantine, now: datetime) -> list[tuple[Level, str]]:
    """Return the lines of a job's quarantine: the rows, their meaning, and the options."""
    said = [(one.level, labelled("Problem", one.text))]
    if one.fault and one.number is not None:
        said.append((Level.UNKNOWN, f"the sink has not answered since {clock(one.asked_at)}: {safe(one.fault, 300)}"))
    tables = ", ".join(dict.fromkeys(safe(table, 60) for _, table, _ in one.places))
    into = f" -> {safe(one.spec.channel.target, 60)}" if one.spec and len(one.spec.channels) == 1 else ""
    old = f"   oldest {age(one.oldest, now)} ago" if one.oldest else ""
    said.append((Level.FINE, labelled("Detail", f"of {tables or UNKNOWN}{into}{old}   Enter shows the rows")))
    said.append((Level.FINE, labelled("Impact", QUARANTINED_ROWS.means)))
    return said + listed("Action", numbered(QUARANTINED_ROWS.options, safe(one.job, 80)))


def entry_columns(every: bool) -> tuple[Column, ...]:
    """Return the columns of the list, including the entry state if entries in every state are listed."""
    return (*_COLUMNS[:3], _STATE, *_COLUMNS[3:]) if every else _COLUMNS


def entry_rows(entries: Sequence[QuarantineEntry]) -> list[Row]:
    """Return the entries as rows, in the order in which they were read: newest first."""
    by_pair = {_half(one): one for one in entries if one.pair}
    return [_entry(one, by_pair.get(_half(one, other=True))) for one in entries]


def _entry(one: QuarantineEntry, other: QuarantineEntry | None) -> Row:
    level = Level.WARNING if one.state is EntryState.QUARANTINED else Level.REST
    cells = {
        "mark": level.value,
        "id": str(one.id),
        "since": f"{one.quarantined_at:%m-%d %H:%M}",
        "table": safe(one.source_table, 60),
        "dn": dn_words(one),
        "position": safe(one.position, 40),
        "kind": safe(one.kind, 4),
        "key": key_words(one),
        "code": safe(one.sqlstate, 10) or UNKNOWN,
        "where": safe(one.where, 60) or "-",
        "tries": count(one.tries),
        "pair": f"#{other.id}" if other else UNKNOWN if one.pair else "",
        "state": one.state.value,
    }
    order: dict[str, float | None] = {"id": one.id, "since": one.quarantined_at.timestamp(), "tries": one.tries}
    return Row(str(one.id), level, cells, order | {"position": one.point + max(0, one.sequence) / 1e6})


def dn_words(one: QuarantineEntry) -> str:
    """Return the DN, or `all` if a copy read the table as a whole."""
    return "all" if one.shard == EVERYWHERE else safe(one.shard, 40)


def key_words(one: QuarantineEntry) -> str:
    """Return the key as text; keys are never masked."""
    return safe(", ".join(worded(value, False) for value in one.key), 300)


def other_half(one: QuarantineEntry, entries: Iterable[QuarantineEntry]) -> QuarantineEntry | None:
    """Return the other half of a changed key if it is among the given entries."""
    wanted = _half(one, other=True)
    return next((each for each in entries if _half(each) == wanted), None) if one.pair else None


def _half(one: QuarantineEntry, other: bool = False) -> tuple[str, ...]:
    """Return the values that identify half of a changed key; with `other`, those of the other half."""
    old = (one.kind == "B") is not other
    return one.source, one.source_table, one.slot, one.pair, "old" if old else "new"


def entry_lines(one: QuarantineEntry, other: QuarantineEntry | None, now: datetime) -> list[tuple[Level, str]]:
    """Return the lines of an entry: its problem, the effect of a replay, its other half, and its origin."""
    level = Level.WARNING if one.state is EntryState.QUARANTINED else Level.REST
    where = f"   {'constraint' if one.constraint else 'column'} {safe(one.where, 60)}" if one.where else ""
    lines = [(level, f"{safe(one.sqlstate, 10) or UNKNOWN}{where}   {safe(one.message, 500)}")]
    lines.append((Level.FINE, f"replay  {replay_words(one)}"))
    if one.pair:
        half = "the other half of the changed key is not listed here"
        if other is not None:
            half = f"#{other.id}, the {'old' if other.kind == 'B' else 'new'} key {key_words(other)}"
        lines.append((Level.FINE, f"pair    {half}: both are handled together"))
    kind = _KINDS.get(one.kind, f"kind {safe(one.kind, 4)}")
    lines.append((Level.FINE, f"key     {key_words(one)}   {kind} of {safe(one.source_table, 60)}"))
    lines.append((Level.FINE, f"read    {dn_words(one)} {safe(one.position, 40)}   into {safe(one.target, 60)}"))
    quarantined = f"since   {clock(one.quarantined_at)} UTC ({age(one.quarantined_at, now)}), tries {one.tries}"
    lines.append((Level.FINE, f"{quarantined}; run {safe(one.run, 40) or UNKNOWN}, epoch {one.epoch}"))
    if one.state is not EntryState.QUARANTINED:
        by = f" by {safe(one.ended_by, 80)}" if one.ended_by else ""
        why = f": {safe(one.reason, 200)}" if one.reason else ""
        lines.append((Level.FINE, f"ended   {one.state.value} {clock(one.ended_at)} UTC{by}{why}"))
    return lines


def replay_words(one: QuarantineEntry) -> str:
    """Describe the effect of a replay on an entry."""
    if one.state is not EntryState.QUARANTINED:
        return f"has no effect: the entry is {one.state.value}"
    target = safe(one.target, 60)
    if one.kind == "B":
        return f"removes the row of the old key from {target}, together with the new half"
    return f"writes the row into {target} as the job does; a row that is still rejected stays quarantined"


# -- one entry in full ------------------------------------------------------------------------------------------------

VALUE_COLUMNS = (Column("mark", "", 1), Column("column", "COLUMN", 20), Column("value", "SOURCE TEXT", 0))


def value_rows(one: QuarantineEntry, hidden: bool) -> list[Row]:
    """Return the quarantined row's columns as rows; the column named by the server is marked."""
    found = []
    for number, (name, value) in enumerate(one.values):
        is_it = name == one.column
        level = Level.WARNING if is_it else Level.FINE
        cells = {"mark": "*" if is_it else "", "column": safe(name, 60), "value": worded(value, hidden)}
        found.append(Row(f"{number}", level, cells))
    return found


# -- chosen entries ---------------------------------------------------------------------------------------------------


def choice_of(of: JobQuarantine, entries: Sequence[QuarantineEntry], ids: Collection[int]) -> Choice:
    """Return a choice of the given entries of a job."""
    chosen = [one for one in entries if one.id in ids]
    quarantined = [one.id for one in chosen if one.state is EntryState.QUARANTINED]
    return Choice(of.job, tuple(sorted(quarantined)), len(quarantined), of.entries, len(chosen) - len(quarantined))


def as_it_is(choice: Choice, entry: QuarantineEntry) -> Choice:
    """Return a choice of one entry in its current state; it may no longer be quarantined."""
    quarantined = entry.state is EntryState.QUARANTINED
    return replace(choice, ids=(entry.id,) if quarantined else (), number=int(quarantined), over=int(not quarantined))
