"""`doctor`: check what jobs require of servers, list least privileges (GRANT) and guarantees; and `--probe`.

Without `--probe`, sessions only read: they create no slot, table or row, and each kind of server has its own checks
(`slotkeeper.core.ports.kinds`). A probe runs between two audit lines. However it ends, its scratch tables are dropped
before the end is reported; signals are held back until then.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import TypeVar, cast

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.config.model import Loaded, SinkEntry, SourceEntry, tables
from slotkeeper.core.config.patterns import configured, resolve
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain import traits
from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.finding import Finding, Level
from slotkeeper.core.domain.inventory import literal_schemas
from slotkeeper.core.domain.job import GONE
from slotkeeper.core.domain.probing import Left, ProbePlan, Report
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec, TableAsked
from slotkeeper.core.domain.text import many
from slotkeeper.core.drivers.login import speaks
from slotkeeper.core.errors import ConfigError, ErrorKind, Refused, SlotkeeperError
from slotkeeper.core.ports.kinds import (
    FollowedTable,
    Probe,
    ProbeAsked,
    SinkAsked,
    SinkSession,
    SourceAsked,
    SourceSession,
    StoreSession,
)
from slotkeeper.core.services.audit import Tell, audited
from slotkeeper.core.services.looking import open_source, poll_name
from slotkeeper.core.services.views import opened as open_views
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.slots.change import PROD, Done
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.state import files
from slotkeeper.core.state.audit import Audit, intent
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.files import PROBES, ResetFiles, answered, points_proven, probe_record
from slotkeeper.core.state.folder import StateFolder


def promise_of(job: JobSpec) -> str:
    """Return what a job guarantees about its target, as text."""
    return traits.promise(sinks.open(job.sink_kind).traits, job)


V = TypeVar("V", SourceSession, SinkSession)


def check_source(
    loaded: Loaded, entry: SourceEntry, clock: Clock | None = None, seen: list[Finding] | None = None
) -> list[Finding]:
    """Check a source: reachability, login, version, clock, binlog requirements, and the tables that jobs read there.

    `seen` receives each finding at once, for a command that stops waiting.
    """
    utc, expected = (clock or SystemClock()).utc, sources.open(entry.dialect).traits.speaks

    def find(session: SourceSession) -> Iterator[Finding]:
        jobs, about = _listed(loaded, entry, session)
        yield from session.doctor.findings(_asked(replace(loaded, jobs=jobs), entry), utc)
        yield from about

    findings = _checked(f"source {entry.name}", lambda: open_source(entry.dialect, entry.endpoint), find, seen)
    return _with_protocol(findings, entry, expected)


MOST_SKIPPED = 20
"""Number of skipped tables that are named for each job."""


def _listed(loaded: Loaded, entry: SourceEntry, session: SourceSession) -> tuple[dict[str, JobSpec], list[Finding]]:
    """Return the jobs with the tables that the source lists for their patterns now, and findings about the patterns."""
    jobs, about = dict(loaded.jobs), list[Finding]()
    for name, job in loaded.jobs.items():
        if not job.patterns or job.source.name != entry.name:
            continue
        place = f"job {name}"
        try:
            listed = session.doctor.list_tables(literal_schemas(job.patterns), job.binlog.binlog)
        except SlotkeeperError as error:
            about.append(Finding(place, Level.FAIL, f"cannot list the tables of source {entry.name}: {error}"))
            continue
        base, known = configured(job), files.known_tables(loaded.state_dir, name)
        found = resolve(base, listed, {*known.tables, *known.gone})
        jobs[name] = replace(job, channels=found.channels)
        own = len(found.channels) - len(base.channels)
        blocks = ", ".join(pattern.source for pattern in job.patterns)
        about.append(Finding(place, Level.OK if own else Level.WARN, f"{blocks}: {many(own, 'table')} to mirror"))
        about += [Finding(place, Level.WARN, f"no table matches {one}") for one in found.unmatched]
        about += [
            Finding(place, Level.WARN, f"{one.table} is skipped: {one.reason}") for one in found.skipped[:MOST_SKIPPED]
        ]
        if left := len(found.skipped) - MOST_SKIPPED:
            about += [Finding(place, Level.WARN, f"{left} more tables are skipped")] if left > 0 else []
        about += [Finding(place, Level.WARN, f"{table}: {GONE}") for table in known.gone]
    return jobs, about


def _asked(loaded: Loaded, entry: SourceEntry) -> SourceAsked:
    found = probe_record(loaded.state_dir, entry.name)
    jobs = [part for job in loaded.jobs.values() for part in job.narrowed if job.source.name == entry.name]
    followed = {
        table: [one for one in jobs if one.channel.source_table == table] for _, table in tables(loaded, entry.name)
    }
    return SourceAsked(
        name=entry.name,
        endpoint=entry.endpoint,
        tables=tuple(FollowedTable(t, tuple(one for one in mine if one.binlog.binlog)) for t, mine in followed.items()),
        points_proven=points_proven(loaded.state_dir, entry.name, entry.endpoint.place),
        recorded=partial(answered, found, entry.endpoint.place),
    )


def _with_protocol(found: list[Finding], entry: SourceEntry, expected: str) -> list[Finding]:
    """After a failure, probe the protocol of the port, because the port can belong to another kind of server."""
    if len(found) != 1 or found[0].level is not Level.FAIL:
        return found
    spoken = speaks(entry.endpoint.host, entry.endpoint.port)
    if spoken in ("", expected):
        return found
    text = f"{entry.endpoint.place} answers with {spoken}'s protocol, not {expected}'s; correct host and port"
    return [replace(found[0], text=text, unreachable=False)]


def check_sink(
    loaded: Loaded, entry: SinkEntry, clock: Clock | None = None, seen: list[Finding] | None = None
) -> list[Finding]:
    """Check a sink: reachability, login, version, clock, and privileges for progress tables and targets."""
    asked = SinkAsked(
        name=entry.name,
        endpoint=entry.endpoint,
        progress_schema=entry.progress_schema,
        jobs=tuple(_writers(loaded, entry)),
        identity_of=partial(_identity, set()),
    )

    def opened() -> SinkSession:
        kind, its = sinks.open(entry.kind), login(entry.endpoint, poll_name(entry.name))
        return kind.connect(its, entry.progress_schema) if kind.traits.is_store else kind.connect_beside(its)

    utc = (clock or SystemClock()).utc

    def find(session: SinkSession) -> Iterator[Finding]:
        read = set(cast(StoreSession, session).queried()) if sinks.open(entry.kind).traits.is_store else set()
        of_query = [job for job in asked.jobs if (job.source.name, job.channel.source_table, job.slot) in read]
        for job in of_query:
            text = f"{job.channel.source_table}: read by a DataFrame query only; its target is not checked"
            yield Finding(f"job {job.name}", Level.OK, text)
        yield from session.findings(replace(asked, jobs=tuple(job for job in asked.jobs if job not in of_query)), utc)
        for job in loaded.jobs.values():
            if job.views and job.sink.name == entry.name:
                yield from _of_views(job)

    return _checked(f"sink {entry.name}", opened, find, seen)


def _of_views(job: JobSpec) -> Iterator[Finding]:
    """Yield the missing indexes of a job's built views, as the statements that create them."""
    with open_views(job) as (_, views):
        for target in [row.target for row in views.rows() if row.built]:
            for statement in views.explain(target).missing:
                text = f"view {target}: a round reads the whole table without an index: {statement};"
                yield Finding(f"job {job.name}", Level.WARN, text)


