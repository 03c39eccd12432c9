"""All disturbances for half an hour, on Spark and on the local runner: 0 lost, 0 doubled, equal tables.

    make chaos ARGS="tests/chaos/test_storm.py -s"                           both, half an hour each
    SLOTKEEPER_CHAOS_SECONDS=120 make chaos ARGS="tests/chaos/test_storm.py -s -k local"     two minutes of one

`SLOTKEEPER_CHAOS_ONLY=failover,reset` selects the acts whose name has one of these words, `SLOTKEEPER_TEST_SEED`
repeats the order of a run. An act of `ALONE` needs a remedy afterwards, or runs alone; two acts of `PASSING` can run at
once; `settle` of the rig follows each act.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import psutil
import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.launch import identity as processes
from tests.support.printed import printed_to_repeat
from tests.support.proxy import Line
from tests.support.report import FOLDER, FOLDER_VARIABLE, machine
from tests.support.storm.rig import ALL, JOB, SLOT, TARGETS, Rig, seconds, words_of
from tests.support.terminal import Terminal, console

MOST_COLUMNS = 6
"""The maximum number of columns that a run adds to one table."""
LONGEST = "tpcb.bulk"
"""The table with the longest replay."""


@dataclass(frozen=True, slots=True)
class Act:
    """`person`: a printed command may have to be typed afterwards. `spark`: only a run on Spark has the process to
    kill.
    """

    name: str
    run: Callable[[Rig, random.Random], str]
    """Returns the other random choices, for the log."""
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
    """Kill every process of the job at once: only `jobs ensure` starts it again."""
    _alive(rig)
    view = rig.job.view()
    for one in (view.supervisor, view.driver):
        assert one is not None and processes.kill_members(one)
    return ""


def kill_command(rig: Rig, draw: random.Random) -> str:
    """Kill a command at a random moment; `--resume` finishes a reset that it leaves behind."""
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
    with Terminal(console(rig.job.config)) as terminal:
        terminal.shows("Overview")
        terminal.send(str(draw.randint(1, 6)))
        rig.rest(draw.uniform(0.1, 2.0))
        terminal.process.kill()
    return ""


def freeze(rig: Rig, draw: random.Random) -> str:
    """Send SIGSTOP to the whole process tree for a while, then SIGCONT."""
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


# -- servers and connections


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
    """Pause one table and resume it while the others continue."""
    table = draw.choice(ALL)
    rig.typed("jobs", "pause", JOB, "--table", table)
    rig.rest(draw.uniform(0.5, 6.0))
    _as_wanted(rig, table)
    return table


def _as_wanted(rig: Rig, table: str) -> None:
    """Make sure that a table runs after a command has paused or stopped it."""

    def state() -> str:
        return next((one.state for one in rig.tables() if one.source_table == table), "")

    def done() -> bool:
        verb = {"PAUSED": "resume", "STOPPED": "start"}.get(state())
        if verb:
            rig.typed("jobs", verb, JOB, "--table", table, "--wait", "20s")
        return state() not in ("PAUSED", "STOPPED")

    rig.wait(done, 240, f"{table} to run")


def stop_and_start(rig: Rig, draw: random.Random) -> str:
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
    """Kill a reset while it moves a table; `--resume` finishes it or rolls it back."""
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
    """The sink fails over to an older copy of itself: changes applied since then are missing."""
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
    """Another session truncates a target, of a running or a stopped table: TARGET CHANGED, and then a snapshot."""
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
    """An undo in the middle of a replay ends with 3, one after it is planned; the job continues until the tables are
    equal.
    """
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
    """For each lane of the longest table: DN, changes, sync point, and the point that the reset noted, 0 if none."""
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
    """Run two different acts that need no remedy, a moment apart."""

    def act(rig: Rig, draw: random.Random) -> str:
        both = draw.sample(_of(runner, PASSING), 2)
        rig.paired.update(one.name for one in both)
        found: dict[str, str] = {}
        seeds = [random.Random(draw.random()) for _ in both]
        apart = draw.uniform(0.0, 3.0)

        def one(chosen: Act, own: random.Random) -> None:
            try:
                found[chosen.name] = chosen.run(rig, own)
            except Exception as error:  # no caller catches the exception of a thread
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
    """The acts of a run, each once; `SLOTKEEPER_CHAOS_ONLY` selects those whose name has one of its words."""
    every = [*_of(runner, (*PASSING, *ALONE)), *[two_at_once(runner)] * 4]
    only = [word for word in os.environ.get("SLOTKEEPER_CHAOS_ONLY", "").split(",") if word]
    return [one for one in every if not only or any(word in one.name for word in only)]


def _of(runner: str, acts: tuple[Act, ...]) -> list[Act]:
    return [one for one in acts if runner == "spark" or not one.spark]


HEAD = """\
# Everything at once

