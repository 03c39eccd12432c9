"""The agent of one host: in every round it reports the jobs that it owns, and takes over the jobs of dead hosts.

`slotkeeper.core.domain.placement.decide` decides; this module reads, reports, and starts and stops jobs in threads, so
that a slow start delays no heartbeat. An agent that is killed at any point repeats the same steps after its restart.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from threading import Event

from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.endpoint import Endpoint, place_of
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.placement import Act, Here, HostSeen, Order, Placement, Watch, decide, ends
from slotkeeper.core.domain.report import JobStatus, why_of
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError, Refused, SlotkeeperError
from slotkeeper.core.judgement.facts import LIMITS
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.launch.hosts import Shared, StoreKey
from slotkeeper.core.launch.launch import FOREGROUND, Launch
from slotkeeper.core.launch.orders import carry_out, refused
from slotkeeper.core.launch.view import view_of
from slotkeeper.core.ports.driver import Placements
from slotkeeper.core.services.audit import audited
from slotkeeper.core.slots.change import Done
from slotkeeper.core.state import placement
from slotkeeper.core.state.audit import Audit, intent
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store

ACTS_AT_ONCE, ORDERS_AT_ONCE = 4, 4
STARTING_SECONDS = 60.0
"""Seconds for which a start counts as a sign of life."""
_STOP_SECONDS, _REACH_SECONDS = 30.0, 2.0
_FAILED = "failed"
_NOT_HERE = "the job is not configured in this store on its host"
AGENT_LOCK = "agent"
Say = Callable[[str], None]


class Agent:
    """The rounds of one host over all stores of its configuration; `launch` starts the drivers.

    Raises ConfigError without `[hosts]`, and Refused if another agent serves the state folder.
    """

    def __init__(self, loaded: Loaded, folder: StateFolder, say: Say, launch: Launch | None = None) -> None:
        if loaded.hosts is None:
            raise ConfigError(f"{loaded.path} has no [hosts]", "an agent serves jobs that several hosts share")
        lock = folder.try_lock("hosts", AGENT_LOCK)
        if lock is None:
            raise Refused(
                "another agent serves this state folder", f"{folder.path}: only one agent can serve a state folder"
            )
        self._lock, self._loaded, self._folder, self._say = lock, loaded, folder, say
        self._options = loaded.hosts
        self._shared = Shared(loaded, loaded.hosts, folder)
        self._launch = self._shared.launch(launch)
        self._watches = {key: Watch(self._options.interval) for key in self._shared.stores}
        self._created: set[StoreKey] = set()
        self._acts: dict[str, tuple[Act, Placement, Future[str], float]] = {}
        """The act that runs for a job, the row that it was decided on, and when it began (monotonic)."""
        self._orders: dict[tuple[StoreKey, str], tuple[str, Future[tuple[int, str]]]] = {}
        """The commands for other hosts that this host carries out, by order: their jobs and answers."""
        self._leaves = Event()
        self._strange: set[str] = set()
        """Jobs whose rows have a value that this version does not know, once reported."""
        self._blocked: dict[str, float] = {}
        """Until when (monotonic) this host does not start a job again whose start has failed here."""
        self._missing: set[str] = set()
        """Jobs that this host should run and that were not running in the last round."""
        self._reached_at: dict[str, float] = {}
        self._cut_off: dict[str, float] = {}
        self._said: dict[StoreKey, str] = {}
        self._away: list[StoreKey] = []
        """The stores that did not answer in their last round; the first is tried next."""
        self._pool = ThreadPoolExecutor(ACTS_AT_ONCE, "slotkeeper-agent")
        self._servants = ThreadPoolExecutor(ORDERS_AT_ONCE, "slotkeeper-order")
        self._prober = ThreadPoolExecutor(1, "slotkeeper-reach")
        self._reaching: Future[None] | None = None

    def round(self) -> None:
        """Do one round; an error from a store is reported once and does not stop the agent."""
        if self._reaching is None or self._reaching.done():
            self._reaching = self._prober.submit(self._reach)
        with Store.open(self._folder.path, migrates=True) as store:
            # a wait for a store that does not answer delays the heartbeats of the others at most once in a round
            answering = [key for key in self._shared.stores if key not in self._away]
            for key in [*answering, *self._away[:1]]:
                if key in self._away:
                    self._away.remove(key)
                try:
                    self._of_store(store, key)
                    said = ""
                except Exception as error:  # a row that another login has written must not stop the other stores
                    self._watches[key].forget()
                    self._away.append(key)
                    said = f"cannot share jobs: {_named(error)}"
                if said and said != self._said.get(key):
                    self._say(said)
                self._said[key] = said

    def close(self) -> None:
        """End the sessions; running jobs continue, and count as reported until the take-over's time has passed.

        The commands of orders continue, too; the next agent answers them.
        """
        self._leaves.set()
        for pool in (self._prober, self._pool, self._servants):
            pool.shutdown(cancel_futures=True)
        self._shared.close()
        self._lock.release()

    # -- one round

    def _of_store(self, store: Store, key: StoreKey) -> None:
        table = self._shared.table(key)
        if key not in self._created:
            table.create()
            self._created.add(key)
        rows, hosts = self._shared.read(key)
        views = self._views(store)
        rows += self._added(store, key, rows, views)
        for row in (one for one in rows if one.away and one.job not in self._strange):
            self._strange.add(row.job)
            self._say(f"job {row.job} is not shared: {row.away} (start, pause or stop it)")
        rows = [one for one in rows if not one.away]
        unchanged = self._watches[key].see(rows, time.monotonic())
        stops = placement.stops(self._folder)
        beats: list[dict[str, str]] = []
        for row in rows:
            settled, view = self._settled(key, row), views.get(row.job) or _unknown(row.job)
            here = self._here(store, view, row, unchanged[row.job], hosts, row.job in stops)
            act = Act.BEAT if settled else self._steadied(row.job, decide(row, here, self._options))
            if row.job not in self._acts:
                self._begin(key, row, act)
            if row.owner == self._shared.owner and (
                act is Act.BEAT or self._counts(row.job) or row.job in self._missing
            ):
                beats.append(self._beat(row, view, row.job in self._acts))
        reached = {name: name not in self._cut_off for name in self._loaded.sources}
        self._serve(key, table, table.report(self._shared.owner, self._options.name, reached, beats))

    def _added(
        self, store: Store, key: StoreKey, rows: list[Placement], views: Mapping[str, JobStatus]
    ) -> list[Placement]:
        """Share the jobs that this host ran before they were shared; add the others to its store, for its screens."""
        known = {row.job for row in rows}
        for name in known - views.keys():
            store.register_job(name, str(self._loaded.path.absolute()))
        found = []
        for name in (job.name for job in self._shared.stores[key] if job.name not in known):
            view = views.get(name) or _unknown(name)
            run = store.run(view.run) if view.run else None
            if view.run and FOREGROUND not in Launch.parse(run.launch if run else "").extra:
                open_ = view.state.is_open
                desired = view.wanted if open_ else WantedState.STOP
                row = self._shared.new_row(name, desired, view.state)
                if self._shared.table(key).add(row):
                    found.append(row)
        return found

    def _views(self, store: Store) -> dict[str, JobStatus]:
        """Return all jobs as this host's processes and store show them, whichever host owns them."""
        return {row.name: view_of(row, store.run(row.run) if row.run else None) for row in store.jobs()}

    def _here(
        self, store: Store, view: JobStatus, row: Placement, unchanged: float, hosts: list[HostSeen], stopped: bool
    ) -> Here:
        now_here = store.now()
        silent = (
            view.reported_at is not None
            and view.reported
            and view.driver_alive
            and (now_here - view.reported_at.timestamp() > LIMITS.silent_critical)
        )
        source = self._loaded.jobs[row.job].source.name
        now = time.monotonic()
        fresh = [one for one in hosts if one.owner != self._shared.owner and one.age < self._options.take_over_after]
        return Here(
            self._shared.owner,
            self._shared.settings.get(row.job, ""),
            lives=view.lives or view.starting,
            sound=not (view.driver_stopped or view.supervisor_stopped or silent),
            ended=ends(view.state.value),
            wanted=view.wanted,
            stopped_untold=stopped,
            unchanged=unchanged,
            cut_off=now - self._cut_off.get(source, now),
            reached_elsewhere=any(source in one.sources for one in fresh),
        )

    def _steadied(self, job: str, act: Act) -> Act:
        """Return LEAVE for a start in the first round without a process: a command may be restarting the job.

        A start that failed here is not repeated for a while, and not reported: another host then takes the job over.
        """
        if act in (Act.START, Act.CLAIM) and time.monotonic() < self._blocked.get(job, 0.0):
            self._missing.discard(job)
            return Act.LEAVE
        if act is not Act.START:
            self._missing.discard(job)
        elif job not in self._missing:
            self._missing.add(job)
            return Act.LEAVE
        return act

    def _counts(self, job: str) -> bool:
        """Whether an act of this job is a sign of life."""
        return job in self._acts and time.monotonic() - self._acts[job][3] < STARTING_SECONDS

    def _beat(self, row: Placement, view: JobStatus, busy: bool) -> dict[str, str]:
        state = JobState.PENDING if busy and not view.state.has_process else view.state
        text = "" if busy else safe(why_of(view), 300)
        settings = self._shared.settings.get(row.job, "")
        return {"job": row.job, "state": state.value, "text": text, "settings": settings}

    # -- acts

    def _begin(self, key: StoreKey, row: Placement, act: Act) -> None:
        """Start an act in a thread; a claim is first written to the store, in this thread."""
        table = self._shared.table(key)
        if act is Act.CLAIM:
            if not table.claim(row, self._shared.new_row(row.job)):
                return
            whose = f"host {row.host}, which reported last {row.age:.0f} s ago" if row.owner else "no host"
            self._say(f"job {row.job}: taking it over from {whose}")
            self._shared.read(key)
            self._run(act, row, partial(self._take_over, row, whose))
        elif act is Act.START:
            self._run(act, row, partial(self._start, row, False))
        elif act in (Act.STOP, Act.HAND_OVER):
            placement.forget_stop(self._folder, row.job)
            self._run(act, row, partial(self._stop, row.job))
        elif act is Act.OBEY:
            self._run(act, row, partial(self._obey, row))
        elif act is Act.TELL and table.ask(row, self._shared.owner, WantedState.STOP, "", "stopped on its host"):
            placement.forget_stop(self._folder, row.job)

    def _run(self, act: Act, row: Placement, call: Callable[[], str]) -> None:
        def run() -> str:
            try:
                return call()
            except SlotkeeperError as error:
                self._say(f"job {row.job}: cannot {act.value}: {error}")
                return f"{_FAILED}: {safe(error, 300)}"

        self._acts[row.job] = act, row, self._pool.submit(run), time.monotonic()

    def _settled(self, key: StoreKey, row: Placement) -> bool:
        """Record the result of an act that has ended; the row shows it from the next round on."""
        if row.job not in self._acts or not self._acts[row.job][2].done():
            return False
        act, acted, future, _ = self._acts.pop(row.job)
        answer, table = future.result(), self._shared.table(key)
        if act in (Act.START, Act.CLAIM) and answer.startswith(_FAILED):
            self._blocked[row.job] = time.monotonic() + STARTING_SECONDS
        if act is Act.OBEY and acted.asks and row.owner == self._shared.owner:
            table.answer(acted, answer)
        elif act is Act.HAND_OVER and not answer.startswith(_FAILED):
            table.hand_over(row, f"host {self._options.name} cannot reach the source")
        return True

    def _take_over(self, row: Placement, whose: str) -> str:
        line = intent("jobs take over", f"job {row.job}", f"taken over from {whose}", {"state": row.state})
        done = audited(Audit(self._folder), line, lambda: Done(self._start(row, True), {}))
        return done.outcome

    def _start(self, row: Placement, take_over: bool) -> str:
        config = str(self._loaded.path.absolute())
        with Store.open(self._folder.path) as store:
            view = control.start(store, row.job, config, self._launch, take_over=take_over, patience=Patience(0))
            if row.desired is WantedState.PAUSE:
                store.set_wanted(row.job, WantedState.PAUSE)
        return view.state.value

    def _stop(self, job: str) -> str:
        with Store.open(self._folder.path) as store:
            return control.stop(store, job, Patience(_STOP_SECONDS)).state.value

    def _obey(self, row: Placement) -> str:
        """Bring the job to its desired state; a request is audited with the user who made it."""
        if not row.asks:
            return self._brought(row)
        why = f"{row.asked_why} (requested by {row.asked_by})".strip()
        line = intent(f"jobs {_VERBS[row.desired]}", f"job {row.job}", why, {"state": row.state})
        return audited(Audit(self._folder), line, lambda: Done(self._brought(row), {})).outcome

    def _brought(self, row: Placement) -> str:
        with Store.open(self._folder.path) as store:
            view, patience = self._views(store).get(row.job) or _unknown(row.job), Patience(_STOP_SECONDS)
            if row.desired is WantedState.STOP:
                return control.stop(store, row.job, patience).state.value
            if not (view.lives or view.starting):
                return self._start(row, False)
            if row.desired is WantedState.PAUSE:
                return control.pause(store, row.job, patience).state.value
            return control.resume(store, row.job, patience).state.value

    def _serve(self, key: StoreKey, table: Placements, orders: list[Order]) -> None:
        """Carry out other hosts' orders, one at a time for each job, and answer them."""
        jobs, ids = {job.name for job in self._shared.stores[key]}, {one.id for one in orders}
        self._orders = {
            at: found for at, found in self._orders.items() if at[0] != key or at[1] in ids or not found[1].done()
        }
        for order in sorted(orders, key=lambda one: not one.taken_by):
            at = key, order.id
            if at not in self._orders:
                free = len(self._orders) < ORDERS_AT_ONCE and all(job != order.job for job, _ in self._orders.values())
                if free and (order.taken_by or table.take(order, self._shared.owner)):
                    act = partial(carry_out, self._folder, self._loaded, order, bool(order.taken_by))
                    call = partial(act, self._leaves.is_set) if order.job in jobs else partial(refused, _NOT_HERE)
                    self._orders[at] = order.job, self._servants.submit(call)
            elif self._orders[at][1].done():
                try:
                    code, said = self._orders[at][1].result()
                except Exception as error:  # any login that can write to the store can write such a row
                    code, said = refused(_named(error))
                table.close_order(order, code, said)
                del self._orders[at]

    # -- sources

    def _reach(self) -> None:
        """Open a connection to each source, in turn: a source that does not answer is checked once per interval."""
        now = time.monotonic()
        for name, entry in self._loaded.sources.items():
            if now - self._reached_at.get(name, float("-inf")) < 2 * self._options.interval:
                continue
            self._reached_at[name] = now
            if reaches(entry.endpoint, min(_REACH_SECONDS, self._options.interval)):
                self._cut_off.pop(name, None)
            else:
                self._cut_off.setdefault(name, now)


