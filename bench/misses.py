"""`python -m bench.misses`: the sink's cost of an optimistic step that misses, compared with one that hits and a
general one.

The steps are generated, without a source: the rounds' mix of events over `orders`, with one event that fails each check
in turn, and a hot key; the steps that hit also include mixes with more updates. Costs are CPU seconds of the session's
own process on the sink, and of that process and the worker together; other load on the host changes them little. A lane
that always misses is one sink's lane over many steps, including its pauses between attempts.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, field, replace
from itertools import count, cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

from bench import report
from bench.rig import SETTINGS, create_plain, run
from bench.sink_alone import begun, session_of
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec, SinkOptions
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.write import routing
from slotkeeper.core.sinks.postgres.write.optimistic import Taken
from slotkeeper.core.sinks.postgres.write.sink import PostgresSink
from slotkeeper.core.sinks.postgres.write.statements import TargetTable
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition
from slotkeeper.demo import postgres
from slotkeeper.demo.orders import COLUMNS, DDL_COLUMNS, KEY, TABLE, load
from slotkeeper.demo.postgres import Server

DATABASE = "misses"
MISSED, LANE = 1.3, 1.1
"""Maximum cost of a missed step relative to a general one, and of a lane that always misses to one that never tries."""
_TAIL = b'\tnew\t1.50\tnote of a row\t2026-01-01 00:00:00+00\tt\t{"n": 1, "tags": ["a", 3]}\n'


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of step: the sequence of changes that it repeats (I, U, d); its name selects the event at its end."""

    name: str
    label: str
    hot: bool = False
    mix: str = "IUdIIUI"


HITS = (
    Kind("hit", "hits"),
    Kind("hit", "hits: 80 % updates", mix="UUUUUI" * 4 + "d"),
    Kind("hit", "hits: 95 % updates", mix="U" * 19 + "I"),
    Kind("b", "hits: an update of a missing row"),
)
"""Steps that hit: the savings of each mix show whether an attempt pays. The product tries the first and the
last kind.
"""
KINDS = (
    Kind("a", "misses (a): a changed key"),
    Kind("hot", "misses (b): all updates of one key", hot=True),
    Kind("c", "misses (c): an insert of an existing row with a middle key"),
    Kind("c, last", "misses (c): the same with the highest key"),
    Kind("d", "misses (d): a delete of a row that it inserted"),
)

ALWAYS = tuple(kind for kind in KINDS if kind.name in ("hot", "d"))
"""Kinds that a lane can have permanently: a hot key, and rows that live shorter than a step."""
LONGER = 3
"""Factor by which a lane that always misses is measured over more steps than the others."""


THERE = {"c": 499, "c, last": 998}
"""Loaded rows by the rank of their customer's text among 1 to 1,000: a COPY in key order finds them when half of the
inserts, or nearly all, have been written.
"""


def customer(key: int) -> int:
    """Return the first column of a key."""
    return key % 1_000 + 1


