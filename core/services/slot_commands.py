"""The composition root of slot commands: what is held back, preflight, and the verbs that change a slot.

Each change is audited: an intent line before (nothing is done where it cannot be written), what was seen after.
Next door: `core.slots` has the verbs, `core.services.verify` the looking commands; whether a job lives is asked by the
console, because processes are seen above this layer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from core.config.model import Loaded
from core.config.places import owners
from core.config.secrets import resolve
from core.domain.audit import AuditLine
from core.domain.spec import BinlogOptions, JobSpec
from core.domain.text import safe, typed
from core.domain.ttl import Left
from core.engine.driver.loop import LOST_ANSWER_WAIT
from core.errors import Refused, SlotkeeperError
from core.services.audit import CopiedAudit
from core.services.verify import open_viewer, poll_name
from core.sinks.postgres.check.viewer import LaneSeen, PostgresViewer
from core.sinks.postgres.session import SinkSession
from core.slots import create as creating
from core.slots import drop as dropping
from core.slots import full_sync
from core.slots.change import (
    Asked,
    Consent,
    Done,
    Owner,
    Plan,
    per_shard,
    refuse_unless_at_rest,
    refuse_without_consent,
    seen,
    view_of,
)
from core.slots.status.inspect import TableSlots, inspect
from core.slots.status.preflight import Preflight, Rate, gather, judge
from core.slots.status.retained import OwnLane, TableHold, hold
from core.sources.dws.session import DwsSession
from core.sources.dws.slot_verbs import DwsSlotVerbs
from core.sources.dws.viewer import DwsViewer, PointSeen, UnreadSeen
from core.state.audit import Audit, intent, outcome
from core.state.faults import StateError
from core.state.folder import StateFolder
from core.wiring import worker


class _Once:
    """A viewer whose two costly answers are asked for once, so that all that is shown is of one moment."""

    def __init__(self, viewer: DwsViewer) -> None:
        self.viewer = viewer
        self._points: dict[str, Sequence[PointSeen] | None] = {}
        self._unread: dict[str, Sequence[UnreadSeen] | None] = {}

    def points(self, table: str) -> Sequence[PointSeen] | None:
        if table not in self._points:
            self._points[table] = self.viewer.points(table)
        return self._points[table]

    def unread(self, table: str) -> Sequence[UnreadSeen] | None:
        if table not in self._unread:
            self._unread[table] = self.viewer.unread(table)
        return self._unread[table]

    def options(self, table: str) -> str | None:
        return self.viewer.options(table)

    def settings(self) -> dict[str, str]:
        return self.viewer.settings()

    def now(self) -> datetime:
        return self.viewer.now()


@dataclass(frozen=True, slots=True)
class Polled:
    """The slots of a table and what they hold back, of one moment."""

    slots: TableSlots
    hold: TableHold


# -- looking --------------------------------------------------------------------------------------------------------


def poll(loaded: Loaded, source: str, table: str) -> Polled:
    """The slots of a source's table and what they hold back, without creating any; raises what the source raises."""
    with _viewing(loaded, source) as viewer:
        once = _Once(viewer)
        mine = owners(loaded, source, table)
        slots = inspect(once, source, table, mine)
        now = viewer.now()
        found = hold(once, table, sorted(mine), lambda slot: own_lanes(loaded.jobs[mine[slot]].of(table), now))
    if found is None:
        raise Refused(f"source {source}: there is no table {table}", "check the table's name", where="source")
    return Polled(slots, found)


def preflight(loaded: Loaded, source: str, table: str, rates: Callable[[Sequence[str]], Sequence[Rate]]) -> Preflight:
    """Whether maintenance of a table may begin; `rates` is asked for jobs whose slots have unread rows."""
    with _viewing(loaded, source) as viewer:
        timeout = viewer.settings().get("binlog_consume_timeout", "")
        seconds = int(timeout) if timeout.isdigit() else None
        mine = owners(loaded, source, table)
        facts = gather(viewer, source, table, mine, seconds)
    busy = sorted({mine[one.slot] for one in facts.unread or () if one.rows and one.slot in mine})
    return judge(replace(facts, rates=tuple(rates(busy)) if busy else ()))


