"""Slot commands: retained changes, preflight, changes of a slot, and the DataFrame queries that read slots.

Each change is audited: an intent line is written before it, and the observed result after it. If the intent line cannot
be written, nothing is done. Queries run in other processes; they are observed through the store's rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import partial

from slotkeeper.core.config.model import Loaded, owners, tables
from slotkeeper.core.domain.locks import end_it, explain_lease, is_stranger
from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.query_report import WHERE_TO_ACT, QueryReport, QuerySeen
from slotkeeper.core.domain.spec import BinlogOptions, JobSpec, TableAsked
from slotkeeper.core.domain.text import typed
from slotkeeper.core.domain.traits import refuse_shared
from slotkeeper.core.errors import ErrorKind, Refused, SlotkeeperError
from slotkeeper.core.ports.driver import LaneSeen
from slotkeeper.core.ports.kinds import StoreSession
from slotkeeper.core.ports.source import LOST_ANSWER_WAIT
from slotkeeper.core.services.audit import CopiedAudit, Tell, audited, silent
from slotkeeper.core.services.looking import Question, answer, inspecting, open_source, open_store
from slotkeeper.core.services.looking import asked as asked_all
from slotkeeper.core.slots.change import (
    Asked,
    ChangePlan,
    Consent,
    Done,
    Owner,
    SlotVerb,
    per_shard,
    refuse_unasked,
    refuse_unless_at_rest,
    refuse_without_consent,
    seen,
    view_of,
)
from slotkeeper.core.slots.preflight import Preflight, Rate, gather, judge
from slotkeeper.core.slots.status import OwnLane, TableRetained, TableSlots, count_unread, inspect, read_table, retained
from slotkeeper.core.sources import registry
from slotkeeper.core.state import observed
from slotkeeper.core.state.audit import intent
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.wiring import worker
from slotkeeper.core.wiring.worker import end_job_sessions

FOLLOWED_LIMIT_MS = 2_000
"""Milliseconds for a sink to return the tables of its progress rows, which are only additional information."""
OWN_SECONDS = 3.0
"""Seconds for a sink to return its progress rows, login included; they only supplement the source's answer."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The slots of a table and their retained changes, at one moment."""

    slots: TableSlots
    retained: TableRetained


# -- reading --------------------------------------------------------------------------------------------------------


def poll(loaded: Loaded, source: str, table: str, silent: set[str] | None = None) -> Polled:
    """Return the slots of a source's table and their retained changes; creates no slot; raises the source's errors.

    `silent`: the sinks that do not answer, so that this function waits for each only once.
    """
    entry, silent = loaded.sources[source], set() if silent is None else silent
    words = registry.open(entry.dialect).words
    with inspecting(entry.dialect, entry.endpoint, table) as at:
        mine = owners(loaded, source, table)
        of_table, unread = read_table(at.inspector, table), count_unread(at.inspector)
        slots = inspect(source, table, mine, of_table.points, unread, words)

        def ours() -> dict[str, list[OwnLane]]:
            return {slot: own_lanes(loaded.jobs[mine[slot]].of(table), of_table.now, silent) for slot in sorted(mine)}

        found = retained(at.inspector, of_table, unread, ours, words)
    if found is None:
        raise Refused(f"source {source}: table {table} does not exist", "check the table's name", where="source")
    places = sorted(silent & {loaded.jobs[job].store_at[0].place for job in mine.values()})
    unsaid = [f"{place} does not answer: its progress rows are unknown" for place in places]
    return Polled(slots, replace(found, untold=(*found.untold, *unsaid)))