@dataclass
class Feeder:
    """Makes steps, each from new inserts, updates of rows in turn, and deletes of rows that no step has touched."""

    changes: int
    loaded: int

    def __post_init__(self) -> None:
        self._fresh, self._old, self._gone = count(10_000_000), 0, self.loaded
        self._point = count(1)

    def step(self, kind: Kind) -> tuple[bytes, int]:
        """Return the COPY text of one step and the point at which it ends."""
        point, lines = next(self._point), []
        sequence = count()

        def event(type_: bytes, key: int, tail: bytes = _TAIL) -> None:
            lines.append(b"%d\t%d\t%b\t%d\t%d%b" % (point, next(sequence), type_, customer(key), key, tail))

        fresh = 0
        for change in islice(cycle(kind.mix), self.changes):
            if change == "I":
                fresh = next(self._fresh)
                event(b"I", fresh)
            elif change == "U":
                self._old = 1 if kind.hot else self._old % (self.loaded // 2) + 1
                event(b"B", self._old)
                event(b"U", self._old)
            else:
                event(b"d", self._gone)
                self._gone -= 1
        self._spoil(kind, event, fresh)
        return b"".join(lines), point

    def _spoil(self, kind: Kind, event: Callable[..., None], fresh: int) -> None:
        if kind.name == "a":
            event(b"B", 1)
            event(b"U", next(self._fresh))
        elif kind.name == "b":
            key = next(self._fresh)
            event(b"B", key)
            event(b"U", key)
        elif kind.name in THERE:
            event(b"I", THERE[kind.name])
        elif kind.name == "d":
            event(b"d", fresh)


class Sinks:
    """A server with a loaded target, and sinks that write to it; `close` removes everything."""

    def __init__(self, rows: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slotkeeper-bench-"))
        self.server: Server = postgres.start(self.folder / "sink", "sink", SETTINGS)
        run(self.server, "postgres", f"CREATE DATABASE {DATABASE}")
        create_plain(self.server, DATABASE, TABLE, DDL_COLUMNS, KEY)
        with closing(self.server.connect(DATABASE)) as connection:
            load(connection, rows, 1)
        run(self.server, DATABASE, "VACUUM ANALYZE")
        self.lane = LaneKey("dws1", TABLE, "misses", "dn_1")
        self.at = DwsPosition(0)
        self.epoch = begun(self._spec(True), [(self.lane, self.at)])

    def _spec(self, optimistic: bool) -> JobSpec:
        endpoint = replace(self.server.endpoint(DATABASE), name="mart")
        options = SinkOptions(auto_flush_batch_size=10_000, optimistic_step=optimistic)
        channel = ChannelSpec(TABLE, TABLE)
        return JobSpec(
            name="misses", source=endpoint, sink=endpoint, slot="misses", channels=(channel,), sink_options=options
        )

    @contextmanager
    def sink(self, optimistic: bool) -> Iterator[PostgresSink]:
        """Yield a worker's sink, with a lane that has not missed yet."""
        spec = self._spec(optimistic)
        session = session_of(spec)
        plain = TargetTable(TABLE, tuple(name for name, _ in COLUMNS), KEY)
        made = PostgresSink(session, POSITIONS, targets.seen(session, plain), spec.sink_options)
        try:
            yield made
        finally:
            made.close()

    def take(self, sink: PostgresSink, text: bytes, point: int) -> None:
        """Apply one step."""
        new = DwsPosition(point)
        rows = sink.stage(io.BytesIO(text))
        sink.top(new)
        assert sink.commit(self.lane, self.epoch, self.at, new, rows)
        self.at = new

    def close(self) -> None:
        """Stop the server and remove its files."""
        postgres.discard(self.server.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass
class Cost:
    """CPU seconds of steps, by the session on the sink and by the worker, and the outcomes of the steps."""

    sink: float = 0.0
    worker: float = 0.0
    taken: Taken = field(default_factory=Taken)

    @contextmanager
    def of(self, sink: PostgresSink) -> Iterator[None]:
        """Add the CPU spent during the block by a sink that was not used before the block."""
        session, worker = _cpu(sink), time.process_time()
        yield
        self.sink += _cpu(sink) - session
        self.worker += time.process_time() - worker
        self.taken = Taken(*(sum(pair) for pair in zip(astuple(self.taken), astuple(sink.taken), strict=True)))


def _cost(sinks: Sinks, feeder: Feeder, kind: Kind, steps: int, optimistic: bool) -> Cost:
    """Measure steps, each applied by its own lane that has not been tried before."""
    spent = Cost()
    for _ in range(steps):
        text, point = feeder.step(kind)
        with sinks.sink(optimistic) as sink:
            sink.stage(io.BytesIO(b""))  # creates the staging table
            sink.abandon()
            with spent.of(sink):
                sinks.take(sink, text, point)
    return spent


def _lane(sinks: Sinks, feeder: Feeder, kind: Kind, steps: int, optimistic: bool) -> Cost:
    """Measure more steps, all applied by one lane."""
    spent, texts = Cost(), [feeder.step(kind) for _ in range(LONGER * steps)]
    with sinks.sink(optimistic) as sink, spent.of(sink):
        for text, point in texts:
            sinks.take(sink, text, point)
    return spent


def _cpu(sink: PostgresSink) -> float:
    """Return the exact CPU seconds of the session's own process on the server (proc(5): schedstat, first number, in
    ns).

    The server's other work (vacuum, checkpoints) is left out, because it falls into the time of any step at random.
    """
    pid = sink.session.ready().info.backend_pid
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def measure(sinks: Sinks, feeder: Feeder, steps: int, rounds: int, hits: bool) -> dict[str, dict[str, Any]]:
    """Return, by kind, each round's ratio of a tried step to a general step with the same events, without and with the
    worker.
    """
    found: dict[str, dict[str, Any]] = {}
    for _ in range(rounds):
        for name, one, cost in [
            *((kind.label, kind, _cost) for kind in (*HITS, *(() if hits else KINDS))),
            *((f"a lane in which every step {kind.label}", kind, _lane) for kind in (() if hits else ALWAYS)),
        ]:
            general = cost(sinks, feeder, one, steps, False)
            tried = cost(sinks, feeder, one, steps, True)
            if (tried.taken.missed > 0) is (one in HITS):
                raise SystemExit(f"{name}: {tried.taken}")
            row = found.setdefault(name, {"ratios": [], "with_worker": [], "general_ms": [], "wanted": None})
            row["ratios"].append(round(tried.sink / general.sink, 3))
            row["with_worker"].append(round((tried.sink + tried.worker) / (general.sink + general.worker), 3))
            row["general_ms"].append(round(general.sink / general.taken.general * 1000, 1))
            row["wanted"] = None if one in HITS else MISSED if cost is _cost else LANE
    return found


def main() -> int:
    """Run the measurements, print the table, and write the result file."""
    parser = argparse.ArgumentParser(prog="python -m bench.misses", description=__doc__)
    parser.add_argument(
        "--changes", type=int, default=17_500, help="changes per step; by default 4/7 inserts, 2/7 updates, 1/7 deletes"
    )
    parser.add_argument("--steps", type=int, default=4, help="steps of each kind per round")
    parser.add_argument("--repeat", type=int, default=3, help="rounds")
    parser.add_argument("--hits", action="store_true", help="measure only steps that hit")
    options = parser.parse_args()
    kinds = len(HITS) if options.hits else len(HITS) + len(KINDS) + LONGER * len(ALWAYS)
    in_all = options.repeat * options.steps * 2 * kinds * (options.changes // 7 + 1)
    routing.SHARE = 1_000_000  # every kind is tried, to show why the product skips some of them
    sinks = Sinks(2 * in_all)
    before = report.machine()
    try:
        found = measure(sinks, Feeder(options.changes, 2 * in_all), options.steps, options.repeat, options.hits)
    finally:
        sinks.close()
    for name, row in found.items():
        spread = f"{min(row['ratios']):.2f} to {max(row['ratios']):.2f}"
        wanted = "" if row["wanted"] is None else f"<= {row['wanted']}"
        general = median(row["general_ms"])
        worker = f"with the worker {median(row['with_worker']):.2f}"
        print(f"{name:<64}{median(row['ratios']):>6.2f} x general ({general:.0f} ms)   {spread:<14}{worker}   {wanted}")
    values: dict[str, Any] = {"options": vars(options), "machine": before, "kinds": found}
    print(f"written: {report.write(json.loads(json.dumps(values)), 'misses-')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
