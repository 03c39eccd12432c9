"""Profiles of a run: CPU by group of processes, statements from both servers' statistics, one step of a job by parts.

No timing includes any of this except the servers' `pg_stat_statements`, which is loaded for both sides.
"""

from __future__ import annotations

import io
import time
from dataclasses import dataclass, field, replace
from typing import Any

import psutil

from bench.ours import OurJob, Recorder
from bench.rig import Rig, run
from slotkeeper.core.domain.spec import TableAsked
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
    """Return the CPU seconds so far by group; only differences between two calls are meaningful."""
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
    """Return the CPU seconds of a server: its running processes, and those that it has reaped."""
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
    """Return the CPU by party as in the tables; `programs` is the CPU that a peer's programs report, or None for that
    of ended child processes.
    """
    own = spent["ended"] if programs is None else programs
    return {"source": spent["source server"], "sink": spent["sink server"], "programs": own}


def of_ours(spent: dict[str, float]) -> dict[str, float]:
    """Return the CPU by party of Slotkeeper's job: workers, JVM and the driver, in whose process the benchmark
    polls.
    """
    return by_party(spent, spent["driver"] + spent["jvm"] + spent["workers"])


def spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Return the differences by group."""
    return {group: after[group] - before[group] for group in after}


def forget_statements(rig: Rig) -> None:
    """Reset the statement statistics of both servers."""
    for server in (rig.source, rig.sink):
        run(server, "postgres", "SELECT pg_stat_statements_reset()")


def statements(server: Server, database: str) -> int:
    """Return the number of statements in a database since the last reset, without this benchmark's own poll."""
    ((calls,),) = run(
        server,
        "postgres",
        "SELECT sum(s.calls) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid"
        f" WHERE d.datname = '{database}' AND s.query <> 'SELECT sum(changes) FROM slotkeeper_progress'",
    )
    return int(calls or 0)


def top_statements(server: Server, database: str) -> list[dict[str, Any]]:
    """Return the statements with the longest total time, with their share of all statements' time in that database."""
    found = run(server, "postgres", _TOP.format(database))
    total = sum(seconds for _, _, seconds, _ in found) or 1.0
    return [
        {"statement": text, "calls": calls, "seconds": round(seconds, 3), "share": round(seconds / total, 3), "rows": n}
        for text, calls, seconds, n in found
    ]


def steps(recorder: Recorder) -> dict[str, Any]:
    """Return sums over all tasks; lanes run concurrently, so the sum of seconds exceeds the wall-clock time."""
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
    """One step of one lane by parts: seconds of each part, and the plan of the statement that applies the step."""

    events: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    plan: str = ""


def anatomy(job: OurJob) -> Anatomy:
    """Read a pending range, stage it, time and explain each part, and roll all of it back."""
    found, spec = Anatomy(), job.spec
    source = worker.source_session(spec, "bench").table(TableAsked.of(spec)).source
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
        source.session.close()
    return found


def _read(job: OurJob, source: DwsSource, found: Anatomy) -> tuple[bytes, DwsPosition]:
    """Read about one step's rows of the first DN after its progress row."""
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
