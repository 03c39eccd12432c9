"""Two hosts, one row, random faults: only the owner raises the epoch, an owner that reports keeps its job, and the job
of a dead owner runs elsewhere within a bounded number of rounds. Each rule switched off is found.

A tick is one interval. The parts of a round (read, swap, start) can be ticks apart: a host can freeze between them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.placement import Act, Here, HostOptions, Placement, Watch, decide

OPTIONS = HostOptions("", interval=1.0, take_over_after=10.0)
TICKS, BOUND = 200, 16
"""Ticks of one history; ticks within which a dead owner's job runs elsewhere: ten, two rounds, the start's steps."""
SEEDS = range(80)


@dataclass
class Shared:
    """The store: the row, its clock, and the epoch that fences all writes."""

    row: Placement = field(default_factory=lambda: Placement("orders", settings="s", owner="a", host="a"))
    clock: float = 0.0
    beaten_at: float = 0.0
    epoch: int = 0
    away: bool = False
    writes: list[tuple[int, str]] = field(default_factory=list)
    missed: int = 0
    """Ticks since the owner's last heartbeat."""

    def read(self) -> Placement:
        return replace(self.row, age=self.clock - self.beaten_at)

    def beat(self, owner: str) -> bool:
        if self.row.owner != owner:
            return False
        self.row, self.beaten_at, self.missed = replace(self.row, beats=self.row.beats + 1), self.clock, 0
        return True


@dataclass
class Machine:
    name: str
    rules: frozenset[str]
    watch: Watch = field(default_factory=lambda: Watch(OPTIONS.interval))
    frozen: bool = False
    cut: bool = False
    epoch: int | None = None
    """The epoch of the driver that runs here; None: none runs."""
    planned: tuple[Act, Placement] | None = None
    """The decision of the last read, which is not executed yet."""
    starting: bool = False

    def round(self, shared: Shared, now: float) -> None:
        if self.starting:
            self._begin(shared)
        elif self.planned is not None:
            self._do(shared, *self.planned)
        else:
            row = shared.read()
            seen = self.watch.see([row], now)["orders"] if "unchanged" in self.rules else 1e9
            here = Here(self.name, "s", lives=self.epoch is not None, sound=True, unchanged=seen)
            act = decide(row, here, OPTIONS)
            if act is Act.BEAT:
                shared.beat(self.name)
            else:
                self.planned = act, row

    def _do(self, shared: Shared, act: Act, row: Placement) -> None:
        self.planned = None
        if act is Act.CLAIM:
            same = (shared.row.term, shared.row.beats) == (row.term, row.beats)
            if same or "swap" not in self.rules:
                alive = shared.row.owner and shared.missed < 2
                assert not alive, f"{self.name} took the job of an owner that reported {shared.missed} ticks ago"
                shared.row = replace(shared.row, owner=self.name, host=self.name, term=shared.row.term + 1)
                shared.beat(self.name)
                self.starting = True
        elif act is Act.START:
            self.starting = True
        elif act is Act.STOP:
            self.epoch = None

    def _begin(self, shared: Shared) -> None:
        """The start's transaction: locks the owner's row and raises the epoch."""
        self.starting = False
        if shared.row.owner != self.name:
            if "guard" in self.rules:
                return
            raise AssertionError(f"{self.name} raised the epoch of a job that {shared.row.owner} owns")
        shared.epoch += 1
        self.epoch = shared.epoch

    def write(self, shared: Shared) -> None:
        if self.epoch is None:
            return
        if self.epoch == shared.epoch:
            shared.writes.append((self.epoch, self.name))
        else:
            self.epoch = None  # superseded


