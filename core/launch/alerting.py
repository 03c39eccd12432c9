"""Evaluate alerts every few seconds: in each supervisor for its job, and in `jobs ensure` for all jobs.

An evaluation never raises an error or waits: it reports a failure once in the job's log, and retries. All processes
that evaluate share their records in the state folder, so no alert is sent twice.

If the process that evaluates or sends alerts is stopped, or hangs while it holds the lock, all other processes wait for
it. The alert about this condition is therefore recorded in a separate file with its own lock, and sent by a separate
sender.

The metrics are written to a file for node_exporter's textfile collector or another reader; the file is always complete.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from slotkeeper.core.alerts.metrics import exposition
from slotkeeper.core.alerts.rules import AlertState, Evaluation, Kind, Notification, Waiting, evaluate, may_try, queued
from slotkeeper.core.config.load import load_alerts
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.fault import Ack, Fault
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Busy, SlotkeeperError
from slotkeeper.core.judgement.facts import AlertOptions, Facts, Machine
from slotkeeper.core.judgement.judge import ALERTS_STUCK, judge
from slotkeeper.core.launch import alert_sender, identity
from slotkeeper.core.launch.seen import gather
from slotkeeper.core.state import files
from slotkeeper.core.state.alerts import BESIDE, AckFile, Acks, AlertFile, left_behind, without
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store

Say = Callable[[str, str], None]
"""Receives the key and text of an event for a job's log."""
_AS = {True: "[alerts] still uses its last valid settings", False: "no alerts are sent because [alerts] cannot be read"}
_LAST_SECONDS = 1.0
"""Seconds that an evaluation waits for the lock if no later evaluation can replace it."""
_UNREADABLE = "store_unreadable"
_BY_ENSURE = ("job_refused", "query_dead")
"""Rules that need the configuration, or the stores of queries: only `jobs ensure` evaluates them."""


@dataclass(frozen=True, slots=True)
class Options:
    """The current options, reread when the file changes; while the file is invalid, the last valid options apply.

    `known` is whether the options have been read.
    """

    file: Path | None
    options: AlertOptions
    known: bool = False
    stamp: tuple[int, int] = (0, 0)
    fault: str = ""

    def renewed(self, env: Mapping[str, str], kept: Callable[[], str | None]) -> Options:
        """Return the options from a changed file, or else these options; use `kept` if no valid file was ever read."""
        if self.file is None:
            return self
        try:
            found = self.file.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp == self.stamp:
                return self
            return Options(self.file, load_alerts(self.file, env), True, stamp)
        except (SlotkeeperError, OSError) as error:
            said = replace(self, stamp=(0, 0), fault=safe(error, 300))
            text = None if self.known else kept()
            with suppress(SlotkeeperError):
                return said if text is None else replace(said, options=load_alerts(self.file, env, text), known=True)
            return said


