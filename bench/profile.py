"""Where time goes: CPU by group of processes, statements by both servers' account, one step of a job taken apart.

Nothing here is inside a timing but the servers' `pg_stat_statements`, which both sides carry.
"""

from __future__ import annotations

import io
import time
from dataclasses import dataclass, field, replace
from typing import Any

import psutil

from bench.ours import OurJob, Recorder
from bench.rig import Rig, run
from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks.postgres.check.target import target_of
from slotkeeper.core.sinks.postgres.kind import PostgresConnection
from slotkeeper.core.sinks.postgres.write import statements as compose
from slotkeeper.core.sinks.postgres.write.sink import PostgresSink
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition, ours
from slotkeeper.core.sources.dws.source import DwsSource
from slotkeeper.core.wiring import worker
from slotkeeper.demo.postgres import Server

_TOP = """
SELECT left(regexp_replace(query, '\\s+', ' ', 'g'), 70) AS text, sum(calls)::bigint, sum(total_exec_time) / 1000,
       sum(rows)::bigint
FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
WHERE d.datname = '{}' GROUP BY 1 ORDER BY 3 DESC LIMIT 12
"""
_EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, SETTINGS, TIMING OFF) "


def cpu(source: Server, sink: Server) -> dict[str, float]:
    """CPU seconds so far by group; differences of two calls are what counts."""
    me = psutil.Process()
    found = {"source server": server_cpu(source), "sink server": server_cpu(sink)}
    times = me.cpu_times()
    found["driver"] = times.user + times.system
    found["ended"] = times.children_user + times.children_system
    found["jvm"] = found["workers"] = 0.0
    for child in me.children(recursive=True):
        try:
            name, spent = child.name(), child.cpu_times()
        except psutil.Error:
            continue
        if name == "java":
            found["jvm"] += spent.user + spent.system
        elif name.startswith("python"):
            found["workers"] += spent.user + spent.system
    return found


def server_cpu(server: Server) -> float:
    """CPU of a server: its processes that live, and what it has reaped."""
    root = psutil.Process(server.pid)
    times = root.cpu_times()
    total = times.user + times.system + times.children_user + times.children_system
    for child in root.children():
        try:
            spent = child.cpu_times()
        except psutil.Error:
            continue
        total += spent.user + spent.system
    return total


def by_party(spent: dict[str, float], programs: float | None = None) -> dict[str, float]:
    """The same as the tables have it; `programs` is what a peer's programs say of themselves, None: what has ended."""
    own = spent["ended"] if programs is None else programs
    return {"source": spent["source server"], "sink": spent["sink server"], "programs": own}


def of_ours(spent: dict[str, float]) -> dict[str, float]:
    """The same of our job: workers, JVM and the driver, in whose process the bench polls."""
    return by_party(spent, spent["driver"] + spent["jvm"] + spent["workers"])


def spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Differences."""
    return {group: after[group] - before[group] for group in after}


def forget_statements(rig: Rig) -> None:
    """Reset both servers' account."""
    for server in (rig.source, rig.sink):
        run(server, "postgres", "SELECT pg_stat_statements_reset()")


def top_statements(server: Server, database: str) -> list[dict[str, Any]]:
    """The statements that took longest, with their share of all statements' time in that database."""
    found = run(server, "postgres", _TOP.format(database))
    total = sum(seconds for _, _, seconds, _ in found) or 1.0
    return [
        {"statement": text, "calls": calls, "seconds": round(seconds, 3), "share": round(seconds / total, 3), "rows": n}
        for text, calls, seconds, n in found
    ]


def steps(recorder: Recorder) -> dict[str, Any]:
    """Sums over all tasks: lanes run beside each other, so the seconds are more than the wall's."""
    lanes = recorder.lanes
    count = sum(one.steps for one in lanes)
    return {
        "tasks": recorder.tasks,
        "task_seconds": round(recorder.task_seconds, 3),
        "steps": count,
        "events": sum(one.rows for one in lanes),
        "events_per_step": round(sum(one.rows for one in lanes) / max(1, count)),
        "read_seconds": round(sum(one.read_seconds for one in lanes), 3),
        "write_seconds": round(sum(one.write_seconds for one in lanes), 3),
    }


@dataclass
class Anatomy:
    """One step of one lane taken apart: seconds by part, and the plan of the statement that applies it."""

    events: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    plan: str = ""


def anatomy(job: OurJob) -> Anatomy:
    """Read a range that waits, stage it, time and explain each part, and roll all of it back."""
    found, spec = Anatomy(), job.spec
    source = worker.open_source(spec, "bench")
    store = worker.store_session(spec, "bench")
    assert isinstance(source, DwsSource)
    assert isinstance(store, PostgresConnection)
    session = store.session
    target = target_of(spec.channel, source.identify())
    sink = PostgresSink(session, POSITIONS, target, replace(spec.sink_options, optimistic_step=False))
    try:
        text, up_to = _read(job, source, found)
        _timed(found, "stage", lambda: sink.stage(io.BytesIO(text)))
        _timed(found, "top", lambda: sink.top(up_to))
        with session.ready().cursor() as cursor:
            _explain(found, cursor, compose.straight(target, spec.sink_options).as_string(cursor))
    finally:
        sink.abandon()
        sink.close()
        source.close()
    return found


def _read(job: OurJob, source: DwsSource, found: Anatomy) -> tuple[bytes, DwsPosition]:
    """About one step's rows of the first DN after its progress row."""
    progress = worker.open_progress(job.spec, "bench", worker.who(job.spec, "bench"))
    row = progress.rows()[0]
    progress.close()
    statuses = _timed(found, "read_status", lambda: source.read_status(None))
    status = next(status for status in statuses if status.shard.name == row.key.shard)
    after, out = ours(row.position or DwsPosition(0)), io.BytesIO()
    _timed(found, "second look", lambda: source.read_status(status.shard))
    up_to = source.next_range(after, status, 20)
    found.events = _timed(found, "read", lambda: source.copy_changes(status.shard, after, up_to, out))
    return out.getvalue(), up_to


def _timed(found: Anatomy, part: str, work: Any) -> Any:
    began = time.perf_counter()
    value = work()
    found.seconds[part] = round(time.perf_counter() - began, 4)
    return value


def _explain(found: Anatomy, cursor: pg.Cursor, statement: str) -> None:
    began = time.perf_counter()
    cursor.execute(_EXPLAIN + statement)
    found.seconds["apply"] = round(time.perf_counter() - began, 4)
    found.plan = "\n".join(line for (line,) in cursor.fetchall())