def history(seed: int, rules: frozenset[str]) -> Shared:
    draw, shared = random.Random(seed), Shared()
    hosts = [Machine("a", rules), Machine("b", rules)]
    for tick in range(TICKS):
        shared.clock += 1.0
        shared.missed += 1
        for fault in (_freeze, _cut, _away, _set_clock, _crash, _kill_driver):
            host = draw.choice(hosts)
            lasting = {_freeze: host.frozen, _cut: host.cut, _away: shared.away}.get(fault, False)
            if draw.random() < (0.1 if lasting else 0.02):
                fault(draw, shared, host)
        _tick(draw, shared, hosts, tick)
    # one host dies, the other is repaired
    dead, left = draw.sample(hosts, 2)
    dead.frozen, left.frozen, left.cut, shared.away, dead.epoch = True, False, False, False, None
    for tick in range(TICKS, TICKS + BOUND):
        shared.clock += 1.0
        shared.missed += 1
        _tick(draw, shared, hosts, tick)
    assert left.epoch == shared.epoch, f"the job does not run on {left.name} after {BOUND} ticks"
    # the other returns as well: it starts nothing, and stops what it still runs
    dead.frozen, dead.cut, was = False, False, shared.epoch
    for tick in range(TICKS + BOUND, TICKS + BOUND + 5):
        shared.clock += 1.0
        shared.missed += 1
        _tick(draw, shared, hosts, tick)
    assert (dead.epoch, shared.epoch) == (None, was)
    return shared


def _tick(draw: random.Random, shared: Shared, hosts: list[Machine], tick: int) -> None:
    for host in draw.sample(hosts, len(hosts)):
        if host.frozen:
            continue
        if host.cut or shared.away:
            host.watch.forget()
            continue
        host.write(shared)
        host.round(shared, float(tick))


def _freeze(draw: random.Random, shared: Shared, host: Machine) -> None:
    host.frozen = not host.frozen


def _cut(draw: random.Random, shared: Shared, host: Machine) -> None:
    host.cut = not host.cut


def _away(draw: random.Random, shared: Shared, host: Machine) -> None:
    shared.away = not shared.away


def _set_clock(draw: random.Random, shared: Shared, host: Machine) -> None:
    shared.clock += draw.choice((-3_600.0, -20.0, 20.0, 3_600.0))


def _crash(draw: random.Random, shared: Shared, host: Machine) -> None:
    """The agent restarts: what it has read and planned is lost, and its driver continues."""
    host.planned, host.starting, host.watch = None, False, Watch(OPTIONS.interval)


def _kill_driver(draw: random.Random, shared: Shared, host: Machine) -> None:
    host.epoch = None


ALL = frozenset({"guard", "swap", "unchanged"})


def test_two_hosts_never_write_at_once_and_a_dead_owners_job_moves_within_a_bounded_time() -> None:
    moves = 0
    for seed in SEEDS:
        try:
            shared = history(seed, ALL)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        epochs = [epoch for epoch, _ in shared.writes]
        assert epochs == sorted(epochs), f"seed {seed}"
        assert len(dict(shared.writes)) == len(set(shared.writes)), f"seed {seed}: one epoch of two hosts"
        moves += shared.row.term
    print(f"{moves} moves in {len(SEEDS)} histories")
    assert moves > len(SEEDS), "the faults move jobs"


@pytest.mark.parametrize("rule", sorted(ALL))
def test_each_rule_switched_off_is_found(rule: str) -> None:
    with pytest.raises(AssertionError):
        for seed in SEEDS:
            history(seed, ALL - {rule})


def test_a_job_stays_where_it_is_if_its_row_forbids_a_move() -> None:
    dead = Placement("orders", owner="b", host="b", settings="s", age=99.0)
    here = Here("a", "s", unchanged=99.0)
    assert decide(dead, here, OPTIONS) is Act.CLAIM
    for row in (
        replace(dead, desired=WantedState.STOP), replace(dead, state="FAILED"), replace(dead, settings="other"),
        replace(dead, state="AWAITS COPY"),
    ):  # fmt: skip
        assert decide(row, here, OPTIONS) is Act.LEAVE, row
    assert decide(dead, replace(here, cut_off=20.0, reached_elsewhere=True), OPTIONS) is Act.LEAVE
    mine = replace(dead, owner="a")
    assert decide(mine, replace(here, lives=True, sound=True, cut_off=20.0, reached_elsewhere=True), OPTIONS) is (
        Act.HAND_OVER
    )
    assert decide(mine, replace(here, lives=True, sound=True, cut_off=20.0), OPTIONS) is Act.BEAT
    assert decide(mine, replace(here, lives=True, sound=False), OPTIONS) is Act.LEAVE
