"""Canary passwords of a job on the product path: a file's, a variable's and a command's, and a sink that repeats one.

They are looked for in what the system shows of every process, in every file of state, run, log, temp and cache, and in
what every command says. Next door: `tests/integration/test_secret_canaries.py` has the same chain without Spark.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from console.demo import SINK_DATABASE, SINK_USER
from core.config.load import load
from core.domain.job import JobState
from core.drivers import pg
from core.launch import identity as processes
from tests.support.canaries import files_with, seen_in
from tests.support.mirrored import Mirrored
from tests.support.product import Product
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VARIABLE = "CANARY_SOURCE_PASSWORD"
OF_SOURCE, OF_SINK, OF_FILE = "cAnary-5e1a/source", "cAnary-77b0-sink", "cAnary-c3d4-file"
BEGINNING = "cAnary"
"""Of each canary, however the rest is spelled."""
FEW = (
    ("jobs", "show", "canary", "--json"),
    ("jobs", "logs", "canary", "--json"),
    ("slots", "list", "--json"),
    ("doctor", "--json"),
)
EVERY = (
    *FEW,
    ("jobs", "list", "--json"),
    ("jobs", "show", "canary"),
    ("jobs", "drain", "canary", "--wait", "0s", "--json"),
    ("jobs", "pause", "canary", "--wait", "20s", "--json"),
    ("jobs", "resume", "canary", "--wait", "20s", "--json"),
    ("jobs", "start", "canary", "--json"),
    ("slots", "show", "canary", "--json"),
    ("slots", "register", "ods.orders", "canary", "--json"),
    ("slots", "drop", "ods.orders", "canary", "--json"),
    ("slots", "reset", "ods.orders", "canary", "--to", "earliest", "--json"),
    ("slots", "undo", "20260101T000000-abcdef", "--json"),
    ("slots", "peek", "ods.orders", "--json"),
    ("slots", "history", "ods.orders", "canary", "--json"),
    ("slots", "preflight", "ods.orders", "--json"),
    ("errors", "list", "canary", "--json"),
    ("audit", "list", "--json"),
    ("verify", "canary", "--json"),
    ("status", "--json"),
    ("audit", "verify", "--json"),
    ("config", "check", "--json"),
    ("config", "show", "--origin", "--json"),
)


@pytest.fixture
def job(tmp_path: Path, spark_cache: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirrored]:
    """A job whose source has its password in a variable, its sink in a command, and a second sink in a file."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    product = Product(tmp_path / "product", rows=2_000, seed=seed, dns=2)
    try:
        made = product.job("canary")
        endpoint = product.warehouse.endpoint()
        with closing(product.warehouse.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(_password(endpoint.user, OF_SOURCE))
        with closing(product.sink.connect("postgres")) as connection, connection.cursor() as cursor:
            cursor.execute(_password(SINK_USER, OF_SINK))
        (tmp_path / "given").mkdir(mode=0o700)
        for name, canary in (("sink", OF_SINK), ("other", OF_FILE)):
            (tmp_path / "given" / name).write_text(canary, encoding="ascii")
            (tmp_path / "given" / name).chmod(0o600)
        text = made.config.read_text("utf-8")
        files = iter((f'password_env = "{VARIABLE}"', f'password_command = "cat {tmp_path}/given/sink"'))
        text = re.sub(r'^password_file = ".*"$', lambda found: next(files), text, flags=re.MULTILINE)
        other = '[sinks.other]\nkind = "postgres"\nhost = "127.0.0.1"\nport = 1\ndatabase = "d"\nuser = "u"\n'
        made.config.write_text(f'{text}\n{other}password_file = "{tmp_path}/given/other"\n', "utf-8")
        monkeypatch.setenv(VARIABLE, OF_SOURCE)
        load(made.config, os.environ)  # as every command does before it starts something
        yield made
    finally:
        product.close()


def _password(user: str, secret: str) -> pg.sql.Composable:
    return pg.sql.SQL("ALTER ROLE {} PASSWORD {}").format(pg.sql.Identifier(user), pg.sql.Literal(secret))


def started(job: Mirrored) -> set[int]:
    """Supervisor, driver, JVM and Spark's workers."""
    view = job.view()
    assert view.driver is not None and view.supervisor is not None
    return {view.supervisor.pid, *processes.members(view.driver)}


def said(job: Mirrored, *words: str) -> str:
    """What a command of its own process says on both streams, with all three secrets within its reach."""
    command = [sys.executable, "-P", "-m", "console", "--config", str(job.config), *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=dict(os.environ))
    assert ran.stdout + ran.stderr, words
    if "--json" in words and ran.returncode == 0:
        json.loads(ran.stdout)
    return ran.stdout + ran.stderr


def repeat_the_password(job: Mirrored) -> None:
    """From now on the sink's own error repeats both passwords, one of them as a URL has it.

    It is raised where a step moves a position: a trigger on the target would end its table as TARGET CHANGED.
    """
    url = OF_SOURCE.replace("/", "%%2F")
    body = f"BEGIN RAISE EXCEPTION 'no route: host=h password={OF_SINK} via u:{url}@h'; END"
    with closing(job.product.sink.connect(SINK_DATABASE)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE FUNCTION mart.repeats() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
        cursor.execute(
            "CREATE TRIGGER repeats BEFORE UPDATE ON slotkeeper_progress FOR EACH ROW"
            " WHEN (OLD.position IS DISTINCT FROM NEW.position) EXECUTE FUNCTION mart.repeats()"
        )


def repeated(job: Mirrored) -> str:
    """The sink's error as the state store has it, or nothing yet."""
    return next((one.message for one in job.product.store.errors(job.name) if "no route" in one.message), "")


@pytest.mark.parametrize("commands", [FEW, pytest.param(EVERY, marks=pytest.mark.chaos)], ids=["few", "every command"])
def test_no_canary_is_seen_in_a_process_a_file_or_an_answer(
    job: Mirrored, tmp_path: Path, spark_cache: Path, commands: Sequence[tuple[str, ...]]
) -> None:
    job.start()
    job.wait_state(JobState.RUNNING)
    pids = started(job)
    names = {psutil.Process(pid).name() for pid in pids}
    assert len(pids) >= 4 and "java" in names, names
    assert {pid: seen_in(pid, BEGINNING) for pid in pids} == dict.fromkeys(pids, "")
    assert {resource.prlimit(pid, resource.RLIMIT_CORE) for pid in pids} == {(0, 0)}
    repeat_the_password(job)
    job.product.insert_one()
    told = until(lambda: repeated(job), 60, "the sink's error is recorded")
    assert "no route: host=h password=*** via u:***@h" in told, told
    shown = {words: BEGINNING in said(job, *words) for words in commands}
    assert not [words for words, found in shown.items() if found]
    folders = (job.product.demo.folder, tmp_path / "temp", spark_cache)
    servers = [job.product.demo.folder / name for name in ("warehouse", "sink")]
    found = [path for path in files_with(folders, BEGINNING) if not any(path.is_relative_to(one) for one in servers)]
    assert not found