def _checked(
    place: str, opened: Callable[[], V], find: Callable[[V], Iterable[Finding]], seen: list[Finding] | None
) -> list[Finding]:
    found: list[Finding] = [] if seen is None else seen
    try:
        session = opened()
    except ConfigError as error:  # a password reference that cannot be resolved
        return [Finding(place, Level.FAIL, str(error))]
    with closing(session):
        try:
            for one in find(session):
                if one not in found:
                    found.append(one)
            return found
        except SlotkeeperError as error:
            text = f"{error}" + (f" ({error.hint})" if error.hint else "")
            return [Finding(place, Level.FAIL, text, error.kind is ErrorKind.TRANSIENT)]


def _writers(loaded: Loaded, entry: SinkEntry) -> list[JobSpec]:
    return [part for job in loaded.jobs.values() if job.sink.name == entry.name for part in job.narrowed]


def _identity(silent: set[str], job: JobSpec) -> tuple[TableIdentity | None, str]:
    """Return the source's table, None if unknown or missing, and the channel's requirements that it does not meet.

    The source's own findings report why it cannot be read. `silent`: sources that did not answer, queried only once.
    """
    if job.source.name in silent:
        return None, ""
    try:
        session = open_source(job.source_kind, job.source)
    except ConfigError:  # a password reference that cannot be resolved
        return None, ""
    with closing(session):
        identity = None
        try:
            whole = replace(job, channels=(replace(job.channel, columns=(), where=""),))
            identity = session.table(TableAsked.of(whole)).source.identify()
            if job.channel.columns or job.channel.where:
                session.table(TableAsked.of(job)).source.identify(filters=True)
        except SlotkeeperError as error:
            if error.kind is ErrorKind.TRANSIENT:
                silent.add(job.source.name)
            return None, (f"{error}" + (f" ({error.hint})" if error.hint else "")) if identity else ""
        return identity, ""