class Alerting:
    """Evaluates alerts in one process."""

    def __init__(
        self,
        store: Store,
        say: Say,
        job: str = "",
        config: str = "",
        loaded: Loaded | None = None,
        run: str = "",
        dead_queries: Mapping[str, str] | None = None,
        silent: Collection[str] = (),
    ) -> None:
        """`job` is the supervised job of `run`, or "" for all jobs; `config` is the file and `loaded` its content.

        `dead_queries`: as in Facts; `silent`: the jobs whose stores did not answer, so that their queries are unknown.
        """
        self._dead_queries, self._silent = dead_queries or {}, silent
        self._run, self._store, self._say, self._job = run, store, say, job
        self._loaded = loaded
        known = loaded.alerts if loaded else AlertOptions()
        self._options = Options(Path(config) if config else None, known, bool(loaded))
        me = identity.of(os.getpid(), run)
        self._file = AlertFile(store.folder, by=me)
        self._stuck = StuckAlerts(store.folder, me, lambda text: say("", text))
        self._due = 0.0
        self._unsaved: AlertState | None = None
        self._over: dict[str, datetime] = {}
        """End times of faults whose acknowledgements could not be ended yet."""
        self._said: dict[str, str] = {}

    def tick(self, every: float, now: bool = False) -> None:
        """Evaluate if due, or immediately if `now` is true; raise no error."""
        if not now and time.monotonic() < self._due:
            return
        self._due = time.monotonic() + every
        try:
            self._evaluate(_LAST_SECONDS if now else 0.0)
            self._once("alerts not evaluated", "")
        except Exception as error:  # a supervisor continues to watch its job after any error
            text = f"alerts could not be evaluated: {safe(error, 300) or type(error).__name__}"
            self._once("alerts not evaluated", text)

    def _evaluate(self, patience: float) -> None:
        alert_sender.reap()
        self._options = self._options.renewed(os.environ, self._kept)
        options = self._options.options
        self._once("alerts misconfigured", self._options.fault and f"{_AS[self._options.known]}: {self._options.fault}")
        if not self._options.known:
            return  # an alert that was not sent must not count as sent
        now = datetime.fromtimestamp(self._store.now(), timezone.utc)
        facts, readable = self._facts(options, now)
        faults = judge(facts)
        lock = self._file.try_lock(patience)
        if lock is not None:  # otherwise another process is evaluating, or recording the result of a notification
            try:
                judged = self._judged(facts) if readable else lambda one: one.rule == _UNREADABLE
                self._tell(faults, judged, options, now)
            finally:
                lock.release()
        if options.metrics_file is not None and readable:
            self._once("metrics file", write_metrics(options.metrics_file, facts, faults))
        if readable:
            self._stuck.tell(faults, self._acks(), options, now)

    def _kept(self) -> str | None:
        return files.kept_config(self._store.folder, self._run) if self._run else None

    def _facts(self, options: AlertOptions, now: datetime) -> tuple[Facts, bool]:
        """Return the facts, and whether the state store could be read."""
        try:
            found = gather(self._store, self._loaded, now, limits=options.limits)
            return replace(found, dead_queries=self._dead_queries), True
        except Busy:
            raise
        except (SlotkeeperError, OSError) as error:
            machine = Machine(str(self._store.folder.path), str(error))
            return Facts(now, machine=machine, limits=options.limits), False

    def _judged(self, facts: Facts) -> Callable[[Fault], bool]:
        """Return a filter for the faults to report: all, or those of this job, this host, slots and unsupervised jobs.

        It excludes the faults that `StuckAlerts` reports.
        """
        if not self._job:
            return lambda one: not is_stuck(one) and not (one.rule == "query_dead" and one.job in self._silent)
        views = [one.view for one in facts.jobs]
        others = {one.name for one in views if one.supervisor_alive and not one.supervisor_stopped} - {self._job}
        return lambda one: (
            one.rule not in _BY_ENSURE and not is_stuck(one) and (one.rule.startswith("slot_") or one.job not in others)
        )

    def _tell(
        self, faults: tuple[Fault, ...], judged: Callable[[Fault], bool], options: AlertOptions, now: datetime
    ) -> None:
        before = self._unsaved or self._file.read()
        acks = self._acks()
        found = evaluate(faults, before.firing, acks, options.limits.gap, now, judged)
        self._end_acks(acks, found, now)  # done first: if this process is killed, the next evaluation repeats it
        outbox = queued(before.outbox, found.notifications) if options.command else ()
        failure = before.failure if options.command else None
        state = AlertState(found.firing, outbox, failure)
        for one in found.notifications:
            self._say("", _line(one, "has ended" if one.kind is Kind.CLEARED else one.fault.said(one.at)))
        kept = (self._unsaved is None and _marks(before) == _marks(state)) or self._saved(state)
        self._once("alert command failed", f"the [alerts] command fails: {failure.cause}" if failure else "", True)
        if outbox and not kept:
            alert_sender.spawn(self._store.folder, options, state.outbox)  # the outbox could not be stored
            self._unsaved = replace(state, outbox=())
        elif outbox and may_try(failure, now) and not self._file.is_sending():
            alert_sender.spawn(self._store.folder, options)

    def _saved(self, state: AlertState) -> bool:
        """Store the records, or keep them in this process's memory if the disk accepts no data."""
        try:
            self._file.save(state)
        except StateError as error:
            self._unsaved = state
            self._once("alerts not remembered", f"sent alerts could not be recorded: {error.message}")
            return False
        self._unsaved = None
        self._once("alerts not remembered", "")
        return True

    def _acks(self) -> Acks:
        """Return the acknowledgements of persisting faults; none if unreadable, so that no alert is suppressed."""
        try:
            found = AckFile(self._store.folder).read()
        except StateError as error:
            self._once("acknowledgements", f"acknowledgements have no effect: {error.message}")
            return {}
        self._once("acknowledgements", "")
        return without(found, left_behind(found, self._over))

    def _end_acks(self, acks: Mapping[str, Ack], found: Evaluation, now: datetime) -> None:
        self._over |= dict.fromkeys(left_behind(acks, dict.fromkeys(found.ended, now)), now)
        if not self._over:
            return
        try:
            file = AckFile(self._store.folder)
            file.end(left_behind(file.read(), self._over), now)
        except (StateError, Busy) as error:
            self._once(
                "acknowledgement", f"the acknowledgement of an ended alert could not be removed: {error.message}"
            )
            return
        self._over.clear()
        self._once("acknowledgement", "")

    def _once(self, what: str, text: str, is_event: bool = False) -> None:
        """Report a condition when it starts; `text` is "" while the condition does not hold."""
        before, self._said[what] = self._said.get(what, ""), text
        if text and not before:
            self._say(what if is_event else "", text)


