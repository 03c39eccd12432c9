"""`doctor --probe`: what it would do, doing it between two audit lines, its record.

Whatever ends a probe, its scratch tables are dropped before the end is told; signals wait for that. Next door:
`core.sources.dws.probe.session` asks, `core.sources.dws.probe.scratch` makes and drops; `core.services.doctor` only
looks.
"""

from __future__ import annotations

import json
import signal
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from types import FrameType

from core.clock import Clock, SystemClock
from core.config.model import Loaded
from core.domain.endpoint import Endpoint
from core.domain.objection import refuse
from core.domain.text import safe
from core.drivers import pg
from core.errors import ConfigError, Refused
from core.services.audit import audited
from core.services.sessions import open_source, poll_name
from core.slots.change import PROD, Done
from core.sources.dws import eligibility
from core.sources.dws.probe.questions import Answer, Reader, switches
from core.sources.dws.probe.scratch import PREFIX, Left, Scratch, leftovers, probe_statement, usable_schema
from core.sources.dws.probe.tables import GROUPS, ask_all
from core.sources.dws.session import DwsSession
from core.sources.dws.viewer import DwsViewer
from core.state import probes
from core.state.audit import Audit, intent
from core.state.faults import StateError
from core.state.folder import StateFolder
from core.state.resets import ResetFiles

Handler = Callable[[int, FrameType | None], object] | int | None

ACTION = "doctor --probe"
ASKED = sum(len(names) for _, names, _ in GROUPS)
"""How many questions a probe asks."""


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """What a probe would do; `prod` asks for typed consent, `others` are tables of other probes."""

    source: str
    place: str
    server: str
    stand_in: bool
    schema: str
    table: str
    prod: bool
    statements: tuple[str, ...]
    others: tuple[Left, ...] = ()
    points: str = ""
    """How the server makes sync points, as its gtm_option says; empty where it does not tell."""

    @property
    def scratch(self) -> Scratch:
        """Its tables, none made yet."""
        return Scratch(self.schema, self.table, self.stand_in)


@dataclass(frozen=True, slots=True)
class Report:
    """What a probe found; `left` are its own tables that could not be dropped."""

    plan: ProbePlan
    at: datetime
    seconds: float
    answers: tuple[Answer, ...]
    left: tuple[Left, ...]
    file: str = ""

    @property
    def wrong(self) -> list[Answer]:
        """The answers under which our reader is not right."""
        return [one for one in self.answers if one.finding.reader is Reader.WRONG]

    @property
    def sentence(self) -> str:
        """The report as the audit has it."""
        return f"{len(self.answers)} questions, reader right: {not self.wrong}"

    def as_json(self) -> dict[str, object]:
        """The report as it is printed and kept; times are UTC, nothing in it is secret."""
        plan = self.plan
        return {
            "format": 1,
            "source": plan.source,
            "place": plan.place,
            "server": plan.server,
            "stand_in": plan.stand_in,
            "schema": plan.schema,
            "gtm_option": plan.points,
            "at": self.at.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "seconds": round(self.seconds, 2),
            "reader_right": not self.wrong,
            "switches": switches(self.answers),
            "answers": [one.as_json() for one in self.answers],
            "left": [{"table": one.table, "why": one.why, "cure": one.cure} for one in self.left],
        }


def plan(loaded: Loaded, source: str, schema: str = "") -> ProbePlan:
    """What a probe of a source would do; only looks.

    Raises ConfigError for an unknown source, Refused where the server has no binlog functions or no place for a table.
    """
    if source not in loaded.sources:
        raise ConfigError(f"there is no source {source!r}", f"it has: {', '.join(sorted(loaded.sources)) or 'none'}")
    entry = loaded.sources[source]
    with closing(_session(entry.endpoint)) as session:
        facts = DwsViewer(session).server_facts()
        if not facts.functions:
            hint = "name a source that is a GaussDB(DWS)"
            raise Refused(f"source {entry.endpoint.place} is no DWS: it has no binlog function", hint, where="source")
        # under GTM-Lite this probe is what a start waits for
        found = list(eligibility.server_objections(facts, points_proven=True))
        refuse([*found, *eligibility.creation_objections(facts.settings)], "source")
        place = usable_schema(session, schema)
        stand_in = bool(session.composed_rows(pg.sql.SQL(probe_statement("stand_in")), None)[0][0])
        scratch = Scratch(place, f"{PREFIX}{uuid.uuid4().hex[:12]}", stand_in)
        return ProbePlan(
            source=source,
            place=entry.endpoint.place,
            server=safe(facts.version, 200),
            stand_in=stand_in,
            schema=place,
            table=scratch.name,
            prod=entry.environment.upper() == PROD,
            statements=tuple(
                scratch.statement(name, name == scratch.timed) for name in (scratch.plain, scratch.timed, scratch.parts)
            ),
            others=tuple(leftovers(session)),
            points=facts.settings.get("gtm_option", ""),
        )