_VERBS: Mapping[WantedState, str] = {
    WantedState.RUN: "start", WantedState.PAUSE: "pause", WantedState.STOP: "stop",
}  # fmt: skip


def _named(error: Exception) -> str:
    return safe(error, 300) if isinstance(error, SlotkeeperError | OSError) else f"unexpected {type(error).__name__}"


def _unknown(job: str) -> JobStatus:
    return JobStatus(job, JobState.STOPPED, WantedState.STOP)


def reaches(endpoint: Endpoint, seconds: float) -> bool:
    """Return whether one of the source's servers accepts a connection; sends no login."""
    places = [place_of(one) for one in endpoint.hosts] or [(endpoint.host, endpoint.port)]
    for host, port in ((host, port or endpoint.port) for host, port in places):
        with suppress(OSError):
            if host.startswith("/"):
                with socket.socket(socket.AF_UNIX) as line:
                    line.settimeout(seconds)
                    line.connect(f"{host}/.s.PGSQL.{port}")
            else:
                socket.create_connection((host, port), seconds).close()
            return True
    return False


def notify(text: str) -> None:
    """Send a state to systemd, if it started this process with Type=notify (sd_notify(3), "Implementation notes")."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place:
        with suppress(OSError), closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)) as line:
            line.connect("\0" + place[1:] if place.startswith("@") else place)
            line.sendall(text.encode())
