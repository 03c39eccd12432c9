"""Runs the rounds: Slotkeeper, the peers, and the sink by itself process the same changes in one run.

In a round, Slotkeeper and COPY | COPY copy the table one after the other; changes are recorded for both; then every
participant catches up, in an order that rotates by one each round, each into a table with the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from bench import profile, sink_alone
from bench.ours import OurJob, warm
from bench.peers import pipes
from bench.peers.logical import PLAIN, STRONGEST
from bench.peers.peer import NotHere, Peer
from bench.peers.pipes import MergePipes
from bench.peers.programs import PREPARED, VALUES, Debezium
from bench.report import Ratio, Side, cheaper, faster
from bench.rig import PUBLISHER, TARGET, WAREHOUSE, Rig
from slotkeeper.core.ports.driver import TaskRunner
from slotkeeper.demo.orders import TABLE

OURS, OUR_COPY, COPY, ALONE_1, ALONE_2 = "stream", "snapshot", "copy_to_copy", "sink_alone_1", "sink_alone_2"
_LABELS = {
    OURS: "Slotkeeper, stream",
    OUR_COPY: "Slotkeeper, snapshot",
    COPY: "psql COPY | COPY",
    ALONE_1: "Slotkeeper's sink only, one session",
    ALONE_2: "Slotkeeper's sink only, two sessions",
}
NOT_RUN = 500
"""Maximum length, in characters, of the reason why a peer was not run."""
BOUND = {
    PLAIN.name: "both cores: Slotkeeper uses as much CPU as one walsender and one apply worker, in more processes",
    STRONGEST.name: "both cores: two apply workers use them fully, with less CPU in the source than reading a binlog",
    "merge_pipes": "the sink's CPU; the pipes have no fence and no recheck",
    "execute_values": "one Python process, which parses and formats every value",
    "vendor_demo": "one statement and one response per row",
    "debezium": "one JVM that converts each event to JSON, and Python that reads it",
    COPY: "the sink's COPY: the same work for both; Slotkeeper copies several chunks at once",
    "sink_alone": "the sink's index inserts and its WAL",
}
"""The limiting factor of each ratio."""


def all_peers() -> tuple[Peer, ...]:
    """Return all peers, the fast ones first."""
    return PLAIN, STRONGEST, MergePipes(), VALUES, PREPARED, Debezium()


class Rounds:
    """All rounds of one run, and their results."""

    def __init__(self, rig: Rig, runner: TaskRunner, peers: Sequence[Peer], say: Callable[[str], None]) -> None:
        self.rig = rig
        self.runner = runner
        self.peers = list(peers)
        self.not_run: dict[str, str] = {}
        self.sides = {name: Side(name, label) for name, label in _LABELS.items()}
        self.sides |= {peer.name: Side(peer.name, peer.label) for peer in peers}
        self.profile: dict[str, Any] = {}
        self._say = say

    def run(self, number: int) -> None:
        """Run one round; the last one is profiled."""
        sinks = self.rig.new_sinks(number)
        job = OurJob(self.rig, sinks[0], self.runner)
        self._snapshots(job, sinks, number)
        self.rig.reserve()
        expected = self.rig.change_warehouse(number)
        if number == self.rig.sizes.rounds - 1:
            self.profile["one_step"] = asdict(profile.anatomy(job))
        for peer in list(self.peers):
            self._reserve(peer, number)
        self.rig.change_publisher(number)
        truth = self._truth()
        turns: list[Callable[[], None]] = [lambda: self._ours(job, sinks[0], expected, truth)]
        turns += [self._turn_of(peer, sinks[1], number, truth) for peer in self.peers]
        turns += [lambda: self._alone(sinks[1], number, truth)]
        first = number % len(turns)
        for turn in turns[first:] + turns[:first]:
            turn()
        job.drop()
        self.rig.drop(*sinks)

    def _snapshots(self, job: OurJob, sinks: tuple[str, str], number: int) -> None:
        self.rig.settle(*sinks)
        warm(self.runner, self.rig)
        seconds: dict[str, float] = {}
        spent: dict[str, dict[str, float]] = {}
        for who in (OUR_COPY, COPY) if number % 2 == 0 else (COPY, OUR_COPY):
            before = self._cpu()
            seconds[who] = job.copy() if who == OUR_COPY else pipes.copy(self.rig, sinks[1])
            spent[who] = profile.spent(before, self._cpu())
        truth = self._truth()
        rows = truth[0]
        self._check(OUR_COPY, sinks[0], TARGET, truth)
        self._check(COPY, sinks[1], TABLE, truth)
        self.sides[OUR_COPY].add(rows, seconds[OUR_COPY], profile.of_ours(spent[OUR_COPY]))
        self.sides[COPY].add(rows, seconds[COPY], profile.by_party(spent[COPY]))
        self._say(f"round {number + 1}: snapshot {seconds[OUR_COPY]:.2f} s, COPY | COPY {seconds[COPY]:.2f} s")

    def _reserve(self, peer: Peer, number: int) -> None:
        try:
            peer.reserve(self.rig, number)
        except Exception as why:
            self._without(peer, why)

    def _without(self, peer: Peer, why: Exception) -> None:
        """Continue without a peer after any error: the rounds of the others remain valid."""
        self.peers.remove(peer)
        del self.sides[peer.name]
        said = str(why) if isinstance(why, NotHere) else f"{type(why).__name__}: {why}"
        self.not_run[peer.name] = said[:NOT_RUN]
        self._say(f"not run: {peer.label}: {self.not_run[peer.name]}")

    def _ours(self, job: OurJob, database: str, expected: int, truth: tuple[int, int]) -> None:
        self.rig.settle(database)
        warm(self.runner, self.rig)
        profile.forget_statements(self.rig)
        before = self._cpu()
        seconds = job.catch_up(expected)
        spent = profile.spent(before, self._cpu())
        self._check(OURS, database, TARGET, truth)
        self._note(OURS, seconds, profile.of_ours(spent))
        self.profile |= {
            "cpu_seconds": {group: round(one, 2) for group, one in spent.items()},
            "steps": profile.steps(job.recorder),
            "start_seconds": round(job.start_seconds, 3),
            "sink_statements": profile.top_statements(self.rig.sink, database),
            "source_statements": profile.top_statements(self.rig.source, WAREHOUSE),
            "retries": job.heard.retries,
        }

    def _turn_of(self, peer: Peer, base: str, number: int, truth: tuple[int, int]) -> Callable[[], None]:
        def turn() -> None:
            database = self.rig.copy_of(base, f"{peer.name}_{number}")
            self.rig.settle(database)
            try:
                before = self._cpu()
                caught = peer.catch_up(self.rig, database, number)
                spent = profile.spent(before, self._cpu())
                peer.release(self.rig, database, number)
                self._check(peer.name, database, TABLE, truth)
            except Exception as why:
                self._without(peer, why)
                with suppress(Exception):
                    peer.release(self.rig, database, number)
                return  # leftovers of the failed peer may still use the database
            self._note(peer.name, caught.seconds, profile.by_party(spent, caught.program_cpu))
            self.rig.drop(database)

        return turn

    def _alone(self, base: str, number: int, truth: tuple[int, int]) -> None:
        with sink_alone.read(self.rig, self.rig.spans()) as steps:
            for sessions, name in ((1, ALONE_1), (2, ALONE_2)):
                database = self.rig.copy_of(base, f"{name}_{number}")
                self.rig.settle(database)
                before = self._cpu()
                seconds = sink_alone.apply(self.rig, database, steps, sessions)
                spent = profile.spent(before, self._cpu())
                self._check(name, database, TABLE, truth)
                self._note(name, seconds, profile.by_party(spent, spent["driver"]))
                self.rig.drop(database)

    def _note(self, name: str, seconds: float, cpu: dict[str, float]) -> None:
        side = self.sides[name]
        side.add(self.rig.sizes.changes, seconds, cpu)
        self._say(f"{side.label}: {seconds:.2f} s")

    def _cpu(self) -> dict[str, float]:
        return profile.cpu(self.rig.source, self.rig.sink)

    def _truth(self) -> tuple[int, int]:
        """Return the fingerprint that every target must have; raises SystemExit if the two sources differ."""
        one = self.rig.fingerprint(self.rig.source, WAREHOUSE, TABLE)
        other = self.rig.fingerprint(self.rig.source, PUBLISHER, TABLE)
        if one != other:
            raise SystemExit(f"the two source tables differ: {one}, {other}")
        return one

    def _check(self, who: str, database: str, table: str, truth: tuple[int, int]) -> None:
        """Raise RuntimeError if a table differs: for Slotkeeper this ends the run, for a peer it only excludes
        the peer.
        """
        found = self.rig.fingerprint(self.rig.sink, database, table)
        if found != truth:
            raise RuntimeError(f"{who}: the target differs from its source: {found}, not {truth}")

    def ratios(self) -> list[Ratio]:
        """Return the ratios of Slotkeeper to each peer, in the order of the table."""
        sides, ours = self.sides, self.sides[OURS]
        found = [
            faster(peer.name, f"stream / {peer.label}", ours, sides[peer.name], peer.wanted, BOUND[peer.name])
            for peer in self.peers
        ]
        if PLAIN.name in sides and sides[PLAIN.name].seconds:
            plain = sides[PLAIN.name]
            servers, everyone = ("source", "sink"), ("source", "sink", "programs")
            found += [
                cheaper(
                    "cpu_of_servers",
                    "CPU per change of both servers, vs logical replication",
                    ours,
                    plain,
                    servers,
                    1.0,
                ),
                cheaper(
                    "cpu_of_sink", "CPU per change of the sink, vs logical replication", ours, plain, ("sink",), None
                ),
                cheaper(
                    "cpu_of_all", "CPU per change of all processes, vs logical replication", ours, plain, everyone, None
                ),
            ]
            for name, wanted in ((ALONE_1, None), (ALONE_2, 1.5)):
                label = f"{sides[name].label} / an apply worker"
                found.append(faster(name, label, sides[name], plain, wanted, BOUND["sink_alone"]))
        label = "snapshot / psql COPY | COPY"
        return [*found, faster("snapshot", label, sides[OUR_COPY], sides[COPY], 1.0, BOUND[COPY])]
