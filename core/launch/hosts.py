"""Jobs that several hosts share: their rows in the stores, this host's cache of them, and requests to their owners.

The owner's agent (`slotkeeper.core.launch.agent`) carries requests out. The user's command waits for its answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import replace

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.placement import (
    HostOptions,
    HostSeen,
    Known,
    Placement,
    Watch,
    is_dead,
    settings_of,
)
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import safe, typed
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError, Superseded
from slotkeeper.core.launch.launch import OWNER, Launch
from slotkeeper.core.launch.verdict import TAKEN_OVER, Ended
from slotkeeper.core.launch.view import observe
from slotkeeper.core.ports.driver import Placements
from slotkeeper.core.ports.kinds import StoreSession
from slotkeeper.core.state import placement
from slotkeeper.core.state.audit import actor
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store
from slotkeeper.core.wiring.worker import store_session

LIMIT_MS = 4_000
"""Time limit of each call of a store, in milliseconds."""
_ASK_EVERY = 0.5
_TRIES = 3
"""Number of attempts of a compare-and-swap that other hosts' swaps can make fail."""
StoreKey = tuple[Endpoint, str, str]


class Shared:
    """The shared jobs of one configuration: a session per store, opened on demand. For one thread at a time.

    Raises the errors of `own_id`.
    """

    def __init__(self, loaded: Loaded, options: HostOptions, folder: StateFolder) -> None:
        self.owner, self.options, self.jobs, self._folder = placement.own_id(folder), options, loaded.jobs, folder
        self.settings = {name: settings_of(job) for name, job in loaded.jobs.items()}
        self.stores: dict[StoreKey, list[JobSpec]] = {}
        for job in loaded.jobs.values():
            self.stores.setdefault((*job.store_at, job.progress_schema), []).append(job)
        self._sessions: dict[StoreKey, StoreSession] = {}
        found = placement.known(folder)
        self._rows = {row.job: row for row in (found.rows if found is not None else ())}

    def table(self, key: StoreKey) -> Placements:
        if key not in self._sessions:
            name = f"slotkeeper-hosts/{self.options.name}"[:63]
            self._sessions[key] = store_session(self.stores[key][0], "", LIMIT_MS, name)
        return self._sessions[key].placements(LIMIT_MS)

    def key_of(self, job: str) -> StoreKey:
        return next(key for key, jobs in self.stores.items() if any(one.name == job for one in jobs))

    def read(self, key: StoreKey) -> tuple[list[Placement], list[HostSeen]]:
        """Return the rows of the store's configured jobs, and its hosts; both are stored in the cache.

        Raises the store's error, which the cache then shows.
        """
        names = {job.name for job in self.stores[key]}
        now = SystemClock().utc().timestamp()
        try:
            rows, hosts = self.table(key).read()
        except SlotkeeperError as error:
            why = f"the store of its progress rows does not answer: {safe(error.message, 200)}"
            self.note(replace(row, away=why) for row in list(self._rows.values()) if row.job in names)
            raise
        mine = [replace(row, read_at=now) for row in rows if row.job in names]
        self.note(mine)
        return mine, hosts

    def note(self, rows: Iterable[Placement]) -> None:
        """Store rows in the cache; rows of jobs that are no longer configured are dropped."""
        self._rows |= {row.job: row for row in rows}
        self._rows = {name: row for name, row in self._rows.items() if name in self.jobs}
        stale = max(5 * self.options.interval, 15.0)
        placement.keep(self._folder, Known(self.owner, self.options.name, tuple(self._rows.values()), stale))

    def row(self, job: str) -> Placement | None:
        """Read the row of one job; None if no host has shared it yet. Raises the store's error."""
        rows, _ = self.read(self.key_of(job))
        return next((one for one in rows if one.job == job), None)

    def new_row(
        self, job: str, desired: WantedState = WantedState.RUN, state: JobState = JobState.PENDING
    ) -> Placement:
        """Return a row with this host as the job's owner."""
        settings = self.settings.get(job, "")
        return Placement(job, desired, settings=settings, owner=self.owner, host=self.options.name, state=state.value)

    def launch(self, launch: Launch | None = None) -> Launch:
        """Return the launch of a driver that runs only while this host owns its job."""
        launch = launch or Launch()
        return replace(launch, extra=(*launch.extra, OWNER, self.owner))

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()


def shared(loaded: Loaded, store: Store) -> Shared:
    assert loaded.hosts is not None
    return Shared(loaded, loaded.hosts, store.folder)


def refuse_owned(job: JobSpec, owner: str) -> None:
    """Raise Superseded if another host owns the job, before its driver starts Spark or ends any session.

    A store that does not answer proves nothing: the transaction that raises the epoch checks again.
    """
    rows: list[Placement] = []
    if not owner:
        return
    with suppress(SlotkeeperError), closing(store_session(job, "owner", LIMIT_MS)) as session:
        rows, _ = session.placements(LIMIT_MS).read()
    for row in rows:
        if row.job == job.name and row.owner != owner:
            raise Superseded(f"job {job.name} belongs to {f'host {row.host}' if row.owner else 'no host'}")


