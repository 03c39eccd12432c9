"""What disturbs a chaos run, each act drawn from the run's seed; `settle` of the rig is what follows each of them.

An act of `ALONE` needs a person afterwards, or takes time of its own; two of `PASSING` may happen at once.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass

import psutil

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.launch import identity as processes
from tests.support.proxy import Line
from tests.support.remedy_text import printed_to_repeat
from tests.support.storm.rig import ALL, JOB, SLOT, TARGETS, Rig, words_of
from tests.support.terminal import Terminal, console

MOST_COLUMNS = 6
"""Columns that a run adds to one table at most."""
LONGEST = "tpcb.bulk"
"""The table whose replay takes the longest."""


@dataclass(frozen=True, slots=True)
class Act:
    """`person`: what is printed afterwards may have to be typed. `spark`: only a run on Spark has what it kills."""

    name: str
    run: Callable[[Rig, random.Random], str]
    """Returns what else was drawn, for the log."""
    person: bool = False
    spark: bool = False


# -- processes


def _kill(kind: str) -> Callable[[Rig, random.Random], str]:
    def act(rig: Rig, draw: random.Random) -> str:
        _alive(rig)
        rig.job.kill(kind)  # type: ignore[arg-type]
        return ""

    return act


def _alive(rig: Rig) -> None:
    rig.wait(lambda: rig.job.view().driver_alive and rig.job.view().supervisor_alive, 120, "driver and supervisor")


def kill_everything(rig: Rig, draw: random.Random) -> str:
    """Everything of the job at once: only `jobs ensure` starts it again."""
    _alive(rig)
    view = rig.job.view()
    for one in (view.supervisor, view.driver):
        assert one is not None and processes.kill_members(one)
    return ""


def kill_command(rig: Rig, draw: random.Random) -> str:
    """A command is killed at a random moment; a reset that it leaves behind is finished by `--resume`."""
    table = draw.choice(rig.touched()).name
    words = draw.choice(
        [
            ("verify", JOB),
            ("status", "--json"),
            ("jobs", "ensure", "--reason", "chaos"),
            ("jobs", "pause", JOB, "--table", table),
            ("jobs", "restart", JOB, "--table", table),
            ("slots", "reset", table, SLOT, "--to", "snapshot"),
        ]
    )
    running = rig.begun(*words)
    with suppress(subprocess.TimeoutExpired):
        running.wait(draw.uniform(0.2, 6.0))
    running.kill()
    running.communicate()
    _as_wanted(rig, table)
    return " ".join(words)


def kill_console(rig: Rig, draw: random.Random) -> str:
    """The console is killed while it is drawn."""
    with Terminal(console(rig.job.config)) as terminal:
        terminal.shows("Overview")
        terminal.send(str(draw.randint(1, 6)))
        rig.rest(draw.uniform(0.1, 2.0))
        terminal.process.kill()
    return ""


def freeze(rig: Rig, draw: random.Random) -> str:
    """SIGSTOP to the whole tree for a while, then SIGCONT."""
    view = rig.job.view()
    pids = {pid for one in (view.supervisor, view.driver) if one for pid in processes.members(one)}
    lasts = draw.uniform(3.0, 25.0)
    try:
        _signal(pids, signal.SIGSTOP)
        rig.rest(lasts)
    finally:
        _signal(pids, signal.SIGCONT)
    return f"{len(pids)} processes, {lasts:.0f} s"


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, psutil.Error):
            os.kill(pid, number)


# -- servers and lines


def _sessions(side: str) -> Callable[[Rig, random.Random], str]:
    def act(rig: Rig, draw: random.Random) -> str:
        server = rig.server(side)
        database = rig.product.warehouse.database if side == "source" else "mart"
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s"
        with closing(server.connect(database)) as connection, connection.cursor() as cursor:
            cursor.execute(ended, (f"slotkeeper/{JOB}/%",))
            return f"{cursor.rowcount} sessions"

    return act


def _restart(side: str) -> Callable[[Rig, random.Random], str]:
    def act(rig: Rig, draw: random.Random) -> str:
        rig.server(side).restart("immediate")
        return ""

    return act


def _line(line: Line, *sides: str) -> Callable[[Rig, random.Random], str]:
    def act(rig: Rig, draw: random.Random) -> str:
        lasts, cut = draw.uniform(2.0, 25.0), draw.random() < 0.5
        for side in sides:
            rig.line(side).set(line)
        rig.rest(lasts)
        for side in sides:
            rig.line(side).whole(cut)
        return f"{lasts:.0f} s, the old lines {'reset' if cut else 'silent for good'}"

    return act


# -- commands of a person that need no remedy


def pause_job(rig: Rig, draw: random.Random) -> str:
    """The whole job, paused and resumed."""
    paused = rig.typed("jobs", "pause", JOB)
    rig.rest(draw.uniform(0.5, 6.0))
    _resumed(rig)
    return f"pause ended with {paused.code}"


def _resumed(rig: Rig) -> None:
    def done() -> bool:
        rig.typed("jobs", "resume", JOB, "--wait", "20s")
        return rig.job.view().state is not JobState.PAUSED

    rig.wait(done, 240, "the job to be resumed")


def pause_table(rig: Rig, draw: random.Random) -> str:
    """One table, paused and resumed while the others go on."""
    table = draw.choice(ALL)
    rig.typed("jobs", "pause", JOB, "--table", table)
    rig.rest(draw.uniform(0.5, 6.0))
    _as_wanted(rig, table)
    return table


def _as_wanted(rig: Rig, table: str) -> None:
    """See that a table runs that a command has paused or stopped."""

    def state() -> str:
        return next((one.state for one in rig.tables() if one.source_table == table), "")

    def done() -> bool:
        verb = {"PAUSED": "resume", "STOPPED": "start"}.get(state())
        if verb:
            rig.typed("jobs", verb, JOB, "--table", table, "--wait", "20s")
        return state() not in ("PAUSED", "STOPPED")

    rig.wait(done, 240, f"{table} to run")


def stop_and_start(rig: Rig, draw: random.Random) -> str:
    """The whole job, stopped and started."""
    rig.must("jobs", "stop", JOB, "--wait", "2m")
    rig.rest(draw.uniform(0.2, 5.0))
    rig.must("jobs", "start", JOB, "--wait", "5m")
    return ""


# -- tables


def _reset(goal: str) -> Callable[[Rig, random.Random], str]:
    def act(rig: Rig, draw: random.Random) -> str:
        table = draw.choice(rig.touched()).name
        rig.uncounted(table)
        rig.load.purger.held.set()
        try:
            _reset_one(rig, table, "--to", "earliest" if goal == "backup" else goal)
            if goal == "backup":
                rig.settle(person=False)
                _reset_one(rig, table, "--to", "backup", "--backup", rig.backups(table)[0])
        finally:
            rig.load.purger.held.clear()
        return table

    return act


def _reset_one(rig: Rig, table: str, *goal: str) -> None:
    """Stop one table, reset its slot as the plan prints it, and start it again."""
    rig.must("jobs", "stop", JOB, "--table", table, "--wait", "2m")
    assert rig.dry_and_done("slots", "reset", table, SLOT, *goal), rig.story()
    rig.must("jobs", "start", JOB, "--table", table, "--wait", "5m")


def kill_reset(rig: Rig, draw: random.Random) -> str:
    """A reset is killed while it moves a table; `--resume` finishes it or rolls it back."""
    table = draw.choice(rig.touched()).name
    rig.uncounted(table)
    rig.must("jobs", "stop", JOB, "--table", table, "--wait", "2m")
    plan = rig.must("slots", "reset", table, SLOT, "--to", draw.choice(("snapshot", "earliest")))
    (command,) = printed_to_repeat(plan)
    running = rig.begun(*words_of(command))
    with suppress(subprocess.TimeoutExpired):
        running.wait(draw.uniform(1.0, 8.0))
    running.kill()
    running.communicate()
    resumed = rig.typed("slots", "reset", "--resume", table, SLOT)
    rig.must("jobs", "start", JOB, "--table", table, "--wait", "5m")
    return f"{table}, killed with {running.returncode}, resume ended with {resumed.code}"


def add_column(rig: Rig, draw: random.Random) -> str:
    """ADD COLUMN at the source: the job alters the target and copies the table again."""
    table = draw.choice(rig.touched()).name
    columns = [one for one in rig.columns(table) if one.startswith("added_")]
    if len(columns) >= MOST_COLUMNS:
        return f"{table} has {len(columns)} added columns already"
    rig.uncounted(table)
    kind = draw.choice(("integer", "text DEFAULT 'new'", "numeric(12,2) DEFAULT 7.77", "timestamptz"))
    rig.at_source(f"ALTER TABLE {table} ADD COLUMN added_{len(columns)} {kind}")
    return f"{table} added_{len(columns)} {kind}"


def fail_over(rig: Rig, draw: random.Random) -> str:
    """The sink fails over to an older copy of itself: what was applied since is not there any more."""
    sink = rig.product.sink
    older = sink.data_dir.with_name("older")
    sink.stop("immediate")
    subprocess.run(["cp", "-a", str(sink.data_dir), str(older)], check=True)
    sink.restart("immediate")
    try:
        rig.settle(person=False)
        rig.rest(draw.uniform(0.5, 5.0))
        rig.uncounted(*ALL)
        sink.stop("immediate")
        newer = sink.data_dir.with_name("newer")
        sink.data_dir.rename(newer)
        older.rename(sink.data_dir)
        shutil.rmtree(newer)
        sink.restart("immediate")
    finally:
        shutil.rmtree(older, ignore_errors=True)
    return ""


def truncate_target(rig: Rig, draw: random.Random) -> str:
    """Somebody truncates a target, of a running or a stopped table: TARGET CHANGED, and then a snapshot."""
    table = draw.choice(rig.touched()).name
    stopped = draw.random() < 0.5
    rig.uncounted(table)
    if stopped:
        rig.must("jobs", "stop", JOB, "--table", table, "--wait", "2m")
    rig.product.at_sink(f"TRUNCATE {TARGETS[table]}; SELECT 1")
    if stopped:
        rig.typed("jobs", "start", JOB, "--table", table, "--wait", "1m")

    def named() -> bool:
        return any(one.source_table == table and one.trouble == "TARGET CHANGED" for one in rig.tables())

    rig.wait(named, 60, f"TARGET CHANGED of {table}")
    return f"{table}, {'stopped' if stopped else 'running'}"


def undo_refused(rig: Rig, draw: random.Random) -> str:
    """An undo in the middle of a replay ends with 3, one behind it is planned; the job goes on to be equal."""
    rig.uncounted(LONGEST)
    rig.load.purger.held.set()
    try:
        rig.rest(draw.uniform(25.0, 40.0))
        rig.must("jobs", "stop", JOB, "--table", LONGEST, "--wait", "2m")
        assert rig.dry_and_done("slots", "reset", LONGEST, SLOT, "--to", "earliest"), rig.story()
        before = {shard: changes for shard, changes, *_ in _lanes(rig)}
        rig.must("jobs", "start", JOB, "--table", LONGEST)
        rig.wait(lambda: any(each[1] > before[each[0]] for each in _lanes(rig)), 240, "the replay to begin", every=0.05)
        rig.must("jobs", "stop", JOB, "--table", LONGEST, "--wait", "2m")
        inside = any(changes > before[shard] and at < end for shard, changes, at, end in _lanes(rig))
        undone = rig.typed("slots", "undo", rig.backups(LONGEST)[0])
        expected = 3 if inside else 0
        assert undone.code == expected, f"undo, {inside=}, ended with {undone.code}: {undone.said}; {rig.story()}"
        rig.must("jobs", "start", JOB, "--table", LONGEST, "--wait", "5m")
    finally:
        rig.load.purger.held.clear()
    return f"{'in the middle of the replay' if inside else 'the replay was through'}, undo ended with {undone.code}"


def _lanes(rig: Rig) -> list[tuple[str, int, int, int]]:
    """Of the longest table's lanes: DN, changes, sync point, and the one noted by the reset, 0 for none."""
    point = "coalesce(split_part({}, '/', 1)::bigint, 0)"
    columns = f"shard, changes, {point.format('position')}, {point.format('noted_end')}"
    statement = f"SELECT {columns} FROM slotkeeper_progress WHERE job = %s AND source_table = %s"
    found = rig.product.at_sink(statement, (JOB, LONGEST))
    return [(str(dn), int(changes), int(at), int(end)) for dn, changes, at, end in found]


