"""The SQL views of all jobs, as their drivers report them: freshness and faults. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone

from slotkeeper.console.monitor.health import LEVELS
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.views import headlines
from slotkeeper.console.views.detail import Lines, fault_lines, in_a_sentence, labelled, listed, problem, with_keys
from slotkeeper.console.views.rows import FAULTS, TYPED, UNKNOWN, Column, Row, Verdict, age, count, rank
from slotkeeper.console.views.signs import lag_role, since, span
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Fault
from slotkeeper.core.domain.text import many, safe, see, typed
from slotkeeper.core.domain.views import ViewReport, ViewState

VIEW_COLUMNS = (
    Column("mark", "", 1),
    Column("view", "VIEW", 0, name=True),
    Column("state", "STATE", 8),
    Column("fresh", "FRESH", 8, right=True),
    Column("waiting", "WAITING", 7, right=True),
    Column("round", "ROUND", 8, right=True),
    Column("rows", "ROWS", 6, right=True),
    Column("verified", "VERIFIED", 10),
    Column("job", "JOB", 12, name=True),
    Column("method", "METHOD", 9, least=100),
    Column("why", "WHY", 30, least=140, grows=True),
)
NONE = f"No job has SQL views: [[jobs.X.views]] in the configuration adds one ({see('views')})."
UNSEEN = "No view was reported yet: `slotkeeper jobs start` builds the views of a job."
_BUSY = (ViewState.PENDING.value, ViewState.BUILDING.value, ViewState.STALE.value)


@dataclass(frozen=True, slots=True)
class SeenView:
    """A view, the job that maintains it, and its fault, if there is one."""

    view: ViewReport
    job: JobFacts
    fault: Fault | None

    @property
    def key(self) -> str:
        """A key that is unique among all jobs."""
        return f"{self.job.name}\x1f{self.view.target}"

    @property
    def lives(self) -> bool:
        """Whether the report is from a driver that is running."""
        return self.job.current and not self.job.last_known and bool(self.job.alive)

    @property
    def level(self) -> Level:
        """The severity: that of its fault. A STALE view without one is about to be built again."""
        if not self.lives:
            return Level.REST
        if self.fault is not None:
            return LEVELS[self.fault.severity]
        return Level.BUSY if self.view.state in _BUSY else Level.FINE

    def behind(self, now: datetime) -> float | None:
        """Return the seconds since it was last known to equal its SELECT; 0 if no change waits, None if unknown."""
        if self.view.fresh_at is None or not self.lives:
            return None
        level = self.view.state == ViewState.RUNNING.value and self.view.waiting == 0
        return 0.0 if level else elapsed(_moment(self.view.fresh_at), now)


def views_of(jobs: Iterable[JobFacts]) -> list[SeenView]:
    """Return all reported views, the worst first."""
    found = []
    for job in jobs:
        faults = {one.thing: one for one in reversed(job.faults) if one.rule.startswith("view_")}
        reported = job.report.views if job.report is not None else ()
        found += [SeenView(one, job, faults.get(one.target, faults.get(""))) for one in reported]
    return sorted(found, key=lambda one: (rank(one.level), one.job.name, one.view.target))


def view_rows(found: Iterable[SeenView], now: datetime) -> list[Row]:
    """Return one row per view."""
    return [_row(one, now) for one in found]


def _row(one: SeenView, now: datetime) -> Row:
    view, behind = one.view, one.behind(now)
    cells = {
        "mark": one.level.value,
        "view": safe(view.target, 130),
        "state": view.state if one.lives else f"{view.state[:7]}?",
        "fresh": "now" if behind == 0 else UNKNOWN if behind is None else span(behind),
        "waiting": count(view.waiting),
        "round": UNKNOWN if view.round_ms is None else f"{view.round_ms:,} ms",
        "rows": count(view.size),
        "verified": _verified(view, now) or "never",
        "job": safe(one.job.name, 60),
        "method": view.method or "-",
        "why": safe(one.fault.cause if one.fault is not None else view.cause, 200) or "-",
    }
    size = None if view.size is None else float(view.size)
    order = {"fresh": behind, "waiting": view.waiting, "round": view.round_ms, "rows": size}
    tints = {"fresh": lag_role(behind), "verified": "crit" if view.differs else ""}
    return Row(one.key, one.level, cells, order, tints)


def _verified(view: ViewReport, now: datetime) -> str:
    if not view.verified or view.verified_at is None:
        return ""
    word = "DIFFERS " * view.differs
    return word + since(_moment(view.verified_at), now).removesuffix(" ago")


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, timezone.utc)


def verdict(found: list[SeenView], configured: bool, now: datetime, apart: str) -> Verdict:
    """Return the worst view and its cause; without a fault, how fresh the views are."""
    if not found:
        return Verdict(Level.REST, UNSEEN if configured else NONE)
    wrong = [one for one in found if one.level in FAULTS]
    if wrong:
        one = wrong[0]
        words = f"view {safe(one.view.target, 60)}{_is(one)}: {safe(one.fault.cause, 200) if one.fault else ''}"
        return Verdict(one.level, headlines.of_place(len(wrong), words, apart), one.job.name)
    known = [age for one in found if (age := one.behind(now)) is not None]
    if not known:
        return Verdict(Level.REST, f"{many(len(found), 'view')} last reported; no job of these views is running")
    busy = sum(one.level is Level.BUSY for one in found)
    building = f"{apart}{busy} of {len(found)} being built" if busy else ""
    oldest = "" if max(known) == 0 else f"{apart}the oldest is {span(max(known))} behind"
    return Verdict(Level.FINE, f"{many(len(known), 'view')} followed{oldest}{building}")


def _is(one: SeenView) -> str:
    """Return the state that is the problem of a view; "" if its problem is not its state."""
    if one.fault is None or one.fault.rule == "view_differs":
        return ""
    late = one.view.state == ViewState.RUNNING.value
    return f" is {one.fault.value} behind" if late and one.fault.value else f" {one.view.state}"


def view_lines(one: SeenView, now: datetime, short: bool = False) -> Lines:
    """Return problem, impact and action of a view; without a fault, what it does."""
    view, name = one.view, f"{typed(one.job.name)} {typed(one.view.target)}"
    if not one.lives:
        at = age(_moment(view.at), now)
        lines: Lines = [
            (
                Level.REST,
                labelled("Status", f"was {view.state} {at} ago; its job is not running, so its rows do not change"),
            ),
            *listed("Action", [with_keys(f"`slotkeeper jobs start {typed(one.job.name)}` continues from there")]),
        ]
    elif one.fault is not None:
        fault = one.fault
        stated = f"{view.state} for {age(_moment(view.since), now)}: "
        said = f"{stated if _is(one) else ''}{safe(fault.cause, 300)}"
        actions = listed("Action", [_with_keys(safe(f"{fault.do} ({fault.code})", TYPED))])
        lines = fault_lines(problem(one.level, said), in_a_sentence(fault.effect), actions, short)
        if view.cause and not _is(one):
            lines.append((Level.WARNING, labelled("Status", f"{stated}{safe(view.cause, 200)}")))
    elif view.state in _BUSY:
        why = f": {safe(view.cause, 200)}" if view.cause else ""
        does = "waits for the copies of its tables" if view.state == ViewState.PENDING.value else "is being built"
        lines = [
            (Level.BUSY, labelled("Status", f"{view.state} for {age(_moment(view.since), now)}{why}")),
            (Level.FINE, labelled("Impact", f"Readers see its last rows while it {does}.")),
            *listed("Action", ["no action needed"]),
        ]
    else:
        rounds = "no round yet" if view.round_ms is None else f"{view.applied:,} changes applied"
        lines = [(Level.FINE, labelled("Status", f"Follows its tables by {view.method}; {rounds}."))]
    compared = None if view.verified_at is None else _moment(view.verified_at)
    checked = (
        f"compared {since(compared, now)}: {view.verified}" if view.verified else "not compared since its last build"
    )
    compare = f"`slotkeeper views verify {name}` compares it"
    level = Level.CRITICAL if view.differs else Level.FINE
    if view.verified or view.state == ViewState.RUNNING.value:
        lines.append((level, labelled("Target", f"{checked}; {compare}")))
    return lines


def _with_keys(act: str) -> str:
    """Return an action in which the key replaces the command that rebuilds this view."""
    start, found, rest = act.partition("`slotkeeper views rebuild")
    return f"{start}rebuild [b]{rest.partition('`')[2]}" if found else act
