"""`python -m bench.views`: what SQL views cost (ADR 94), in a few minutes.

- *Capture*: CPU of the sink's session for steps of 7,000 changes, with a view that captures group keys, sums or row
  images, as a ratio to the same step without a view. Kinds of step: inserts, updates, and several changes per key.
- *Rounds*: milliseconds of a round of 200 changes, and CPU milliseconds of its session, by both methods, over groups
  of few and of many rows.
- *Freshness*: seconds from the commit of a change to the commit of the round that applied it, at 2,000 changes per
  second in transactions of 20, with `min_interval` between two rounds. Without Spark's task and without a source.
- *Deltas*: the size of the delta tables after `--growth` seconds of these writes, as a ratio to the rows of the
  largest round.
- *Spark*: the same result by Spark SQL in `foreachBatch`, which recomputes the changed groups of a micro-batch of 200
  changes, as a ratio to a round.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench import report
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec, RoundOptions, SinkOptions, ViewSpec
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.views.compare import PostgresViews
from slotkeeper.demo import postgres
from slotkeeper.demo.postgres import Server
from tests.support.dataframes import spark_session
from tests.support.effects import Effects
from tests.support.oracle import Event, Image

CHANGES, ROUND = 7_000, 200
KEYS, IMAGES = 1.15, 1.40
"""Maximum ratios of the CPU of a step with capture."""
ROUND_MS, FRESH_S, GROWTH = 100.0, 1.0, 2.0
"""Maximum p95 of a round of 200 changes, and of freshness; and of delta tables, as a ratio to the largest round."""
RATE, AT_ONCE, INTERVAL_S = 2_000, 20, 0.2
_B, _A = '"select"', '"A ""a"""'
CAPTURES = {
    "none": (),
    "keys": (ViewSpec("dws.v", f"SELECT {_B} AS b, count(*) AS n, max({_A}) AS a FROM mart.orders GROUP BY {_B}"),),
    "sums": (ViewSpec("dws.v", f"SELECT {_B} AS b, count(*) AS n, sum({_A}) AS a FROM mart.orders GROUP BY {_B}"),),
    "images": (
        ViewSpec(
            "dws.v",
            f'SELECT o."Key H" AS h, o.k, o.{_A} AS a, c.region FROM mart.orders o LEFT JOIN mart.customers c'
            f" ON c.id = o.{_A}",
            ("h", "k"),
        ),
    ),
}
_FACTS = (
    "CREATE SCHEMA mart; CREATE TABLE mart.facts (id int PRIMARY KEY, few int, many int, qty int, price numeric(9,2))"
)
_SELECT = "SELECT {0} AS g, count(*) AS n, sum(qty) AS qty, sum(price) AS price FROM mart.facts GROUP BY {0}"
OF_ROUNDS = {
    "50 rows per group, recompute": ViewSpec("dws.a", _SELECT.format("few"), method="recompute"),
    "50 rows per group, delta": ViewSpec("dws.b", _SELECT.format("few"), method="delta"),
    "5,000 rows per group, recompute": ViewSpec("dws.c", _SELECT.format("many"), method="recompute"),
    "5,000 rows per group, delta": ViewSpec("dws.d", _SELECT.format("many"), method="delta"),
}