PASSING = (
    Act("kill: supervisor", _kill("supervisor")),
    Act("kill: driver", _kill("driver")),
    Act("kill: JVM", _kill("jvm"), spark=True),
    Act("kill: workers", _kill("worker"), spark=True),
    Act("kill: a command", kill_command),
    Act("kill: the console", kill_console),
    Act("sessions ended: source", _sessions("source")),
    Act("sessions ended: sink", _sessions("sink")),
    Act("immediate restart: source", _restart("source")),
    Act("immediate restart: sink", _restart("sink")),
    *(
        Act(f"line {name}: {' and '.join(sides)}", _line(line, *sides))
        for name, line in (("cut", Line.CUT), ("half-open", Line.HALF_OPEN), ("black", Line.BLACK_HOLE))
        for sides in (("source",), ("sink",), ("source", "sink"))
    ),
    Act("SIGSTOP of the tree", freeze),
    Act("pause: job", pause_job),
    Act("pause: one table", pause_table),
)
ALONE = (
    Act("kill: everything", kill_everything),
    Act("stop and start", stop_and_start),
    Act("reset to a snapshot: one table", _reset("snapshot")),
    Act("reset to earliest: one table", _reset("earliest")),
    Act("reset to a backup: one table", _reset("backup")),
    Act("kill: a reset", kill_reset),
    Act("ADD COLUMN at the source", add_column),
    Act("failover to an older copy", fail_over, person=True),
    Act("truncate target", truncate_target, person=True),
    Act("undo refused", undo_refused),
)