def taken_out(loaded: Loaded, source: str = "", table: str = "") -> dict[tuple[str, str], dict[str, str]]:
    """Return the former jobs of tables that no job reads now: by (source, table), then by slot.

    The progress rows of the former job show this. A sink that does not answer at once is ignored and not queried again.
    """
    read, silent = set(tables(loaded)), set[str]()
    found: dict[tuple[str, str], dict[str, str]] = {}
    for job in (one for one in loaded.jobs.values() if one.binlog.binlog):
        if job.store_at[0].place in silent:
            continue
        silent.add(job.store_at[0].place)
        with suppress(SlotkeeperError):
            rows = answer(job.store_at[0].place, partial(_followed, job), OWN_SECONDS)
            silent.remove(job.store_at[0].place)
            for name, its_source, its_table, slot in rows:
                ours = (name, its_source, slot) == (job.name, job.source.name, job.slot)
                place = (its_source, its_table)
                if ours and place not in read and source in ("", its_source) and table in ("", its_table):
                    found.setdefault(place, {})[slot] = name
    return found


def _followed(job: JobSpec) -> list[tuple[str, str, str, str]]:
    with closing(open_store(job, FOLLOWED_LIMIT_MS)) as session:
        return list(session.followed())


def preflight(loaded: Loaded, source: str, table: str, rates: Callable[[Sequence[str]], Sequence[Rate]]) -> Preflight:
    """Return whether maintenance of a table can start; `rates` is called for jobs whose slots have unread rows."""
    entry = loaded.sources[source]
    with inspecting(entry.dialect, entry.endpoint, table) as at:
        mine = owners(loaded, source, table)
        facts = gather(at, source, table, mine)
    busy = sorted({mine[one.slot] for one in facts.unread or () if one.rows and one.slot in mine})
    return judge(replace(facts, rates=tuple(rates(busy)) if busy else ()))


def own_lanes(job: JobSpec, now: datetime, silent: set[str] | None = None) -> list[OwnLane]:
    """Read the sink's progress rows of a channel, by the source's clock; empty if the sink does not answer.

    A sink in `silent` is not queried; a sink that does not answer is added to it.

    For a source that stores no positions, or retains nothing for slots, the result is Slotkeeper's own position, not a
    registration: its time is the time up to which all changes are applied.
    """
    silent, place = set[str]() if silent is None else silent, job.store_at[0].place
    try:
        lanes = [] if place in silent else answer(place, lambda: _lanes(job), OWN_SECONDS)
    except SlotkeeperError as error:
        if error.kind is ErrorKind.TRANSIENT:
            silent.add(place)
        return []
    kind = registry.open(job.source_kind)
    positions, found = kind.positions, list[OwnLane]()
    if kind.traits.by_age or not kind.traits.keeps_positions:
        for shard, at_place in _places(job, lanes).items():
            seconds = at_place.seen_at
            when = None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
            found.append(OwnLane(shard, at_place, at_place, when))
        return found
    for one in lanes:
        kept = None if one.registered is None else positions.kept(one.registered)
        # a negative age comes from a sink whose clock was set back in the meantime: the time is unknown
        at = None if one.age is None or one.age < 0 else now - timedelta(seconds=one.age)
        found.append(OwnLane(one.shard, kept.furthest if kept else None, kept.oldest if kept else None, at))
    return found


def own_places(job: JobSpec) -> dict[str, Position]:
    """Return the positions of a channel's progress rows by DN; empty if the sink does not answer."""
    try:
        return _places(job, _lanes(job))
    except SlotkeeperError:
        return {}


def _places(job: JobSpec, lanes: Sequence[LaneSeen]) -> dict[str, Position]:
    positions = registry.open(job.source_kind).positions
    return {one.shard: positions.position(one.position) for one in lanes if one.position}


def _lanes(job: JobSpec) -> list[LaneSeen]:
    with closing(open_store(job)) as session:
        return session.lanes(job)


# -- changing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heard:
    """Receives the plan, and reports secondary failures, such as a failed copy of the audit."""

    show: Callable[[ChangePlan], None]
    tell: Tell = silent


@dataclass(frozen=True, slots=True)
class Changed:
    """A slot command's result: the plan, and the observed result if it was executed."""

    plan: ChangePlan
    done: Done | None = None


