"""`doctor --probe`: what it would do, doing it between two audit lines, its record.

Whatever ends a probe, its scratch tables are dropped before the end is told; signals wait for that.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FrameType

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.config.model import Loaded, SourceEntry
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.inspection import Left, ProbePlan, Report
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.ports.kinds import Probe
from slotkeeper.core.services.audit import audited
from slotkeeper.core.services.sessions import poll_name
from slotkeeper.core.slots.change import PROD, Done
from slotkeeper.core.sources import registry
from slotkeeper.core.state import probes
from slotkeeper.core.state.audit import Audit, intent
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.resets import ResetFiles

Handler = Callable[[int, FrameType | None], object] | int | None

ACTION = "doctor --probe"


def plan(loaded: Loaded, source: str, schema: str = "") -> ProbePlan:
    """What a probe of a source would do; only looks.

    Raises ConfigError for an unknown source, Refused where the server has no binlog or no place for a table.
    """
    if source not in loaded.sources:
        raise ConfigError(f"there is no source {source!r}", f"it has: {', '.join(sorted(loaded.sources)) or 'none'}")
    entry = loaded.sources[source]
    return _probe(entry).plan(_login(entry), source, schema, entry.environment.upper() == PROD)


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
    entry = loaded.sources[found.source]
    audit = Audit(folder := StateFolder.open(loaded.state_dir))
    began, left, reports, asks = clock.monotonic(), list[Left](), list[Report](), _probe(entry)
    jobs = [job for job in loaded.jobs.values() if job.source.name == found.source and job.binlog.binlog]

    def act() -> Done:
        try:
            with Patience() as patience:
                answers = asks.ask(_login(entry), found, jobs, left, progress, patience.begin)
        except BaseException:
            for one in left:
                tell(f"left behind: {one.table} ({one.why}); cure: {one.cure}")
            if not left:
                progress("ended early, and nothing is left behind")
            raise
        seconds = clock.monotonic() - began
        reports.append(Report(found, clock.utc(), seconds, tuple(answers), tuple(left), asks.switches(answers)))
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


def asked(entry: SourceEntry) -> int:
    """How many questions a probe of a source asks."""
    return _probe(entry).asked


def remembered(loaded: Loaded, source: str) -> Mapping[str, object] | None:
    """The record of a source's last probe; None where there is none, or it cannot be read."""
    return probes.record(loaded.state_dir, source)


def _kept(report: Report, folder: StateFolder) -> Report:
    ResetFiles(folder).save(probes.KIND, report.plan.source, json.dumps(report.as_json(), indent=1))
    return replace(report, file=str(folder.path / probes.KIND / f"{report.plan.source}.json"))


def _probe(entry: SourceEntry) -> Probe:
    return registry.open(entry.dialect).probe


def _login(entry: SourceEntry) -> Login:
    return login(entry.endpoint, poll_name(f"{entry.name}/probe"))


class Patience:
    """Signals that would end us: passed on as they come, from `begin` on kept until the end.

    Handlers, not a mask: a process with several threads hears a signal in any of them. Outside the main thread there is
    nothing to hear.
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


def _left_behind(left: Sequence[Left]) -> dict[str, str]:
    return {one.table: f"left behind: {one.why}; {one.cure}" for one in left}
