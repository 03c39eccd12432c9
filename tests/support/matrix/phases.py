"""The moments at which a matrix harms its victims: each brings the job there, and back to an ordinary run afterwards.

A phase at a point of the protocol is reached on the wire (`wire.Gate`), never by luck.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.demo.scaling import add_dn, rename_dn
from tests.support.matrix.commands import Command
from tests.support.matrix.wire import Point, Stop
from tests.support.matrix.world import ITEMS, JOB, LINES, SLOT, World
from tests.support.printed import printed_to_repeat
from tests.support.storm.rig import words_of

REACHED = 60.0
MOST_DNS = 4
_FENCE = re.compile(rb"slotkeeper_progress(?: p)? SET position")
_TRUE = re.compile(rb"pgxc_register_binlog_sync_point\([^)]*, true,")
POINTS = {
    "copy": Point("sink", re.compile(rb"slotkeeper_chunks SET state = 'done'")),
    "before commit": Point("sink", _FENCE),
    "after commit": Point("sink", _FENCE, answer=True),
    "half registered": Point("source", _TRUE, _TRUE),
    "reset": Point("source", _TRUE, _TRUE, re.compile(rb"/reset-")),
    "shape change": Point("sink", re.compile(rb"ALTER TABLE"), re.compile(rb"ALTER TABLE")),
    "DN change": Point("sink", re.compile(rb"slotkeeper_progress SET dns|DELETE FROM \S*slotkeeper_progress\b")),
    "view round": Point("sink", re.compile(rb"slotkeeper_views SET rounds")),
}


@dataclass
class Moment:
    """The job at its point: `stop` is the connection that waits there, `command` a person's that is running."""

    stop: Stop | None = None
    command: Command | None = None
    leave: Callable[[], None] = lambda: None
    """Bring the job back to an ordinary run; everything that a person has to do for that is in `refused`."""
    refused: list[str] = field(default_factory=list)


def enter(world: World, phase: str, draw: random.Random) -> Moment:
    """Bring the job to a phase; AssertionError if it does not get there."""
    if phase == "idle":
        world.load.quiet()
        world.settle(person=False)
        return Moment()
    world.load.start()
    if phase == "stream":
        world.rest(draw.uniform(0.3, 2.0))
        return Moment()
    if phase in ("copy", "reset", "shape change", "DN change"):
        world.base = {}
    if phase == "reset":
        return _reset(world)
    if phase == "DN change":
        return _scaled(world, draw)
    stop = _armed(world, phase)
    if phase in ("copy", "shape change"):  # the job copies a table again whose columns have changed
        added = sum(one.startswith("added_") for one in world.columns(LINES))
        kind = draw.choice(("integer", "text DEFAULT 'new'", "numeric(12,2) DEFAULT 7.77", "timestamptz"))
        world.at_source(f"ALTER TABLE {LINES} ADD COLUMN added_{added} {kind}")
    return _at(world, Moment(stop))


def _armed(world: World, phase: str) -> Stop:
    return world.gate(POINTS[phase].side).stop_at(POINTS[phase])


def _at(world: World, moment: Moment) -> Moment:
    assert moment.stop is not None
    assert moment.stop.reached.wait(REACHED), f"{moment.stop.point} was not reached; {world.story()}"
    return moment


def _reset(world: World) -> Moment:
    """A reset to an earlier point has written the rows and registers them."""
    world.load.purger.held.set()
    world.must("jobs", "stop", JOB, "--table", ITEMS, "--wait", "2m")
    plan = world.must("slots", "reset", ITEMS, SLOT, "--to", "earliest")
    (command,) = printed_to_repeat(plan)
    stop = _armed(world, "reset")
    moment = Moment(stop, world.begun(*words_of(command)))

    def leave() -> None:
        assert moment.command is not None
        said, _ = moment.command.communicate(timeout=180)
        world.load.purger.held.clear()
        if moment.command.returncode:
            line = " ".join(said.split())[:300] or f"killed ({moment.command.returncode})"
            world.say(f"  the reset ended with {moment.command.returncode}: {line}")
            moment.refused.append("RESET UNFINISHED")
            _alive(world)
            resumed = world.typed("slots", "reset", "--resume", ITEMS, SLOT)
            world.say(f"  --resume ended with {resumed.code}: {' '.join(resumed.said.split())[:300]}")

    moment.leave = leave
    return _at(world, moment)


def _alive(world: World) -> None:
    """Wait until the job runs, or has ended: a driver that starts again has not reported yet which tables run."""

    def alive() -> bool:
        view = world.job.view()
        return (view.driver_alive and view.reported) or view.state in (JobState.DEAD, JobState.FAILED)

    world.wait(alive, 120, "the job to run", every=0.5)


def _scaled(world: World, draw: random.Random) -> Moment:
    """A DN joins, or has another name, and the job adopts the new set (after a removed one, it asks a person)."""
    warehouse = world.product.warehouse
    there = [dn for dn, _ in warehouse.nodes()]
    joins = len(there) < MOST_DNS and draw.random() < 0.5

    def change() -> None:
        if joins:
            add_dn(warehouse, f"dn_{len(there) + 1}", timeout=60)
        else:
            old = draw.choice(there)
            rename_dn(warehouse, old, old.removesuffix("_x") if old.endswith("_x") else f"{old}_x")

    stop = _armed(world, "DN change")
    failed: list[Exception] = []

    def scale() -> None:
        try:
            change()
        except (SlotkeeperError, pg.DriverError) as error:
            failed.append(error)

    thread = threading.Thread(target=scale, name="scaling", daemon=True)
    thread.start()

    def leave() -> None:
        thread.join(120)
        for error in failed:
            world.say(f"  the change of the DNs: {' '.join(str(error).split())[:200]}")

    return _at(world, Moment(stop, leave=leave))


def closed(world: World) -> None:
    """Let everything pass again, after a cell that has failed."""
    for side in ("source", "sink"):
        gate = world.gate(side)
        gate.pass_all()
        gate.whole(True)
    with suppress(Exception):
        world.load.purger.held.clear()