def _refuse(loaded: Loaded, source: str, verb: SlotVerb, owner: Owner | None) -> None:
    """Raise the objections to a slot command before any query."""
    traits = registry.open(loaded.sources[source].dialect).traits
    refuse_unasked(traits, source, verb)
    if owner is None:  # it can be the slot of a job whose configuration could not be read
        loaded.whole()
    else:
        refuse_shared(traits, owner.job, len(loaded.jobs[owner.job].channels))


def change(
    loaded: Loaded, verb: SlotVerb, place: tuple[str, str, str], owner: Owner | None, consent: Consent, heard: Heard
) -> Changed:
    """Plan a slot command on (source, table, slot); execute it if the user consented.

    Execution requires that the owning job is stopped, and that this command holds its lease before the plan is shown.
    """
    with ExitStack() as stack:
        source, table, slot = place
        entry = loaded.sources[source]
        _refuse(loaded, source, verb, owner)
        inspector = stack.enter_context(inspecting(entry.dialect, entry.endpoint, table)).inspector
        job = loaded.jobs[owner.job].of(table) if owner else None
        if job and owner:
            positions = None
            with suppress(SlotkeeperError):
                positions = len([one for one in _lanes(job) if one.position])
            owner = replace(owner, positions=positions)
        words = registry.open(entry.dialect).words
        asked = Asked(source, table, slot, entry.environment, owner, owners(loaded, source, table), words)
        if consent.execute:
            refuse_unless_at_rest(owner)
        session = stack.enter_context(_lease(job, "change")) if job and consent.execute else None
        kept = retained(inspector, read_table(inspector, table), (), dict, words)
        left = kept.slot(slot).left if kept else None
        plan = verb.plan(inspector, asked, left)
        heard.show(plan)
        refuse_unless_at_rest(owner)
        if not consent.execute:
            return Changed(plan)
        refuse_without_consent(plan, consent)
        # the name contains the job's name, so that the job's next start can end this session if it hangs
        name = worker.session_name(job.name, f"slots-{plan.verb}") if job else f"slotkeeper-slots/{slot}"[:63]
        registering = stack.enter_context(closing(open_source(entry.dialect, entry.endpoint, name)))
        opened = registering.table(TableAsked(table, slot, job.binlog if job else BinlogOptions()))
        # end a killed driver's session or wait for its time limit: no registration of it can arrive after this one
        if job and not end_job_sessions(job, opened):
            time.sleep(LOST_ANSWER_WAIT)

        def act() -> Done:
            return verb.act(opened, inspector, plan, asked, left)

        def after() -> Mapping[str, str]:
            return per_shard(view_of(seen(inspector, asked), slot))

        audit = CopiedAudit(StateFolder.open(loaded.state_dir), session, heard.tell)
        line = intent(f"slots {plan.verb}", plan.what, consent.reason, per_shard(plan.before))
        stack.callback(observed.forget, loaded.state_dir, table, slot)
        return Changed(plan, audited(audit, line, act, after))


@contextmanager
def _lease(job: JobSpec, verb: str) -> Iterator[StoreSession]:
    """Hold the job's lease, so that no host can run the job; yield the session. Raises Refused if it is taken."""
    session = worker.store_session(job, "lease")
    progress = session.progress(job, worker.who(job, f"slots {verb}"))
    try:
        if not progress.take_lease():
            holder = ""
            with suppress(SlotkeeperError):
                holder = progress.holder()
            owners = progress.lease_owners()
            what = explain_lease(f"{job.channel.source_table} slot {job.slot}", owners, holder)
            hint = end_it(owners) if is_stranger(owners) else "stop that job or wait for that command"
            with suppress(SlotkeeperError):  # a query is not a Slotkeeper job
                if not is_stranger(owners) and (rows := progress.rows()) and all(row.of_query for row in rows):
                    hint = f"it is a DataFrame query: {WHERE_TO_ACT}"
            raise Refused(what, hint, where="sink")
        reset = progress.open_reset()
        if reset:
            hint = f"`slotkeeper slots reset --resume {typed(job.channel.source_table, job.slot)}`"
            raise Refused(f"reset {reset} of slot {job.slot} is unfinished", hint, where="sink")
        yield session
    finally:
        session.close()