def probe(
    loaded: Loaded,
    found: ProbePlan,
    reason: str,
    progress: Callable[[str], None],
    tell: Callable[[str], None],
    clock: Clock | None = None,
) -> Report:
    """Carry a plan out; `progress` is told what is asked, `tell` what stays behind where the probe ends by an error."""
    clock = clock or SystemClock()
    endpoint = loaded.sources[found.source].endpoint
    audit = Audit(folder := StateFolder.open(loaded.state_dir))
    began, left, reports, scratch = clock.monotonic(), list[Left](), list[Report](), found.scratch

    def act() -> Done:
        try:
            with _dropped(scratch, partial(_session, endpoint), left), closing(_session(endpoint)) as session:
                answers = ask_all(session, scratch, progress)
        except BaseException:
            for one in left:
                tell(f"left behind: {one.table} ({one.why}); cure: {one.cure}")
            if not left:
                progress("ended early, and nothing is left behind")
            raise
        finding = tuple(_for_jobs(loaded, found, answers))
        reports.append(Report(found, clock.utc(), clock.monotonic() - began, finding, tuple(left)))
        return Done(reports[0].sentence, _left_behind(left))

    line = intent(ACTION, f"{found.source} {found.schema}.{found.table}", reason)
    done = audited(audit, line, act, lambda: _left_behind(left), BaseException)
    if done.outcome != reports[0].sentence:
        tell(done.outcome)
    try:
        return _kept(reports[0], folder)
    except StateError as error:
        tell(f"the answers are not kept: {error}")
        return reports[0]


def _kept(report: Report, folder: StateFolder) -> Report:
    ResetFiles(folder).save(probes.KIND, report.plan.source, json.dumps(report.as_json(), indent=1))
    return replace(report, file=str(folder.path / probes.KIND / f"{report.plan.source}.json"))


def remembered(loaded: Loaded, source: str) -> Mapping[str, object] | None:
    """The record of a source's last probe; None where there is none, or it cannot be read."""
    return probes.record(loaded.state_dir, source)


def _session(endpoint: Endpoint) -> DwsSession:
    return open_source(endpoint, poll_name(f"{endpoint.name}/probe"))


@contextmanager
def _dropped(scratch: Scratch, opened: Callable[[], DwsSession], left: list[Left]) -> Iterator[None]:
    """Drop the scratch tables at the end of the block, however it ends; a signal is delivered after that."""
    with _Patience() as patience:
        try:
            yield
        finally:
            patience.begin()
            left += scratch.drop(opened)


class _Patience:
    """Signals that would end us: passed on as they come, from `begin` on kept until the end.

    Handlers, not a mask: a process with several threads hears a signal in any of them. Outside the main thread there is
    nothing to hear.
    """

    def __init__(self) -> None:
        self._before: dict[int, Handler] = {}
        self._kept: list[int] = []
        self._keeps = False

    def __enter__(self) -> _Patience:
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
        """Keep what comes from here on."""
        self._keeps = True

    def _hear(self, number: int, frame: FrameType | None) -> None:
        before = self._before[number]
        if self._keeps:
            self._kept.append(number)
        elif callable(before):
            before(number, frame)
        else:
            raise KeyboardInterrupt


def _for_jobs(loaded: Loaded, found: ProbePlan, answers: Iterable[Answer]) -> Iterator[Answer]:
    """The answers, with what configured jobs of the source are set to otherwise."""
    for one in answers:
        if one.question.name == "new_system_names" and one.finding.answer:
            new = one.finding.answer == "yes"
            jobs = (job for job in loaded.jobs.values() if job.source.name == found.source and job.binlog.binlog)
            other = sorted(job.name for job in jobs if job.binlog.new_system_value != new)
            if other:
                because = f"set new_system_value = {str(new).lower()} for {', '.join(other)}"
                one = replace(one, finding=replace(one.finding, right=False, because=because))  # noqa: PLW2901
        yield one


def _left_behind(left: Sequence[Left]) -> dict[str, str]:
    return {one.table: f"left behind: {one.why}; {one.cure}" for one in left}