@contextmanager
def _viewing(loaded: Loaded, source: str) -> Iterator[DwsViewer]:
    viewer = open_viewer(loaded.sources[source].endpoint)
    try:
        yield viewer
    finally:
        viewer.close()


def own_lanes(job: JobSpec, now: datetime) -> list[OwnLane]:
    """What the sink's progress rows of a channel say, by the source's clock; nothing where the sink does not answer."""
    try:
        lanes = _lanes(job)
    except SlotkeeperError:
        return []
    return [
        OwnLane(one.shard, one.live, one.durable, None if one.age is None else now - timedelta(seconds=one.age))
        for one in lanes
    ]


def _lanes(job: JobSpec) -> list[LaneSeen]:
    session = SinkSession(job.sink, resolve(job.sink.password), poll_name(job.name), job.progress_schema)
    viewer = PostgresViewer(session)
    try:
        return viewer.lanes(job.progress_schema, job.source.name, job.channel.source_table, job.slot)
    finally:
        viewer.close()


# -- changing -------------------------------------------------------------------------------------------------------


class Verb(Protocol):
    """One slot command: what it would do, and doing it."""

    def plan(self, viewer: DwsViewer, asked: Asked, left: Left | None) -> Plan: ...
    def act(self, plan: Plan, admin: DwsSlotVerbs, viewer: DwsViewer, asked: Asked, left: Left | None) -> Done: ...


class Create:
    """`slots create`."""

    def plan(self, viewer: DwsViewer, asked: Asked, left: Left | None) -> Plan:
        """What it would do."""
        return creating.plan(viewer, asked)

    def act(self, plan: Plan, admin: DwsSlotVerbs, viewer: DwsViewer, asked: Asked, left: Left | None) -> Done:
        """Do it and look."""
        return creating.create(admin, viewer, asked)


class Register:
    """`slots register`."""

    def plan(self, viewer: DwsViewer, asked: Asked, left: Left | None) -> Plan:
        """What it would do."""
        return full_sync.plan(viewer, asked)

    def act(self, plan: Plan, admin: DwsSlotVerbs, viewer: DwsViewer, asked: Asked, left: Left | None) -> Done:
        """Do it and look."""
        return full_sync.register(admin, viewer, asked)


class Drop:
    """`slots drop`."""

    def plan(self, viewer: DwsViewer, asked: Asked, left: Left | None) -> Plan:
        """What it would do."""
        return dropping.plan(viewer, asked, left)

    def act(self, plan: Plan, admin: DwsSlotVerbs, viewer: DwsViewer, asked: Asked, left: Left | None) -> Done:
        """Do it and look; nothing is sent where the kernel cannot drop."""
        if not plan.sql:
            return dropping.abandon(viewer, asked, left)
        return dropping.drop(admin, viewer, asked)


Show = Callable[[Plan], None]


@dataclass(frozen=True, slots=True)
class Ended:
    """A slot command's end: the plan, and what was seen afterwards where it was executed."""

    plan: Plan
    done: Done | None = None


