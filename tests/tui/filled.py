"""A console for tests: a real state store with test data, planted answers for slots, a test clock, no threads."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar

from textual.pilot import Pilot
from textual.screen import Screen

from slotkeeper.console.monitor.health import sights
from slotkeeper.console.monitor.poller import Collector, LocalSeen, Post, SlotPoller, SlotsSeen
from slotkeeper.console.monitor.sink_pollers import LockPoller, SinkQuarantines, Whole
from slotkeeper.console.monitor.snapshot import TableSeen
from slotkeeper.console.monitor.store_reader import Reader
from slotkeeper.console.tui.app import ConsoleApp, place_of
from slotkeeper.console.tui.services import Services
from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.config.load import load
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.audit import Actor, AuditLine, Phase
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.quarantine import QuarantineCount, QuarantineEntry, Wanted
from slotkeeper.core.domain.report import Condition, JobReport, LaneReport
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.ttl import Behind, Ttl, left_of
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.judgement.servers import RETRIES
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.services.looking import LocksSeen
from slotkeeper.core.services.slot_commands import Polled
from slotkeeper.core.slots.status import (
    KnownBy,
    PolledTable,
    PollTurn,
    ShardRetained,
    SlotOnShard,
    SlotRetained,
    SlotView,
    TableRetained,
    TableSlots,
)
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.core.sources.dws.words import WORDS
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.sqlite import Store
from tests.unit.config.samples import SECOND_JOB, VALID

NOW = datetime(2026, 11, 21, 2, 31, 7, tzinfo=timezone.utc)
TTL = Ttl(86_400, True)
SMALL, LARGE = (80, 24), (100, 30)
Kind = TypeVar("Kind", bound=Screen[Any])


class StillClock(SystemClock):
    """A clock that only the test sets."""

    def __init__(self) -> None:
        super().__init__(1)
        self.at = NOW

    def utc(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return 1_000.0 + (self.at - NOW).total_seconds()


@dataclass
class StillFeed(Collector):
    """A feed that reads only on request, in the app's own thread, and counts the requests."""

    reader: Reader
    slot_poller: SlotPoller
    post: Post | None = None
    job: str = ""
    slots: bool = False
    statuses: int = 0
    every: float = 2.0
    resting: bool = False
    seen: dict[tuple[str, str], TableSeen] = field(default_factory=dict)

    def start(self, post: Post) -> None:
        self.post = post
        self.now()

    def want(self, job: str, slots: bool) -> None:
        self.job, self.slots = job, slots

    def now(self) -> None:
        assert self.post is not None
        self.post(LocalSeen(self.reader.local(self.job)))
        for source, _ in self.slot_poller.places if self.slots else ():
            self.statuses += 1
            found = self.slot_poller.turn(source)
            self.reader.remember(sights(found))
            for one in found:
                self.seen[one.source, one.table] = one
                self.post(SlotsSeen(one))

    def set_every(self, seconds: float) -> None:
        self.every = seconds

    def rest(self, resting: bool) -> None:
        self.resting = resting

    def stop(self) -> None:
        self.reader.close()


@dataclass
class PlantedWatch:
    """A watch that returns the planted answers for all tables of the source at once, one table after the other."""

    answers: dict[tuple[str, str], Polled | Exception]
    source: str
    clock: Clock
    turns: int = 0

    def turn(self) -> PollTurn:
        tables = sorted(table for source, table in self.answers if source == self.source)
        table = tables[self.turns % len(tables)]
        self.turns += 1
        found = self.answers[self.source, table]
        if isinstance(found, SlotkeeperError):
            return PollTurn(table, None, found)
        if isinstance(found, Exception):
            raise found
        return PollTurn(table, PolledTable(found.slots, found.retained, self.clock.utc(), self.clock.utc()))

    def close(self) -> None:
        return


@dataclass
class Filled:
    """A console with its store, clock, feed and planted answers."""

    app: ConsoleApp
    store: Store
    clock: StillClock
    feed: StillFeed
    polled: dict[tuple[str, str], Polled | Exception]


