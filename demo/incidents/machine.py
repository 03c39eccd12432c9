"""Incidents of the job's host: another host takes over the job, the driver is killed, or the disk is full."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.errors import Refused
from slotkeeper.demo.incidents.record import (
    START,
    STOP,
    VERIFY,
    Command,
    Incident,
    Manual,
    Refusal,
    World,
    by_status,
)
from slotkeeper.demo.incidents.slots import FEW, write

ELSEWHERE = "elsewhere.toml"
_DRIVER = re.compile(r"^driver\s+pid (\d+) ", re.MULTILINE)
_BLOCK = 64 * 1024
_TAKEN_WITHIN = 120.0


def _second_job(world: World) -> str:
    """Start the same job with another state folder, as on another host."""
    text = world.config.read_text(encoding="utf-8")
    other = world.config.with_name(ELSEWHERE)
    state = world.config.with_name("state-elsewhere")
    other.write_text(text.replace(str(world.state), str(state)), encoding="utf-8")
    world.opened.callback(partial(_stop_elsewhere, world))
    watching = threading.Thread(target=_begins_with_its_epoch, args=(world, _epoch(world)), daemon=True)
    watching.start()
    begun = world.run(("--config", str(other), "jobs", "start", "orders_rt", "--take-over", "--wait", "2m"))
    watching.join(_TAKEN_WITHIN)
    if begun.code:
        raise Refused(f"the second job is not running: {begun.text}")
    write(world, FEW)
    return "the same job was started on another host, with --take-over"


def _begins_with_its_epoch(world: World, before: int) -> None:
    """Wait for the epoch of the second job's start: from then on the sink rejects the first job's steps."""
    end = time.monotonic() + _TAKEN_WITHIN
    while time.monotonic() < end:
        if _epoch(world) > before:
            world.begins()
            return
        time.sleep(0.1)


def _epoch(world: World) -> int:
    with closing(world.connect_sink()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT max(epoch) FROM slotkeeper_progress")
        return int(cursor.fetchall()[0][0])


def _stop_elsewhere(world: World) -> None:
    other = world.config.with_name(ELSEWHERE)
    world.run(("--config", str(other), "jobs", "stop", "orders_rt"))


def _kill_driver(world: World) -> str:
    found = _DRIVER.search(world.run(("jobs", "show", "orders_rt")).text)
    if found is None:
        raise Refused("no running driver found for the job")
    world.begins()
    os.kill(int(found[1]), signal.SIGKILL)
    write(world, FEW)
    return f"the driver (pid {found[1]}) was killed by SIGKILL, as the kernel's OOM killer would do"


def _fill_disk(world: World) -> str:
    with _filler(world).open("wb", buffering=0) as file, suppress(OSError):
        for size in (_BLOCK, 1):
            with suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass
    world.begins()
    write(world, FEW)
    return f"{_filler(world)} filled the disk of the state folder"


def _filler(world: World) -> Path:
    return world.state.parent / "core.dump"


SECOND_JOB = Incident(
    "second-job",
    6,
    "The job was superseded by a start on another host",
    "the same job is started on another host, with --take-over",
    _second_job,
    by_status(1, ("superseded", "taken over"), "job_stopped", Party.PROCESS),
    Refusal(Command("slotkeeper jobs start orders_rt --wait 2m", (1, 3)), ("is held", "holds the lease")),
    (
        Manual(
            STOP.text,
            _stop_elsewhere,
            lambda world: f"slotkeeper --config {world.config.with_name(ELSEWHERE)} jobs stop orders_rt",
        ),
        START,
        VERIFY,
    ),
    stand_in="another state folder on this host represents the other host",
)
DRIVER_KILLED = Incident(
    "driver-killed",
    11,
    "The driver was killed or crashes repeatedly",
    "the job's driver is killed by SIGKILL",
    _kill_driver,
    by_status(1, ("SIGKILL",), "driver_crashed", Party.PROCESS),
    Refusal(Command(START.text, (3,)), ("is already running",)),
    (VERIFY,),
)
DISK_FULL = Incident(
    "disk-full",
    16,
    "The disk of the state folder is full",
    "the disk of the state folder fills up",
    _fill_disk,
    by_status(2, ("is full",), "disk_full", Party.MACHINE),
    Refusal(Command("slotkeeper jobs pause orders_rt", (1, 3, 5)), ("is full",)),
    (
        Manual(
            "delete files to free space", lambda world: _filler(world).unlink(), lambda world: f"rm {_filler(world)}"
        ),
        Command("slotkeeper doctor"),
        VERIFY,
    ),
    small_disk=True,
)
EVERY = (SECOND_JOB, DRIVER_KILLED, DISK_FULL)
