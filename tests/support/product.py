"""The product path for tests: two embedded servers of their own, real supervisors, real Spark; and ways to disturb it.

Several jobs may run over the same servers, one after another or at once, each with a slot and a target of its own.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from slotkeeper.core.drivers import pg
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo import workload
from slotkeeper.demo.plans import Mix
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.run import JOB, SINK_DATABASE, TARGET, Demo, DemoOptions
from slotkeeper.demo.warehouse import Warehouse
from slotkeeper.demo.workload import Workload
from tests.support.mirrored import Mirrored


class Product:
    """Two servers with the loaded table; `job` makes jobs over them, `close` ends everything."""

    def __init__(
        self,
        folder: Path,
        rows: int = 20_000,
        dns: int = 4,
        seed: int = 1,
        chunk: int = 50_000,
        spark: Mapping[str, str] | None = None,
    ) -> None:
        self.rows, self.seed, self.chunk = rows, seed, chunk
        self.demo = Demo(DemoOptions(rows=rows, dns=dns, seed=seed, spark=spark or {}), print)
        self.demo.folder.rmdir()
        self.demo.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.jobs: list[Mirrored] = []
        self._writers: Workload | None = None
        self._bursts = 0
        try:
            self.demo.prepare()
        except BaseException:
            self.demo.close()
            raise

    @property
    def warehouse(self) -> Warehouse:
        assert self.demo.warehouse is not None
        assert isinstance(self.demo.warehouse, Warehouse)
        return self.demo.warehouse

    @property
    def sink(self) -> Server:
        assert self.demo.sink is not None
        return self.demo.sink

    @property
    def store(self) -> Store:
        assert self.demo.store is not None
        return self.demo.store

    def job(self, name: str, sink_options: Mapping[str, object] | None = None, **binlog: object) -> Mirrored:
        """One more job from the table into `mart.<name>`; `binlog` and `sink_options` are further keys of its tables
        of these names."""
        text = self.demo.config.read_text(encoding="utf-8")
        text = text.replace(f'into = "{TARGET}"', f'into = "mart.{name}"').replace(JOB, name)
        keys = {"full_sync_binlog_batch_read_size": self.chunk, **binlog}
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        text = re.sub(r"^binlog = true\n", "binlog = true\n" + lines, text, flags=re.MULTILINE)
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in (sink_options or {}).items())
        text = re.sub(r"^(\[jobs\..*\.sink_options\]\n)", lambda head: head[1] + lines, text, flags=re.MULTILINE)
        config = self.demo.folder / f"{name}.toml"
        config.write_text(text, encoding="utf-8")
        self.jobs.append(Mirrored(self, name, config))
        return self.jobs[-1]

    def write(self, rate: float = 300.0, writers: int = 4, mix: Mix | None = None, seed: int | None = None) -> Workload:
        """Start writers; they go on through restarts of the source until `quiet`."""
        mix = mix or Mix(rows=self.rows)
        self._writers = Workload(self.connect, writers, rate, self.seed if seed is None else seed, mix)
        self._writers.start()
        return self._writers

    def quiet(self) -> None:
        """Stop the writers; raises what ended one before its time."""
        writers, self._writers = self._writers, None
        if writers is not None:
            writers.stop()

    def connect(self) -> pg.Connection:
        """A session at the source for writers."""
        return self.warehouse.connect(autocommit=False)

    def insert_one(self) -> None:
        """One booked insert on some DN, as a writer's."""
        with closing(self.warehouse.connect()) as connection:
            workload.bulk(connection, "insert", 20, first=900_000_000_000 + time.monotonic_ns() // 1_000_000)

    def burst(self, rows: int) -> None:
        """So many booked inserts of new orders, spread over the DNs, in large transactions."""
        with closing(self.warehouse.connect()) as connection:
            workload.bulk(connection, "insert", rows, workload.BULK_FIRST + self._bursts, seed=self.seed)
        self._bursts += rows

    def ledger(self) -> dict[str, int]:
        """Events per DN by the writers' own account."""
        return self.demo.ledger()

    def at_sink(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of a statement at the sink."""
        with closing(self.sink.connect(SINK_DATABASE)) as connection, connection.cursor() as cursor:
            cursor.execute(statement, tuple(values))
            return cursor.fetchall()

    def close(self) -> None:
        """End writers, jobs by their recorded identities, servers and files."""
        if self._writers is not None:
            for writer in self._writers.writers:
                writer.stop()
        try:
            for job in self.jobs:
                job.end()
        finally:
            self.demo.close()


def status_kib(pid: int, key: str = "VmHWM") -> int:
    """A figure of /proc/<pid>/status in KiB."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(rf"^{key}:\s+(\d+) kB", text, re.MULTILINE)
    assert found, f"{key} of {pid}"
    return int(found[1])