def moved_away(folder: StateFolder, loaded: Loaded, job: str) -> Ended:
    """Return the end of a run whose job another host has taken over, and read that host's name into the cache."""
    if loaded.hosts is not None:
        with suppress(SlotkeeperError), closing(Shared(loaded, loaded.hosts, folder)) as found:
            found.row(job)
    return replace(TAKEN_OVER, reason="another host has taken this job over", trouble="", safe="")


# -- commands ---------------------------------------------------------------------------------------------------------


def begun(
    loaded: Loaded, store: Store, job: str, why: str, seconds: float, act: Callable[..., JobStatus], again: bool = False
) -> JobStatus:
    """Start a job with `act` on this host if this host owns it or no running host does, otherwise through its owner.

    `again` requests a restart, which only the owner's host can do. Raises the errors of `act`, and the store's error,
    because nothing is started while the other hosts cannot be informed.
    """
    if loaded.hosts is None:
        placement.forget(store.folder)
        return act()
    with closing(shared(loaded, store)) as found:
        found.table(found.key_of(job)).create()
        row = _first(found, job)
        if row.owner != found.owner and not _claimed(found, row):
            if again:
                raise Refused(f"job {job} runs on host {row.host}", "restart it there, or stop it first")
            return _asked(found, store, row, WantedState.RUN, why, seconds)
        _write_desired(found, job, WantedState.RUN, why)
        return act(launch=found.launch())


def steered(
    loaded: Loaded | None, store: Store, job: str, wanted: WantedState, why: str, seconds: float,
    act: Callable[[], JobStatus],
) -> JobStatus:  # fmt: skip
    """Bring a job to a desired state with `act` if this host owns it, otherwise by a request to its owner.

    A job that runs here can always be stopped: the agent reports the stop before it can start again. Everything
    else raises the store's error if the store does not answer.
    """
    known = placement.known(store.folder)
    if known is None or all(row.job != job for row in known.rows):
        return act()
    if wanted is WantedState.STOP and observe(store, job).lives:
        placement.note_stop(store.folder, job)
        view = act()
        if loaded is not None and loaded.hosts is not None and job in loaded.jobs:
            with suppress(SlotkeeperError), closing(shared(loaded, store)) as found:  # the agent tries again
                _write_desired(found, job, wanted, why)
                placement.forget_stop(store.folder, job)
        return view
    if loaded is None or loaded.hosts is None or job not in loaded.jobs:
        raise Refused(f"several hosts share job {job}, which needs its configuration", "omit --state-dir")
    with closing(shared(loaded, store)) as found:
        row = found.row(job)
        if row is None or row.owner == found.owner:
            if row is not None:
                _write_desired(found, job, wanted, why)
            return act()
        return _asked(found, store, row, wanted, why, seconds)


def _first(found: Shared, job: str) -> Placement:
    """Return the row of a job; a job without one gets it, with this host as its owner."""
    row = found.row(job)
    if row is None:
        found.table(found.key_of(job)).add(found.new_row(job))
        row = found.row(job)
    if row is None:
        raise Busy(f"the shared row of job {job} has disappeared", "repeat the command")
    return row


def _claimed(found: Shared, row: Placement) -> bool:
    """Make this host the owner, unless another host gives signs of life for two intervals."""
    watch, end = Watch(found.options.interval), time.monotonic() + 3 * found.options.interval
    while row.owner:
        seen = watch.see([row], time.monotonic())[row.job]
        if is_dead(row, seen, found.options):
            break
        if (row.age < found.options.take_over_after and row.age >= 0) or time.monotonic() > end:
            return False
        time.sleep(found.options.interval / 2)
        row = _first(found, row.job)
    if not found.table(found.key_of(row.job)).claim(row, found.new_row(row.job)):
        return False
    found.row(row.job)
    return True


def _write_desired(found: Shared, job: str, wanted: WantedState, why: str) -> Placement:
    """Write a desired state to the shared row, in the name of this process's user; return the row."""
    by = actor().text
    for _ in range(_TRIES):
        row = found.row(job)
        if row is None:
            raise Refused(f"no host shares job {job}", f"`slotkeeper jobs start {typed(job)}` shares it")
        if found.table(found.key_of(job)).ask(row, found.owner, wanted, by, why):
            return replace(row, version=row.version + 1)
    raise Busy(f"other hosts change the desired state of job {job} at the same time", "repeat the command")


def _asked(found: Shared, store: Store, row: Placement, wanted: WantedState, why: str, seconds: float) -> JobStatus:
    """Request a desired state from the owner and wait for its answer; raises Refused if the owner cannot comply."""
    asked = _write_desired(found, row.job, wanted, why)
    end, now = time.monotonic() + seconds, asked
    while True:
        now = found.row(row.job) or asked
        if now.answered >= asked.version:
            break
        if time.monotonic() >= end:
            what = (
                f"host {now.host or 'without a name'} has not answered within {seconds:g} s: {wanted.value} {row.job}"
            )
            raise Busy(what, f"the request remains; `slotkeeper jobs show {typed(row.job)}` shows when it takes effect")
        time.sleep(_ASK_EVERY)
    view = observe(store, row.job)
    if now.answer not in {one.value for one in JobState}:
        raise Refused(f"host {now.host} answers: {now.answer}", f"`slotkeeper jobs show {typed(row.job)}` on that host")
    reached = JobState(now.answer)
    return replace(view, state=reached, reason=f"on host {now.host}", runs_on=now.host, reported=reached.has_process)