def _line(one: Notification, words: str) -> str:
    return f"alert {one.kind.value}: {one.fault.rule} {one.fault.id} {words}"


def _marks(state: AlertState) -> tuple[object, ...]:
    """Return the part of the records whose changes must be stored, which excludes the growing duration of faults."""
    firing = {
        key: (one.began, one.sent_at, one.sent_as, one.over, one.fault.severity) for key, one in state.firing.items()
    }
    return firing, state.outbox, state.failure


def is_stuck(fault: Fault) -> bool:
    return fault.rule == ALERTS_STUCK


class StuckAlerts:
    """The reports of stuck alerts by one process; `say` receives lines for the log."""

    def __init__(self, folder: StateFolder, by: Identity, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._file = AlertFile(folder, BESIDE, by)

    def tell(self, faults: Iterable[Fault], acks: Mapping[str, Ack], options: AlertOptions, now: datetime) -> None:
        """Report that alerts are stuck, repeat the report after the gap, and report once that they are sent again.

        Raises errors of `slotkeeper.core.state`, and OSError.
        """
        found = tuple(one for one in faults if is_stuck(one))
        if not found and not self._file.read().firing:
            return
        lock = self._file.try_lock()
        if lock is None:
            return
        try:
            before = self._file.read().firing
            after = evaluate(found, before, acks, options.limits.gap, now, is_stuck)
            if after.firing != before:
                self._file.save(AlertState(after.firing))
        finally:
            lock.release()
        for one in after.notifications:
            self._say(_line(one, one.fault.said(one.at)))
        if after.notifications and options.command:
            alert_sender.spawn(self._folder, options, [Waiting(one) for one in after.notifications])


FRESH_SECONDS = 3.0
"""Seconds for which a metrics file written by another supervisor is not rewritten."""
_METRICS_BEGIN = b"# TYPE slotkeeper_"
_METRICS_MODE = 0o644
"""Readable by other users, such as a collector; the file contains no secret."""


def write_metrics(path: Path, facts: Facts, faults: tuple[Fault, ...]) -> str:
    """Write the metrics under another name and rename the file; return the error message if that failed, else ""."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        there = None
        with suppress(FileNotFoundError):
            there = path.lstat()
        if there is not None and not _is_metrics(path, there):
            return f"metrics_file {safe(path, 200)} is not replaced: the existing file is not a metrics file"
        if there is not None and 0 <= time.time() - there.st_mtime < FRESH_SECONDS:
            return ""
        text = exposition(facts, faults)
        with suppress(FileNotFoundError):
            draft.unlink()
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _METRICS_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            os.fchmod(descriptor, _METRICS_MODE)
            stream.write(text)
        draft.replace(path)
    except (OSError, ValueError) as error:  # ValueError: the path is invalid
        with suppress(OSError, ValueError):
            draft.unlink()
        reason = error.strerror if isinstance(error, OSError) else None
        return f"metrics_file {safe(path, 200)} cannot be written: {reason or error}"
    return ""


def _is_metrics(path: Path, there: os.stat_result) -> bool:
    """Return whether metrics can replace the file: a regular file, not a link, that is empty or contains metrics."""
    if not stat.S_ISREG(there.st_mode):
        return False
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        begin = stream.read(len(_METRICS_BEGIN))
    return not begin or begin == _METRICS_BEGIN
