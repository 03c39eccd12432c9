"""The victims of a matrix: how each is harmed, and how the harm ends, without any command of a person."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass

from slotkeeper.core.launch import identity as processes
from slotkeeper.demo.run import SINK_DATABASE
from tests.support.matrix.phases import Moment
from tests.support.matrix.world import JOB, World
from tests.support.product import killed
from tests.support.proxy import Line
from tests.support.terminal import Terminal, console

HARM = (4.0, 9.0)
"""Seconds for which a lasting harm lasts."""
Harm = Callable[[World, Moment, random.Random], str]
"""Harm, until the harm has ended; returns the other random choices."""


@dataclass(frozen=True, slots=True)
class Victim:
    """`before` prepares the harm before the phase is entered."""

    harm: Harm
    before: Callable[[World], None] = lambda world: None
    spark: bool = False
    """Whether only a job on Spark has it."""
    root: bool = False
    """Whether only root can harm it."""


def _nothing(world: World) -> None:
    return


# -- processes

_open: list[Terminal] = []


def _open_console(world: World) -> None:
    terminal = Terminal(console(world.job.config))
    terminal.__enter__()
    _open.append(terminal)
    terminal.shows("Overview")


def _kill_console(world: World, moment: Moment, draw: random.Random) -> str:
    terminal = _open.pop()
    terminal.process.kill()
    terminal.__exit__(None, None, None)
    if moment.command is not None:
        moment.command.kill()
        return "and the command that it runs"
    return ""


def _kill(kind: str) -> Harm:
    def harm(world: World, moment: Moment, draw: random.Random) -> str:
        world.job.kill(kind)  # type: ignore[arg-type]
        return ""

    return harm


def _tree(world: World) -> set[int]:
    view = world.job.view()
    return {pid for one in (view.supervisor, view.driver) if one for pid in processes.members(one)}


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _freeze(world: World, moment: Moment, draw: random.Random) -> str:
    pids, lasts = _tree(world), draw.uniform(*HARM) * 2
    try:
        _signal(pids, signal.SIGSTOP)
        world.rest(lasts)
    finally:
        _signal(pids, signal.SIGCONT)
    return f"{len(pids)} processes, {lasts:.0f} s"


def _kill_host(world: World, moment: Moment, draw: random.Random) -> str:
    """Everything of the job at once, stopped first, so that none replaces another; `jobs ensure` of the timer follows.

    The command of a person runs on the same host.
    """
    pids = _tree(world)
    if moment.command is not None:
        pids.add(moment.command.pid)
    _signal(pids, signal.SIGSTOP)
    _signal(pids, signal.SIGKILL)
    return f"{len(pids)} processes"


# -- servers


def _end_sessions(side: str) -> Harm:
    def harm(world: World, moment: Moment, draw: random.Random) -> str:
        database = world.product.warehouse.database if side == "source" else SINK_DATABASE
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s"
        with closing(world.server(side).connect(database)) as connection, connection.cursor() as cursor:
            cursor.execute(ended, (f"slotkeeper/{JOB}/%",))
            return f"{cursor.rowcount} sessions"

    return harm


def _restart(side: str) -> Harm:
    def harm(world: World, moment: Moment, draw: random.Random) -> str:
        world.server(side).restart("immediate")
        return ""

    return harm


def _copy_sink(world: World) -> None:
    """An older copy of the sink, and changes after it."""
    sink = world.product.sink
    sink.stop("immediate")
    older = sink.data_dir.with_name("older")
    shutil.rmtree(older, ignore_errors=True)
    subprocess.run(["cp", "-a", str(sink.data_dir), str(older)], check=True)
    sink.restart("immediate")
    world.load.start()
    world.settle(person=False)


def _fail_over(world: World, moment: Moment, draw: random.Random) -> str:
    sink = world.product.sink
    world.base = {}
    older, newer = sink.data_dir.with_name("older"), sink.data_dir.with_name("newer")
    sink.stop("immediate")
    sink.data_dir.rename(newer)
    older.rename(sink.data_dir)
    shutil.rmtree(newer)
    sink.restart("immediate")
    return ""


# -- connections


def _line(line: Line, *sides: str) -> Harm:
    def harm(world: World, moment: Moment, draw: random.Random) -> str:
        chosen = sides or (draw.choice(("source", "sink")),)
        lasts, cut = draw.uniform(*HARM), draw.random() < 0.5
        for side in chosen:
            world.gate(side).set(line)
        if moment.stop is not None:
            moment.stop.release()  # what waited there meets the connection as it is now
        world.rest(lasts)
        for side in chosen:
            world.gate(side).whole(cut)
        old = "reset" if cut else "silent for good"
        return f"{' and '.join(chosen)}, {lasts:.0f} s, the old connections {old}"

    return harm


# -- the host


def _fill(world: World, moment: Moment, draw: random.Random) -> str:
    lasts, filler = draw.uniform(*HARM), world.product.demo.state_folder.with_name("filler")
    try:
        with filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        if moment.stop is not None:
            moment.stop.release()
        world.rest(lasts)
    finally:
        filler.unlink()
    return f"the state folder's, {lasts:.0f} s"


def _step_clock(world: World, moment: Moment, draw: random.Random) -> str:
    """The clock of this host jumps, and stays so."""
    by = draw.choice((-3_600, 3_600))
    world.clock.write_text(str(float(world.clock.read_text("ascii")) + by), "ascii")
    return f"{by:+,} s"


def _kill_worker(world: World, moment: Moment, draw: random.Random) -> str:
    for worker in world.job.workers():
        killed(worker)
    return ""


VICTIMS = {
    "console": Victim(_kill_console, _open_console),
    "supervisor": Victim(_kill("supervisor")),
    "driver": Victim(_kill("driver")),
    "JVM": Victim(_kill("jvm"), spark=True),
    "Python worker": Victim(_kill_worker, spark=True),
    "source sessions": Victim(_end_sessions("source")),
    "sink sessions": Victim(_end_sessions("sink")),
    "source restart": Victim(_restart("source")),
    "sink restart": Victim(_restart("sink")),
    "failover to an older copy": Victim(_fail_over, _copy_sink),
    "line to source cut": Victim(_line(Line.CUT, "source")),
    "line to sink cut": Victim(_line(Line.CUT, "sink")),
    "half-open": Victim(_line(Line.HALF_OPEN)),
    "black hole": Victim(_line(Line.BLACK_HOLE)),
    "slow": Victim(_line(Line.SLOW, "source", "sink")),
    "disk full": Victim(_fill, root=True),
    "clock step": Victim(_step_clock),
    "frozen tree": Victim(_freeze),
    "host": Victim(_kill_host),
}