def promises(loaded: Loaded) -> list[Finding]:
    return [Finding(f"job {name}", Level.OK, promise_of(job)) for name, job in loaded.jobs.items()]


# -- the least privileges -------------------------------------------------------------------------------------------


def grants(loaded: Loaded) -> list[tuple[str, list[str]]]:
    """Return (server, statements) with the least privileges that the configured jobs need."""
    found = []
    for name, entry in loaded.sources.items():
        mine = [job for job in loaded.jobs.values() if job.source.name == name]
        schemas = {schema for job in mine for schema in literal_schemas(job.patterns)}
        names = [table for _, table in tables(loaded, name) if table.partition(".")[0] not in schemas]
        names += [f"{schema}.*" for schema in sorted(schemas)]
        found.append((f"source {name}", sources.open(entry.dialect).manual.grants(entry.endpoint, names)))
    for name, sink in loaded.sinks.items():
        made = sinks.open(sink.kind).grants(sink.endpoint, sink.progress_schema, _writers(loaded, sink))
        found.append((f"sink {name}", made))
    return found


Handler = Callable[[int, FrameType | None], object] | int | None

ACTION = "doctor --probe"


def plan(loaded: Loaded, name: str, schema: str = "") -> ProbePlan:
    """Return the plan for probing a source or a sink; only reads.

    Raises ConfigError for an unknown name, Refused if the kind has no probe or the server cannot be probed.
    """
    if name not in loaded.sources and name not in loaded.sinks:
        known = ", ".join(sorted({*loaded.sources, *loaded.sinks})) or "none"
        raise ConfigError(f"unknown source or sink {name!r}", f"known: {known}")
    entry, made, kind = _probed(loaded, name)
    prod = any(job.environment.upper() == PROD for job in loaded.jobs.values() if job.sink.name == name)
    if isinstance(entry, SourceEntry):
        prod = entry.environment.upper() == PROD
    return replace(made(_login(entry)).plan(name, schema, prod), kind=kind)


def _probed(loaded: Loaded, name: str) -> tuple[SourceEntry | SinkEntry, Callable[[Login], Probe], str]:
    """Return the source or sink with this name whose kind has a probe, with the probe and the kind."""
    kinds = list[str]()
    found = list[tuple[SourceEntry | SinkEntry, Callable[[Login], Probe] | None, str]]()
    if source := loaded.sources.get(name):
        kinds.append(f"a {source.dialect} source")
        found.append((source, sources.open(source.dialect).probe, source.dialect))
    if sink := loaded.sinks.get(name):
        kinds.append(f"a {sink.kind} sink")
        found.append((sink, sinks.open(sink.kind).probe, sink.kind))
    usable = [(entry, made, kind) for entry, made, kind in found if made is not None]
    if not usable:
        raise Refused(f"{name} is {' and '.join(kinds)}, which has no probe", "run doctor without --probe")
    if len(usable) > 1:
        raise Refused(f"{name} is the name of a source and of a sink", "rename one of them in the configuration")
    return usable[0]


