"""TPC-B by pgbench over the stand-in, mirrored by one job of four channels on the product path.

The history gets a key, because a table without one cannot be mirrored.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slotkeeper.core.drivers import pg
from slotkeeper.demo.binaries import find_binaries
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.run import SINK_DATABASE, TARGET
from tests.support.mirrored import Mirrored
from tests.support.product import Product
from tests.support.standin import run

KEYS = {"branches": "bid", "tellers": "tid", "accounts": "aid", "history": "id"}
SUMS = {"branches": "bbalance", "tellers": "tbalance", "accounts": "abalance", "history": "delta"}

_SCRIPT = r"""
\set aid random(1, :accounts)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""
"""pgbench's own `tpcb-like`, but for the number of accounts."""

Checksum = tuple[int, int]
"""How many rows, and the sum of a hash of each row's text."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much is written: `rate` is transactions a second of all clients together, `longest` in seconds.

    `accounts` of each branch: pgbench makes 100,000, which two cores would only be copying.
    """

    branches: int = 5
    accounts: int = 20_000
    clients: int = 6
    rate: int = 300
    longest: int = 1_200


class Tpcb:
    """Four tables at the source, loaded by pgbench, and a job that mirrors them."""

    def __init__(self, product: Product, load: Load, name: str) -> None:
        self.product = product
        self.load = load
        self._pgbench("-i", "-I", "dtg", "-s", str(load.branches), "-q")
        run(product.warehouse, f"DELETE FROM pgbench_accounts WHERE aid > {load.accounts * load.branches}")
        keyed = [f"ALTER TABLE pgbench_{table} ADD PRIMARY KEY ({key})" for table, key in KEYS.items()]
        run(product.warehouse, "ALTER TABLE pgbench_history ADD COLUMN id bigserial", *keyed)
        for table, key in KEYS.items():
            product.warehouse.enable_binlog(f"public.pgbench_{table}", (key,))
        run(
            product.warehouse,
            *(f"GRANT SELECT ON pgbench_{table} TO {product.warehouse.endpoint().user}" for table in KEYS),
        )
        self.job = _of_four_channels(product.job(name))

    @contextmanager
    def written(self) -> Iterator[subprocess.Popen[str]]:
        """pgbench's own TPC-B transaction by all clients beside the block."""
        load = self.load
        script = self.product.demo.folder / "tpcb.sql"
        script.write_text(_SCRIPT, encoding="utf-8")
        options = ["-n", "-f", str(script), "-s", str(load.branches), "-D", f"accounts={load.accounts * load.branches}"]
        options += ["-c", str(load.clients), "-j", "2", "-R", str(load.rate), "-T", str(load.longest)]
        running = self._started(*options)
        try:
            yield running
            assert running.poll() is None, running.communicate()[0][-2000:]
        finally:
            running.kill()  # what it has not committed by now is rolled back
            running.communicate()

    def checksums(self, end: str) -> dict[str, Checksum]:
        """By table; nothing of ours has a part in it but the connection."""
        hashed = "SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM {} t"
        return self._asked(end, hashed)

    def sums(self, end: str) -> dict[str, Checksum]:
        """Rows and the sum of the balances (of the history, of what was moved), by table."""
        return self._asked(end, "SELECT count(*), coalesce(sum({}), 0) FROM {}", SUMS)

    def _asked(self, end: str, statement: str, columns: dict[str, str] | None = None) -> dict[str, Checksum]:
        place = "public" if end == "source" else "mart"
        source = end == "source"
        connection = self.product.connect() if source else self.product.sink.connect(SINK_DATABASE, autocommit=False)
        found = {}
        try:
            with pg.transaction(connection) as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                for table in KEYS:
                    name = f"{place}.pgbench_{table}"
                    cursor.execute(statement.format(*([columns[table]] if columns else []), name))
                    rows, total = cursor.fetchall()[0]
                    found[table] = (int(rows), int(total))
        finally:
            connection.close()
        return found

    def _pgbench(self, *options: str) -> None:
        self._ended(self._started(*options))

    def _started(self, *options: str) -> subprocess.Popen[str]:
        server, database = self.product.warehouse.server, self.product.warehouse.database
        words = [_program(), "-h", server.host, "-p", str(server.port), "-U", server.superuser]
        password = server.password_file.read_text(encoding="utf-8").strip()
        environment = {**os.environ, "PGPASSWORD": password, "PGAPPNAME": "pgbench"}
        return subprocess.Popen(
            [*words, *options, database],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def _ended(self, running: subprocess.Popen[str]) -> None:
        told, _ = running.communicate(timeout=300)
        assert running.returncode == 0, told[-2000:]


def _program() -> str:
    beside = find_binaries().program("pgbench")
    found = beside if Path(beside).exists() else shutil.which("pgbench")
    assert found, "pgbench is not beside the server's programs, nor in PATH"
    return found


def _of_four_channels(job: Mirrored) -> Mirrored:
    """The job with these four channels in the place of its one."""
    text = job.config.read_text(encoding="utf-8")
    one = re.search(r"\[\[jobs\.\w+\.channels\]\]\nfrom = .*\ninto = .*\ncreate_target = true\n", text)
    assert one, f"a channel from {TABLE} into {TARGET}"
    four = "\n".join(
        re.sub(r'into = ".*"', f'into = "mart.pgbench_{table}"', one[0].replace(TABLE, f"public.pgbench_{table}"))
        for table in KEYS
    )
    job.config.write_text(text.replace(one[0], four), encoding="utf-8")
    return job