def p95(values: Sequence[float]) -> float:
    """Return the nearest-rank 95th percentile."""
    return sorted(values)[max(0, -(-len(values) * 95 // 100) - 1)]


def run(server: Server, database: str, *statements: str) -> None:
    """Run statements as the superuser."""
    with closing(server.connect(database)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@contextmanager
def maintained(
    server: Server, database: str, views: Sequence[ViewSpec], *tables: str
) -> Iterator[tuple[PostgresViews, int]]:
    """Yield built views over these tables, and their epoch."""
    login = server.endpoint(database)
    channels = tuple(ChannelSpec(f"src.{one}", one) for one in tables)
    job = JobSpec("bench", login, login, "s", channels, views=tuple(views), rounds=RoundOptions(200, 5_000_000))
    password = server.password_file.read_text(encoding="utf-8").strip()
    session = SinkSession(login, password, "slotkeeper/bench/views")
    try:
        found = PostgresViews(session, job)
        epoch = found.enter()
        for view in found.views:
            found.build(view.target, epoch)
        yield found, epoch
    finally:
        session.close()


def cpu_of(session: SinkSession) -> Callable[[], float]:
    """Return a function that returns the CPU milliseconds of this session's server process since now."""
    with session.ready().cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        clock = Path(f"/proc/{cursor.fetchall()[0][0]}/schedstat")
    session.rollback()
    began = int(clock.read_text("ascii").split()[0])
    return lambda: (int(clock.read_text("ascii").split()[0]) - began) / 1e6


# -- capture -----------------------------------------------------------------------------------------------------------


def capture(server: Server, rounds: int) -> dict[str, Any]:
    """Return the CPU milliseconds of a step by kind and capture, and the ratios to no capture, as medians."""
    spent = {kind: {name: list[float]() for name in CAPTURES} for kind in ("inserts", "updates", "several per key")}
    targets = {name: _target(server, f"capture_{name}", specs) for name, specs in CAPTURES.items()}
    names = list(CAPTURES)
    for number in range(rounds + 1):
        for kind, of in spent.items():
            events = _events(kind, number)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                milliseconds = targets[name](events)
                if number:  # the first round fills caches, and prepares statements
                    of[name].append(milliseconds)
    found: dict[str, Any] = {"step_ms": {}, "of_none": {}}
    for kind, of in spent.items():
        found["step_ms"][kind] = {name: round(statistics.median(each), 1) for name, each in of.items()}
        found["of_none"][kind] = {
            name: round(statistics.median(map(lambda a, b: a / b, of[name], of["none"])), 2) for name in names[1:]
        }
    return found


def _target(server: Server, database: str, specs: Sequence[ViewSpec]) -> Callable[[list[Event]], float]:
    """Make a filled target with views; return a function that applies a step, and returns its CPU milliseconds."""
    run(server, "postgres", f"CREATE DATABASE {database}")
    made = Effects(server, database, "mart.orders", others=False)
    made.fill([_image(k, k) for k in range(1, 60_001)])
    run(server, database, "CREATE TABLE mart.customers AS SELECT n AS id, 'r' || n % 9 AS region FROM"
        " generate_series(0, 999) n", "ALTER TABLE mart.customers ADD PRIMARY KEY (id)", "VACUUM ANALYZE")  # fmt: skip
    if specs:
        with maintained(server, database, specs, "mart.orders", "mart.customers"):
            pass
    sink = made.sink(SinkOptions())

    def step(events: list[Event]) -> float:
        spent = cpu_of(made.session)
        made.step(sink, events)
        return spent()

    return step


def _image(k: int, a: int) -> Image:
    return {"h": 1, "k": k, "a": a % 1_000, "b": f"s{k % 97}", "tags": None, "j": None}


def _events(kind: str, number: int) -> list[Event]:
    draw = random.Random(number)
    if kind == "inserts":
        first = 100_000 + number * CHANGES
        return [Event(0, n, "I", (1, first + n), _image(first + n, n)) for n in range(CHANGES)]
    distinct = CHANGES if kind == "updates" else CHANGES // 3
    keys = draw.sample(range(1, 60_001), distinct)
    return [
        Event(0, n, "U", (1, keys[n % distinct]), _image(keys[n % distinct], draw.randrange(1_000)))
        for n in range(CHANGES)
    ]


# -- rounds and freshness ----------------------------------------------------------------------------------------------


def rounds_of(server: Server, rows: int, rounds: int) -> dict[str, Any]:
    """Return p50 and p95 of a round of 200 changes, by view, in milliseconds."""
    found: dict[str, Any] = {}
    for place, (label, spec) in enumerate(OF_ROUNDS.items()):
        database = f"rounds_{place}"
        _facts(server, database, rows)
        with maintained(server, database, [spec], "mart.facts") as (views, epoch):
            draw, spent, cpu = random.Random(1), list[float](), list[float]()
            for _ in range(rounds):
                _change(server, database, draw, rows)
                used, began = cpu_of(views._session), time.monotonic()
                applied = views.round(epoch)
                spent.append(1_000 * (time.monotonic() - began))
                cpu.append(used())
                if not applied.applied:
                    raise SystemExit(f"{label}: no round ran: {applied.stale}")
            if views.verify(spec.target):
                raise SystemExit(f"{label}: differs from its SELECT")
        found[label] = {
            "p50_ms": round(statistics.median(spent), 1),
            "p95_ms": round(p95(spent), 1),
            "cpu_p50_ms": round(statistics.median(cpu), 1),
            "cpu_p95_ms": round(p95(cpu), 1),
        }
        run(server, "postgres", f"DROP DATABASE {database}")
    return found


def _facts(server: Server, database: str, rows: int) -> None:
    run(server, "postgres", f"CREATE DATABASE {database}")
    insert = f"INSERT INTO mart.facts SELECT n, n % {rows // 50}, n % {max(1, rows // 5_000)}, n % 9, n % 99 + 0.5 FROM"
    run(server, database, *_FACTS.split("; "), f"{insert} generate_series(1, {rows}) n",
        "CREATE INDEX ON mart.facts (few)", "CREATE INDEX ON mart.facts (many)", "VACUUM ANALYZE")  # fmt: skip


def _change(server: Server, database: str, draw: random.Random, rows: int) -> None:
    ids = ", ".join(str(draw.randint(1, rows)) for _ in range(ROUND))
    run(server, database, f"UPDATE mart.facts SET qty = qty + 1 WHERE id IN ({ids})")


@contextmanager
def written(server: Server, database: str, rows: int) -> Iterator[list[float]]:
    """Write `RATE` changes per second during the block; yield the times of the commits."""
    stop, commits = threading.Event(), list[float]()

    def write() -> None:
        draw = random.Random(2)
        with closing(server.connect(database)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            due = time.monotonic()
            while not stop.wait(max(0.0, due - time.monotonic())):
                ids = ", ".join(str(draw.randint(1, rows)) for _ in range(AT_ONCE))
                cursor.execute(f"UPDATE mart.facts SET qty = qty + 1 WHERE id IN ({ids})")
                commits.append(time.monotonic())
                due += AT_ONCE / RATE

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield commits
    finally:
        stop.set()
        writer.join()


def _both() -> list[ViewSpec]:
    return [OF_ROUNDS[f"50 rows per group, {how}"] for how in ("recompute", "delta")]


def freshness(server: Server, rows: int, seconds: float) -> dict[str, Any]:
    """Return p50 and p95 of the freshness of a view by each method, in seconds, at `RATE` changes per second."""
    _facts(server, database := "fresh", rows)
    with (
        maintained(server, database, _both(), "mart.facts") as (views, epoch),
        written(server, database, rows) as commits,
    ):
        began, late, taken = time.monotonic(), list[float](), 0
        while time.monotonic() < began + seconds:
            asked = time.monotonic()
            views.round(epoch)
            done, ready = time.monotonic(), sum(at < asked for at in commits)
            late += [done - at for at in commits[taken:ready]]
            taken = ready
            time.sleep(INTERVAL_S)
    rate = round(len(commits) * AT_ONCE / seconds)
    return {"changes_per_s": rate, "p50_s": round(statistics.median(late), 2), "p95_s": round(p95(late), 2)}


_DELTAS = "SELECT relname FROM pg_class WHERE relname LIKE 'slotkeeper_delta%' AND relkind = 'r' ORDER BY 1"


def growth(server: Server, rows: int, seconds: float) -> dict[str, Any]:
    """Return the largest size of the delta tables, and of the rows that one round applied, in KiB, and their ratio.

    A row is counted with its header and line pointer; a table with whole pages, of which it has at least one.
    """
    _facts(server, database := "growth", rows)
    with (
        maintained(server, database, _both(), "mart.facts") as (views, epoch),
        closing(server.connect(database)) as connection,
        connection.cursor() as cursor,
    ):
        connection.autocommit = True
        cursor.execute(_DELTAS)
        tables = [name for (name,) in cursor.fetchall()]
        of_rows = " + ".join(f"(SELECT coalesce(sum(pg_column_size(t) + 4), 0) FROM {name} t)" for name in tables)
        of_files = " + ".join(f"pg_relation_size('{name}')" for name in tables)
        largest = size = 0
        with written(server, database, rows) as commits:
            began = time.monotonic()
            while time.monotonic() < began + seconds:
                cursor.execute(f"SELECT {of_rows}, {of_files}")
                ((waiting, now),) = cursor.fetchall()
                largest, size = max(largest, waiting), max(size, now)
                views.round(epoch)
                time.sleep(INTERVAL_S)
    return {
        "seconds": seconds,
        "changes_per_s": round(len(commits) * AT_ONCE / seconds),
        "largest_round_kib": round(largest / 1024),
        "delta_tables_kib": round(size / 1024),
        "of_largest_round": round(size / largest, 2),
    }


# -- beside Spark SQL --------------------------------------------------------------------------------------------------


def spark(server: Server, folder: Path, rows: int, batches: int) -> dict[str, Any]:
    """Return the median milliseconds of a micro-batch that recomputes the changed groups with Spark SQL."""
    database = "spark"
    _facts(server, database, rows)
    run(server, database, "CREATE TABLE mart.answer (g int PRIMARY KEY, n bigint, qty bigint, price numeric)")
    draw, inbox = random.Random(1), folder / "inbox"
    inbox.mkdir()
    for number in range(batches):
        lines = "\n".join(json.dumps({"g": draw.randint(1, rows) % (rows // 50)}) for _ in range(ROUND))
        (inbox / f"{number:04}.json").write_text(lines, encoding="utf-8")

    def apply(frame: Any, _: int) -> None:
        from pyspark.sql import functions as F

        groups = [row.g for row in frame.select("g").distinct().collect()]
        with closing(server.connect(database)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT few, qty, price::float8 FROM mart.facts WHERE few = ANY(%s)", (groups,))
            mirror = session.createDataFrame(cursor.fetchall(), "g int, qty int, price double")
            sums = mirror.groupBy("g").agg(F.count("*"), F.sum("qty"), F.sum("price")).collect()
            cursor.execute("DELETE FROM mart.answer WHERE g = ANY(%s)", (groups,))
            cursor.executemany("INSERT INTO mart.answer VALUES (%s, %s, %s, %s)", [tuple(row) for row in sums])
            connection.commit()

    with spark_session(folder) as session:
        changes = session.readStream.schema("g int").option("maxFilesPerTrigger", 1).json(str(inbox))
        writer = changes.writeStream.foreachBatch(apply).option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        spent = [one["durationMs"]["triggerExecution"] for one in query.recentProgress if one["numInputRows"]]
    return {"batch_p50_ms": statistics.median(spent[1:]), "batches": len(spent) - 1}


def main(words: list[str]) -> None:
    """Run the benchmark, and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m bench.views", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the table below the views")
    parser.add_argument("--rounds", type=int, default=60, help="rounds for each view")
    parser.add_argument("--steps", type=int, default=7, help="steps of each kind for each capture")
    parser.add_argument("--seconds", type=float, default=15.0, help="duration of the measurement of freshness")
    parser.add_argument("--growth", type=float, default=60.0, help="seconds of writes for the size of the deltas")
    parser.add_argument("--without-spark", action="store_true")
    given = parser.parse_args(words)
    folder = Path(tempfile.mkdtemp(prefix="slotkeeper-bench-"))
    try:
        server = postgres.start(folder / "sink", "sink", {"shared_buffers": "256MB"})
        found: dict[str, Any] = {"capture": capture(server, given.steps)}
        found["rounds"] = rounds_of(server, given.rows, given.rounds)
        found["freshness"] = freshness(server, given.rows, given.seconds)
        found["deltas"] = growth(server, given.rows, given.growth)
        if not given.without_spark:
            (folder / "spark").mkdir()
            found["spark"] = spark(server, folder / "spark", given.rows, 12)
            ours = found["rounds"]["50 rows per group, recompute"]["p50_ms"]
            found["spark"]["of_a_round"] = round(found["spark"]["batch_p50_ms"] / ours, 1)
    finally:
        postgres.discard(folder / "sink")
        shutil.rmtree(folder, ignore_errors=True)
    limits = {
        "keys": KEYS,
        "sums": KEYS,
        "images": IMAGES,
        "round_p95_ms": ROUND_MS,
        "fresh_p95_s": FRESH_S,
        "deltas": GROWTH,
    }
    print(json.dumps({**found, "limits": limits, "given": vars(given), "machine": report.machine()}))


if __name__ == "__main__":
    main(sys.argv[1:])