def change(
    loaded: Loaded, verb: Verb, place: tuple[str, str, str], owner: Owner | None, consent: Consent, show: Show
) -> Ended:
    """Plan a slot command on (source, table, slot); carry it out where that was consented to.

    `show` is given the plan; to execute, the owning job must be at rest and its lease ours even before that.
    """
    with ExitStack() as stack:
        source, table, slot = place
        if owner is None:  # it may be the slot of a job that could not be read
            loaded.whole()
        viewer = stack.enter_context(_viewing(loaded, source))
        job = loaded.jobs[owner.job].of(table) if owner else None
        if job and owner:
            owner = replace(owner, positions=_positions(job))
        mine = owners(loaded, source, table)
        asked = Asked(source, table, slot, loaded.sources[source].environment, owner, mine)
        if consent.execute:
            refuse_unless_at_rest(owner)
        session = stack.enter_context(_lease(job, "change")) if job and consent.execute else None
        left = _left(viewer, asked)
        plan = verb.plan(viewer, asked, left)
        show(plan)
        refuse_unless_at_rest(owner)
        if not consent.execute:
            return Ended(plan)
        refuse_without_consent(plan, consent)
        admin = stack.enter_context(_admin(loaded, asked, job, plan.verb))
        if job:
            _silence(job, admin)
        folder = StateFolder.open(loaded.state_dir)

        def act() -> Done:
            return verb.act(plan, admin, viewer, asked, left)

        def after() -> Mapping[str, str]:
            return per_shard(view_of(seen(viewer, asked), slot))

        line = intent(f"slots {plan.verb}", plan.what, consent.reason, per_shard(plan.before))
        return Ended(plan, audited(CopiedAudit(folder, session), line, act, after))


def audited(
    audit: Audit, line: AuditLine, act: Callable[[], Done], after: Callable[[], Mapping[str, str]] | None = None
) -> Done:
    """Do something between its two audit lines; where it fails, what `after` can see is written."""
    audit.append(line)
    try:
        done = act()
    except Exception as error:
        result: Mapping[str, str] = {}
        with suppress(SlotkeeperError):
            result = after() if after else {}
        with suppress(StateError):
            audit.append(outcome(line, f"failed: {safe(error, 300)}", result))
        raise
    try:
        audit.append(outcome(line, done.outcome, done.result))
    except StateError as error:
        return replace(done, outcome=f"{done.outcome} (the outcome is missing in the audit: {error.message})")
    return done


def _positions(job: JobSpec) -> int | None:
    try:
        return len([one for one in _lanes(job) if one.position])
    except SlotkeeperError:
        return None


def _left(viewer: DwsViewer, asked: Asked) -> Left | None:
    found = hold(viewer, asked.table, (), lambda slot: ())
    return found.slot(asked.slot).left if found else None


@contextmanager
def _lease(job: JobSpec, verb: str) -> Iterator[SinkSession]:
    """Hold the job's lease, so that no machine runs it meanwhile; gives its session. Refused where somebody has it."""
    progress = worker.open_progress(job, "lease", worker.who(job, f"slots {verb}"))
    try:
        if not progress.take_lease():
            holder = ""
            with suppress(SlotkeeperError):
                holder = progress.holder()
            raise Refused(
                f"the lease of {job.channel.source_table} slot {job.slot} is held: {holder or 'by whom is not known'}",
                "stop that job or wait for that command",
                where="sink",
            )
        reset = progress.open_reset()
        if reset:
            place = typed(job.channel.source_table, job.slot)
            raise Refused(
                f"reset {reset} of slot {job.slot} is unfinished",
                f"slotkeeper slots reset --resume {place}",
                where="sink",
            )
        yield progress.session
    finally:
        progress.close()


def _silence(job: JobSpec, admin: DwsSlotVerbs) -> None:
    """No registration of a driver that was killed may land after ours: ended, or waited out."""
    pattern = worker.session_name(job.name, "%").replace("_", r"\_")
    if not admin.end_sessions(pattern, admin.session.application_name):
        time.sleep(LOST_ANSWER_WAIT)


@contextmanager
def _admin(loaded: Loaded, asked: Asked, job: JobSpec | None, verb: str) -> Iterator[DwsSlotVerbs]:
    endpoint = loaded.sources[asked.source].endpoint
    # a job's name in it lets the job's next start end this session where it hangs
    name = worker.session_name(job.name, f"slots-{verb}") if job else f"slotkeeper-slots/{asked.slot}"[:63]
    session = DwsSession(endpoint, resolve(endpoint.password), name)
    admin = DwsSlotVerbs(session, asked.table, asked.slot, job.binlog if job else BinlogOptions())
    try:
        yield admin
    finally:
        admin.close()