def lane(shard: str, position: int, latest: int | None = 88_512_330, **more: object) -> LaneReport:
    newest = None if latest is None else str(latest)
    behind = None if latest is None else max(0, latest - position)
    made = LaneReport(
        shard, 1, "running", "idle", f"{position}/3", newest, str(position - 40), 1_200, 4.0, at=position,
        latest_at=latest, behind=behind, shown=str(position),
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def begin(
    store: Store, job: str, *lanes: LaneReport, state: str = "RUNNING", living: bool = True, **more: object
) -> None:
    """A job with a run whose process is this test process, and a report."""
    store.register_job(job, "c.toml")
    store.begin_run(job, f"run-{job}")
    if living:
        store.set_supervisor(f"run-{job}", processes.of(os.getpid()))
        store.set_driver(f"run-{job}", processes.of(os.getpid()))
    report = JobReport(
        job, f"run-{job}", state, lanes=lanes, changes=12_403_118, epoch=3, tasks_started=2, unit="commits",
        place="sync point",
    )  # fmt: skip
    assert store.put_report(replace(report, **more))  # type: ignore[arg-type]


def fill(store: Store) -> None:
    """Jobs in every kind of state, events and an error."""
    begin(store, "orders_rt", *(lane(f"dn_{n}", 88_512_330 - n) for n in range(1, 5)))
    retrying = lane("dn_3", 88_391_207, retry="retrying 2, next in 4 s")
    lanes = (lane("dn_1", 88_512_330), retrying, lane("dn_2", 88_512_300, latest=None))
    act = f"Check dn_3 at dws1:8000, and the network to it; or {RETRIES}"
    since = (NOW - timedelta(seconds=40)).timestamp()
    silent = Condition("dn", "dn_3", "does not answer", since, ("dn_3",), 3, 2, "08000", "SK-1704", act)
    begin(store, "invoice_rt", *lanes, conditions=(silent,))
    begin(store, "ledger_full", state="SNAPSHOT", chunks_done=31, chunks_total=50, changes=0)
    begin(store, "stock_rt", lane("dn_1", 88_120_441), living=False)
    reason = "the registered point of dn_1 is gone"
    act = "`slotkeeper slots reset` plans a new snapshot and prints the command that executes it"
    store.set_state("stock_rt", JobState.FAILED, reason, "SLOT LOST", act)
    store.register_job("legacy_rt", "c.toml")
    store.record_event("stock_rt", "failed", reason)
    store.record_event("invoice_rt", "trouble", "dn_3 does not answer")
    store.record_error("stock_rt", "source", "SLOT LOST", reason)
    store.folder.log("stock_rt").write_text("02:28:01 stopped\n", encoding="utf-8")
    actor = Actor("li.wei", "host1", 7, origin="10.0.0.9", uid=1000)
    line = AuditLine(
        NOW - timedelta(hours=1), actor, "slots reset", "a1", Phase.INTENT, "dws1 ods.orders slot s1", "INC-1"
    )
    audit = Audit(store.folder)
    audit.append(line)
    audit.append(replace(line, phase=Phase.OUTCOME, outcome="failed: refused", result={"dn_1": "88120441"}))


def slot(
    name: str, hours: float, unread: int | None, job: str | None = None, **more: object
) -> tuple[SlotView, SlotRetained]:
    """A slot on two DNs with registrations of the given ages in hours."""
    at = NOW - timedelta(hours=hours)
    live, durable = DwsPosition(88_512_330, None), DwsPosition(88_512_300, None)
    shards, holds = [], []
    for number in (1, 2):
        shards.append(SlotOnShard(f"dn_{number}", live, durable, at, 88_512_290, unread))
        holding = ShardRetained(
            f"dn_{number}",
            live,
            durable,
            Behind.DURABLE,
            unread,
            at,
            KnownBy.SERVER,
            left_of(at, TTL, NOW),
            True,
        )
        holds.append(replace(holding, **more))  # type: ignore[arg-type]
    return SlotView(name, job, True, tuple(shards)), SlotRetained(name, tuple(holds))


class NoQuarantines(SinkQuarantines):
    """A sink that holds no rows."""

    def counts(self, job: JobSpec) -> list[QuarantineCount]:
        return []

    def page(self, job: JobSpec, wanted: Wanted) -> list[QuarantineEntry]:
        return []

    def entry(self, loaded: Loaded, job: JobSpec, id: int, unmask: bool) -> Whole | None:
        return None


class PlantedLocks(LockPoller):
    """Sinks that return the planted answers at once."""

    def __init__(self, *answers: LocksSeen) -> None:
        super().__init__()
        self.answers = list(answers) or [LocksSeen("mart", "mart (localhost:5432)")]
        self.asked = 0
        self.rested = 0

    def ask(self, loaded: Loaded, now: float) -> list[LocksSeen]:
        self.asked += 1
        return list(self.answers)

    def rest(self) -> None:
        self.rested += 1


def polled(table: str, *slots: tuple[SlotView, SlotRetained]) -> Polled:
    views, holds = tuple(one for one, _ in slots), tuple(one for _, one in slots)
    return Polled(TableSlots("dws1", table, views), TableRetained(TTL, 3_600, NOW, holds, (), WORDS))


def planted() -> Polled:
    unknown = slot("dr_copy", 1, None, left=None, oldest=None, behind=None)
    absent = (SlotView("second", "second", False), SlotRetained("second", ()))
    return polled(
        "ods.orders", slot("orders_slot", 23.2, 12_403_118, "orders_rt"), slot("orders_dr", 14, 0), unknown, absent
    )


def console(
    folder: Path, ascii_only: bool = False, filled: bool = True, environment: str = "PROD", sink_options: str = ""
) -> Filled:
    """A console over a filled store; `folder` must be empty, `sink_options` are those of the job orders_rt."""
    config = folder / "c.toml"
    text = VALID.replace('"PROD"', f'"{environment}"').replace("[state]", f'[state]\ndir = "{folder / "state"}"')
    text = text.replace("[jobs.orders_rt.sink_options]", f"[jobs.orders_rt.sink_options]\n{sink_options}")
    config.write_text(text + SECOND_JOB, encoding="utf-8")
    loaded = load(config, {})
    clock = StillClock()
    store = Store.open(loaded.state_dir, clock=clock)
    if filled:
        fill(store)
        clock.at += timedelta(seconds=1)
    return over(loaded, store, clock, {("dws1", "ods.orders"): planted()}, ascii_only)


def over(
    loaded: Loaded,
    store: Store,
    clock: StillClock,
    answers: dict[tuple[str, str], Polled | Exception],
    ascii_only: bool = False,
) -> Filled:
    """A console over a configuration and a store; `answers` are the results of polling a table."""

    def watch(given: Loaded, source: str, its_clock: Clock) -> PlantedWatch:
        return PlantedWatch(answers, source, its_clock)

    feed = StillFeed(Reader(loaded, loaded.state_dir, clock), SlotPoller(loaded, clock, watch))
    services = Services(feed, clock, loaded, loaded.state_dir, "", who="li.wei@host1")
    services.quarantines = NoQuarantines()
    services.locks = PlantedLocks()
    app = ConsoleApp(services, place_of(loaded), ascii_only, live=False)
    return Filled(app, store, clock, feed, answers)


Driven = Callable[..., Awaitable[None]]


def drive(made: Filled, do: Callable[[Pilot[int]], Awaitable[None]], size: tuple[int, int] = SMALL) -> None:
    """Run the console without a terminal, call `do` with its pilot, and end it."""

    async def run() -> None:
        async with made.app.run_test(size=size) as pilot:
            await pilot.pause()
            await do(pilot)

    try:
        asyncio.run(run())
    finally:
        made.store.close()


async def press(pilot: Pilot[int], *keys: str) -> None:
    """Press keys and wait until the screen is up to date."""
    for key in keys:
        await pilot.press(key)
        await pilot.pause()


def lines(app: ConsoleApp) -> list[str]:
    return [strip.text for strip in app.screen._compositor.render_strips()]


def screen(app: ConsoleApp) -> str:
    return "\n".join(line.rstrip() for line in lines(app)) + "\n"


def flowing(shown: str) -> str:
    """The text of a screen on one line, without the frame borders between its rows."""
    whole = re.sub(r"\\ *[|\u2502]\n[|\u2502] +", "", shown)  # a word that continues in the next row
    return " ".join(re.sub(r"(?m)[|\u2502] *$|^[|\u2502] ", "", whole).split())


def on_screen(app: ConsoleApp, kind: type[Kind]) -> Kind:
    """Return the current screen, which has this type; call it again after every key."""
    assert isinstance(app.screen, kind), app.screen
    return app.screen


def driven(
    make: Callable[[Path], Any] = console, size: tuple[int, int] = SMALL
) -> Callable[[Driven], Callable[..., None]]:
    """A test inside a running console; its arguments are the result of `make`, the pilot, and fixtures."""

    def wrapped(test: Driven) -> Callable[..., None]:
        wanted = list(inspect.signature(test).parameters.values())
        place = [one.name for one in wanted].index("pilot")
        fixtures = {one.name: one for one in wanted[place + 1 :]}

        def run(tmp_path: Path, **given: object) -> None:
            found = make(tmp_path)
            made = found if isinstance(found, tuple) else (found,)
            more = given | ({"tmp_path": tmp_path} if "tmp_path" in fixtures else {})
            drive(made[0], lambda pilot: test(*made, pilot, **more), size)

        folder = inspect.Parameter("tmp_path", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([*({"tmp_path": folder} | fixtures).values()])  # type: ignore[attr-defined]
        run.__name__, run.__module__, run.__doc__ = test.__name__, test.__module__, test.__doc__
        return run

    return wrapped