WITHIN = 3.0
"""Seconds for which a command waits for all stores together; their answers are only additional information."""
Queries = Mapping[tuple[str, str], QuerySeen]
"""The observed queries, by job and source table."""


def query_of(job: JobSpec) -> QuerySeen | None:
    """Return the query that reads the slot of a job's channel; None if there is none or the store does not answer."""
    return queries_of([job]).get((job.name, job.channel.source_table))


def queries_of(jobs: Iterable[JobSpec], silent: set[str] | None = None, unasked: bool = False) -> Queries:
    """Return the queries that read slots of these jobs, all channels; none for a store that does not answer in time.

    `silent` receives the names of the jobs whose store has not answered. Each store is queried over one session in its
    own thread, which is abandoned if it hangs. If no user requested the query (`unasked`), a store whose password comes
    from a command is not queried, because the command may ask a user.
    """
    by_store: dict[object, list[JobSpec]] = {}
    for job in jobs:  # including jobs that only copy: a query can still read the binlog
        by_store.setdefault((job.store_at, job.progress_schema), []).append(job)
    lanes: dict[str, list[Question[object, Queries | None]]] = {}
    for store, mine in by_store.items():
        endpoint, _ = mine[0].store_at
        if not unasked or "command" not in (endpoint.password.how, endpoint.sslpassword.how):
            lanes[str(len(lanes))] = [(store, partial(_ask, mine))]
    found = asked_all(lanes, WITHIN)
    there = {store: one for store, one in found.items() if one is not None and not isinstance(one, SlotkeeperError)}
    if silent is not None:
        silent.update(job.name for store, mine in by_store.items() if store not in there for job in mine)
    return {name: seen for one in there.values() for name, seen in one.items()}


def _ask(jobs: list[JobSpec]) -> Queries | None:
    found: dict[tuple[str, str], QuerySeen] = {}
    # this is the top of a thread: any error means that the store has not answered
    with suppress(Exception), closing(open_store(jobs[0], FOLLOWED_LIMIT_MS)) as session:
        there = set(session.queried())
        for job in jobs:
            for one in job.narrowed:
                if (job.source.name, one.channel.source_table, job.slot) in there:
                    seen = _seen(session, one)
                    if seen is not None:
                        found[job.name, one.channel.source_table] = seen
        return found
    return None


def _seen(session: StoreSession, job: JobSpec) -> QuerySeen | None:
    progress = session.progress(job, worker.who(job, "slots show"))
    rows = progress.rows()
    if not rows or not all(row.of_query for row in rows):
        return None
    positions = {row.key.shard: row.position.text for row in rows if row.position is not None}
    report = _account(session, job, {row.epoch for row in rows})
    texts = registry.open(job.source_kind).positions
    behind = {name: _behind(texts, place, report.newest.get(name)) for name, place in positions.items()}
    said = (report.query, report.name, report.batch, report.checkpoint, report.newest)
    lives, age = bool(progress.lease_owners()), report.age if report.query else None
    return QuerySeen(lives, progress.holder(), positions, *said, behind, texts.unit, age)


def _account(session: StoreSession, job: JobSpec, epochs: set[int]) -> QueryReport:
    """Return the query's own report; an empty report if it is unreadable, or older than the query's rows.

    A starting query raises the epoch of its rows before it reports: until then, its earlier report still applies.
    """
    nothing = QueryReport(0)
    try:
        report = session.accounts(job.lane_key()).read()
    except SlotkeeperError:  # a login that can only read the rows
        return nothing
    return report if report is not None and report.epoch <= max(epochs) else nothing


def _behind(texts: Positions, place: str, newest: str | None) -> int | None:
    if newest is None:
        return None
    try:
        return texts.place(newest).ahead_of(texts.position(place))
    except (ValueError, SlotkeeperError):
        return None