def probe(
    loaded: Loaded, found: ProbePlan, reason: str, progress: Tell, tell: Tell, clock: Clock | None = None
) -> Report:
    """Execute a plan; `progress` receives each question, `tell` the objects that an error leaves behind."""
    clock = clock or SystemClock()
    entry, made, _ = _probed(loaded, found.source)
    audit = Audit(folder := StateFolder.open(loaded.state_dir))
    began, left, reports = clock.monotonic(), list[Left](), list[Report]()
    jobs = [job for job in loaded.jobs.values() if _concerns(job, entry)]

    def act() -> Done:
        try:
            with Patience() as patience:
                asked = ProbeAsked(found, jobs, left, progress, patience.begin)
                answers, switches = made(_login(entry)).ask(asked)
        except BaseException:
            for one in left:
                tell(f"left behind: {one.table} ({one.why}); fix: {one.cure}")
            if not left:
                progress("ended early; no probe objects remain")
            raise
        seconds = clock.monotonic() - began
        reports.append(Report(found, clock.utc(), seconds, tuple(answers), tuple(left), switches))
        return Done(reports[0].sentence, _left_behind(left))

    line = intent(ACTION, f"{found.source} {found.schema}.{found.table}", reason)
    done = audited(audit, line, act, lambda: _left_behind(left), BaseException)
    if done.outcome != reports[0].sentence:
        tell(done.outcome)
    try:
        return _kept(reports[0], folder)
    except StateError as error:
        tell(f"the answers were not stored: {error}")
        return reports[0]


def _concerns(job: JobSpec, entry: SourceEntry | SinkEntry) -> bool:
    if isinstance(entry, SourceEntry):
        return job.source.name == entry.name and job.binlog.binlog
    return job.sink.name == entry.name


def asked(loaded: Loaded, name: str) -> int:
    """Return the number of questions of a probe."""
    entry, made, _ = _probed(loaded, name)
    return made(Login(entry.endpoint, "", "")).asked


def remembered(loaded: Loaded, name: str) -> Mapping[str, object] | None:
    """Return the record of the last probe of a source or sink; None if there is none, or if it cannot be read."""
    return probe_record(loaded.state_dir, name)


def _kept(report: Report, folder: StateFolder) -> Report:
    ResetFiles(folder).save(PROBES, report.plan.source, json.dumps(report.as_json(), indent=1))
    return replace(report, file=str(folder.path / PROBES / f"{report.plan.source}.json"))


def _login(entry: SourceEntry | SinkEntry) -> Login:
    return login(entry.endpoint, poll_name(f"{entry.name}/probe"))


class Patience:
    """Holds back termination signals from `begin` until the end of the block; before `begin`, they take effect at once.

    It uses handlers, not a mask, because any thread can receive a signal; only the main thread can handle one.
    """

    def __init__(self) -> None:
        self._before: dict[int, Handler] = {}
        self._kept: list[int] = []
        self._keeps = False

    def __enter__(self) -> Patience:
        if threading.current_thread() is threading.main_thread():
            heard = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
            self._before = {int(one): now for one, now in heard.items() if now is not signal.SIG_IGN}
            for number in self._before:
                signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for number in self._kept:
            signal.raise_signal(number)

    def begin(self) -> None:
        """Hold signals from here on."""
        self._keeps = True

    def _hear(self, number: int, frame: FrameType | None) -> None:
        before = self._before[number]
        if self._keeps:
            self._kept.append(number)
        elif callable(before):
            before(number, frame)
        else:
            raise KeyboardInterrupt


def _left_behind(left: Sequence[Left]) -> dict[str, str]:
    return {one.table: f"left behind: {one.why}; {one.cure}" for one in left}