TPC-B, keys deleted and inserted again several times in one transaction, changed keys and bulk changes of up to 40,000
rows, from one seed, mirrored by one job of seven tables on three DNs. One disturbance after another, each followed by
a wait until all that was committed has arrived. After every eighth, and after each that needs a person, the writers
pause: all tables are compared by an ordered hash of their own, by `slotkeeper verify`, and the progress rows with the
writers' ledger (for tables that were not reset, altered or failed over since). What a person has to do is typed as it
is printed. Next to this page: `tests/chaos/test_storm.py`.
"""
TITLES = {"spark": "On Spark", "local": "On the local runner"}


def write(rig: Rig, took: Mapping[str, list[float]], troubles: Mapping[str, Counter[str]], whole: bool) -> None:
    """Put this run's section into the page of the day."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, FOLDER))
    file = folder / f"chaos-run-{datetime.now(timezone.utc):%Y-%m-%d}.md"
    known = _sections(file.read_text(encoding="utf-8")) if file.exists() else {}
    known[TITLES[rig.runner]] = _section(rig, took, troubles, whole)
    text = "\n".join([HEAD, *(f"## {title}\n\n{known[title]}" for title in TITLES.values() if title in known)])
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _sections(text: str) -> dict[str, str]:
    """Sections by title.

    >>> _sections("# A\\n\\n## On Spark\\n\\nx\\n\\n## B\\n\\ny\\n")
    {'On Spark': 'x\\n', 'B': 'y\\n'}
    """
    found = re.split(r"^## (.*)\n\n", text, flags=re.MULTILINE)[1:]
    return {title: f"{body.strip()}\n" for title, body in zip(found[::2], found[1::2], strict=True)}


def _section(rig: Rig, took: Mapping[str, list[float]], troubles: Mapping[str, Counter[str]], whole: bool) -> str:
    tally, load = rig.tally, rig.load
    times = sum(map(len, took.values()))
    lines = [
        machine(),
        "",
        f"Seed {rig.seed}, {(time.monotonic() - rig.began) / 60:.1f} minutes,"
        f" {'to its end' if whole else 'BROKEN OFF, see the log'}: {times} disturbances of {len(took)} kinds,"
        f" {load.committed:,} transactions committed, {tally.looks} looks.",
        "",
        f"- Ledger: {tally.counted:,} events compared, {tally.lost} lost, {tally.doubled} doubled.",
        f"- Tables and sums: {'equal at each look' if not tally.differing else '; '.join(tally.differing)}.",
        f"- `slotkeeper verify`: exit codes {dict(Counter(tally.verified))}.",
        f"- Typed: {rig.cured} printed remedies, {rig.ensured} times `jobs ensure`.",
        f"- Of two at once: {', '.join(f'{name} {count}' for name, count in sorted(rig.paired.items())) or '-'}.",
        "",
        "| disturbance | times | median s until all arrived | most | named trouble |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, each in sorted(took.items()):
        named = ", ".join(f"{trouble} {count}" for trouble, count in troubles[name].items()) or "-"
        lines.append(f"| {name} | {len(each)} | {statistics.median(each):.1f} | {max(each):.1f} | {named} |")
    return "\n".join(lines) + "\n"


LOGS = FOLDER.parent / ".cache"
OVER = 3_600
"""Seconds beyond those of the run that a start, the last act, its remedies and the last check may take."""
BETWEEN_READS = 8

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(int(seconds()) + OVER)]


@dataclass
class Run:
    """Acts in a seeded order, each followed by a wait until every change has arrived; a check after every few."""

    rig: Rig
    draw: random.Random
    took: dict[str, list[float]] = field(default_factory=dict)
    troubles: dict[str, Counter[str]] = field(default_factory=dict)
    left: list[Act] = field(default_factory=list)
    since_look: int = 0

    def until(self, end: float) -> None:
        """Disturb until `end`, and at least once; every act runs once before any is repeated."""
        while time.monotonic() < end or not self.took:
            if not self.left:
                every = chosen(self.rig.runner)
                self.left = self.draw.sample(every, len(every))
            act = self.left.pop()
            self._one(act)
            if self.since_look >= BETWEEN_READS or act.person:
                self._look()
                self.rig.load.start()
        self._look()

    def _one(self, act: Act) -> None:
        rig = self.rig
        rig.rest(self.draw.uniform(0.5, 3.0))
        rig.troubles.clear()
        rig.say(f"{act.name} ...")
        drawn = act.run(rig, self.draw)
        took = rig.settle(act.person)
        self.took.setdefault(act.name, []).append(took)
        self.troubles.setdefault(act.name, Counter()).update(rig.troubles)
        self.since_look += 1
        rig.say(f"{act.name} ({drawn}): all arrived after {took:.1f} s {dict(Counter(rig.troubles)) or ''}")

    def _look(self) -> None:
        self.since_look = 0
        self.rig.look()


@pytest.fixture
def rig(tmp_path: Path, seed: int, runner: str) -> Iterator[Rig]:
    made = Rig(tmp_path / "p", runner, seed, LOGS / f"chaos-run-{runner}.log")
    yield made
    made.close()


@pytest.mark.parametrize("runner", [pytest.param("spark", marks=pytest.mark.spark), "local"])
def test_nothing_is_lost_or_doubled_whatever_happens(rig: Rig, runner: str, seed: int) -> None:
    rig.say(f"{runner}, seed {seed}, {seconds():.0f} s")
    run = Run(rig, random.Random(f"{seed} {runner}"))
    whole = False
    try:
        rig.start()
        run.until(time.monotonic() + seconds())
        whole = True
        rig.must("jobs", "stop", rig.job.name, "--wait", "2m")
        assert rig.job.left() == []
    finally:
        write(rig, run.took, run.troubles, whole)