def two_at_once(runner: str) -> Act:
    """Two different acts that pass by themselves, a moment apart."""

    def act(rig: Rig, draw: random.Random) -> str:
        both = draw.sample(_of(runner, PASSING), 2)
        rig.paired.update(one.name for one in both)
        found: dict[str, str] = {}
        seeds = [random.Random(draw.random()) for _ in both]
        apart = draw.uniform(0.0, 3.0)

        def one(chosen: Act, own: random.Random) -> None:
            try:
                found[chosen.name] = chosen.run(rig, own)
            except Exception as error:  # a thread has nobody above it
                found[chosen.name] = f"ended with {error!r}"

        threads = [threading.Thread(target=one, args=pair) for pair in zip(both, seeds, strict=True)]
        threads[0].start()
        rig.rest(apart)
        threads[1].start()
        for thread in threads:
            thread.join()
        return "; ".join(f"{name} {more}" for name, more in found.items())

    return Act("two at once", act)


def chosen(runner: str) -> list[Act]:
    """The acts of a run, each once; `SLOTKEEPER_CHAOS_ONLY` leaves those whose name has one of its words."""
    every = [*_of(runner, (*PASSING, *ALONE)), *[two_at_once(runner)] * 4]
    only = [word for word in os.environ.get("SLOTKEEPER_CHAOS_ONLY", "").split(",") if word]
    return [one for one in every if not only or any(word in one.name for word in only)]


def _of(runner: str, acts: tuple[Act, ...]) -> list[Act]:
    return [one for one in acts if runner == "spark" or not one.spark]
