"""Canaries of a job on the product path: passwords of a file, a variable and a command, a salt, and values of a masked
column, which are copied, changed, deleted and quarantined; and a sink that repeats a password.

They are looked for in what the system shows of every process, in every file of state, run, log, temp and cache, and in
what every command says; the values also in every table, file and session of the sink.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import psutil
import pytest

from slotkeeper.console.commands.main import main_command
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.drivers import pg
from slotkeeper.core.launch import identity as processes
from slotkeeper.demo.run import SINK_DATABASE, SINK_USER
from tests.support.canaries import files_with, seen_in
from tests.support.product import Mirrored, Product
from tests.support.terminal import ROOT
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VARIABLE = "CANARY_SOURCE_PASSWORD"
OF_SOURCE, OF_SINK, OF_FILE = "cAnary-5e1a/source", "cAnary-77b0-sink", "cAnary-c3d4-file"
OF_SALT, OF_ROWS = "cAnary-5a17", "cAnary-d00d-row"
BEGINNING = "cAnary"
"""Of each canary, however the rest is spelled."""
FEW = ("jobs show", "jobs logs", "slots list", "slots peek", "errors show", "verify", "import", "doctor")
"""Of `EVERY`, for a run that is to be quick."""
WHY = ["--reason", "canary"]
TABLE = "ods.orders"
EVERY: dict[str, list[list[str]] | str] = {
    "demo": "creates servers with random passwords: `tests/integration/test_strangers.py`",
    "demo stop": "ends what `demo` started, and resolves no password",
    "init": [
        ["--source", "u@127.0.0.1:1/d", "--source-password-file", "{given}/other", "--sink", "u@127.0.0.1:1/d",
         "--sink-password-file", "{given}/sink", "--table", TABLE, "--into", "mart.o", "--job", "first", "--no-start"]
    ],
    "run": [["canary", "--wait", "0s", *WHY]],
    "agent": [[]],
    "jobs list": [["--json"], []],
    "jobs show": [["canary", "--json"], ["canary"]],
    "jobs start": [["canary", *WHY, "--json"]],
    "jobs pause": [["canary", "--wait", "20s", *WHY, "--json"]],
    "jobs resume": [["canary", "--wait", "20s", *WHY, "--json"]],
    "jobs limit": [["canary", "--rows", "5000", *WHY, "--json"]],
    "jobs recopy": [["canary", "ods.canary", *WHY, "--json"]],
    "jobs retry": [["canary", "--wait", "0s", *WHY, "--json"]],
    "jobs ensure": [[*WHY, "--json"]],
    "jobs logs": [["canary", "--json"], ["canary"]],
    "jobs drain": [["canary", "--wait", "0s", "--json"]],
    "watch": [["canary"]],
    "probe": [["live", "canary"], ["ready", "canary"]],
    "slots list": [["--json"], []],
    "slots show": [[TABLE, "canary", "--json"]],
    "slots peek": [[TABLE, "--json"]],  # with --unmask, it shows the values of a masked column
    "slots preflight": [[TABLE, "--json"]],
    "slots create": [[TABLE, "another", "--json"], [TABLE, "another", "--execute", *WHY, "--json"]],
    "slots register": [[TABLE, "canary", "--json"]],
    "slots drop": [[TABLE, "canary", "--json"], [TABLE, "another", "--execute", *WHY, "--json"]],
    "slots reset": [[TABLE, "canary", "--to", "earliest", "--json"]],
    "slots undo": [["20260101T000000-abcdef", "--json"]],
    "slots history": [[TABLE, "canary", "--json"]],
    "slots approve": [["4f2c", *WHY]],
    "locks list": [["--json"], ["canary"]],
    "locks end": [["1", "--began", "2026-01-01T00:00:00Z", "--sink", "mart", *WHY, "--json"]],
    "errors list": [["canary", "--json"]],
    "errors show": [["canary", "1", "--json"]],
    "errors replay": [["canary", "1", *WHY, "--json"]],
    "errors discard": [["canary", "1", "--json"]],
    "alerts list": [["--json"]],
    "alerts ack": [["00000000", *WHY]],
    "alerts unack": [["00000000"]],
    "alerts silence": [["canary", "--for", "1h", *WHY]],
    "alerts test": [["--json"]],
    "alerts serve": "runs until it is ended; serves what `status` prints and the metrics file has",
    "views list": [["--json"], []],
    "views show": [["canary", "dws.v", "--json"]],
    "views explain": [["canary", "dws.v", "--json"]],
    "views verify": [["canary", "dws.v", "--json"]],
    "views rebuild": [["canary", "dws.v", *WHY, "--json"]],
    "views drop": [["canary", "dws.v", "--json"]],
    "audit list": [["--json"]],
    "audit export": [[]],
    "audit accept": [WHY],
    "audit verify": [["--json"]],
    "sync show": [["--json"], []],
    "verify": [["canary", "--json"]],
    "status": [["--json"], []],
    "import": [["{given}/pasted.sql"], ["{given}/broken.sql", "{given}/pasted.sql"]],
    "doctor": [["--json"], ["--probe", "dws1"]],
    "config check": [["--json"]],
    "config show": [["--origin", "--json"]],
    "completion": [["bash"]],
    "docs": [["--json"], ["security"]],
    "man": [[]],
    "upgrade": [["--check"], ["--check", "--json"]],
    "jobs restart": [["canary", "--wait", "60s", *WHY, "--json"]],
    "jobs stop": [["canary", "--wait", "30s", *WHY, "--json"]],
    "jobs cancel": [["canary", *WHY, "--json"]],
}  # fmt: skip
"""Every command by its name, in the order in which they are run: the arguments of each run, or why it is not run."""
PASTED = """CREATE TABLE s (id INT) WITH ('connector' = 'dws', 'binlog' = 'true', 'password' = '{}', 'tableName' = 'o',
'url' = 'jdbc:gaussdb://u:{}@h:1/d?password={}', 'username' = 'u'"""
"""A pasted statement with three passwords, without its end."""
MASKED = """create_target = true
compute.note = "mask(note, 0, 2)"
compute.status = "sha256(salt() || status || note)"
salt_file = "{}/given/salt"
"""
"""In place of `create_target = true`: a masked column, whose name a raw one had, and a salted hash of it."""
ENDLESS = ("watch",)
"""Commands that end at Ctrl-C."""
EVENTS = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file://{}", "spark.eventLog.compress": "false"}


def commands(command: Any, *path: str) -> Iterator[str]:
    """The names of all commands, from Typer."""
    below = command.list_commands(None) if hasattr(command, "list_commands") else ()
    if not below or (path and command.invoke_without_command):
        yield " ".join(path)
    for name in below:
        yield from commands(command.get_command(None, name), *path, name)


def test_every_command_is_run_with_canaries_or_has_a_reason() -> None:
    assert sorted(commands(main_command())) == sorted(EVERY)


@pytest.fixture
def job(tmp_path: Path, spark_cache: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirrored]:
    """A job whose source has its password in a variable, its sink in a command, and a second sink in a file."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    product = Product(tmp_path / "product", rows=2_000, seed=seed, dns=2)
    try:
        made = product.job("canary", sink_options={"on_bad_row": "quarantine"})
        endpoint = product.warehouse.endpoint()
        with closing(product.warehouse.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(_password(endpoint.user, OF_SOURCE))
            cursor.execute(f"UPDATE {TABLE} SET note = '{OF_ROWS}' || order_no")
        with closing(product.sink.connect("postgres")) as connection, connection.cursor() as cursor:
            cursor.execute(_password(SINK_USER, OF_SINK))
        (tmp_path / "given").mkdir(mode=0o700)
        for name, canary in (("sink", OF_SINK), ("other", OF_FILE), ("salt", OF_SALT)):
            (tmp_path / "given" / name).write_text(canary, encoding="ascii")
            (tmp_path / "given" / name).chmod(0o600)
        pasted = PASTED.format(OF_FILE, OF_SOURCE, OF_SINK)
        (tmp_path / "given" / "pasted.sql").write_text(f"{pasted});\n", encoding="ascii")
        (tmp_path / "given" / "broken.sql").write_text(f"{pasted}, 'x = {OF_FILE}", encoding="ascii")
        text = made.config.read_text("utf-8")
        files = iter((f'password_env = "{VARIABLE}"', f'password_command = "cat {tmp_path}/given/sink"'))
        text = re.sub(r'^password_file = ".*"$', lambda found: next(files), text, flags=re.MULTILINE)
        (tmp_path / "events").mkdir()
        events = ", ".join(f'"{key}" = "{value.format(tmp_path / "events")}"' for key, value in EVENTS.items())
        text = text.replace("[jobs.canary.spark]\n", f"[jobs.canary.spark]\nsettings = {{ {events} }}\n")
        text = text.replace("create_target = true\n", MASKED.format(tmp_path))
        other = '[sinks.other]\nkind = "postgres"\nhost = "127.0.0.1"\nport = 1\ndatabase = "d"\nuser = "u"\n'
        other += f'password_file = "{tmp_path}/given/other"\n[alerts]\nmetrics_file = "{tmp_path}/temp/metrics"\n'
        made.config.write_text(f"{text}\n{other}", "utf-8")
        monkeypatch.setenv(VARIABLE, OF_SOURCE)
        load(made.config, os.environ)  # every command does this before it starts a process
        yield made
    finally:
        product.close()


def _password(user: str, secret: str) -> pg.sql.Composable:
    return pg.sql.SQL("ALTER ROLE {} PASSWORD {}").format(pg.sql.Identifier(user), pg.sql.Literal(secret))


def started(job: Mirrored) -> set[int]:
    view = job.view()
    assert view.driver is not None and view.supervisor is not None
    return {view.supervisor.pid, *processes.members(view.driver)}


def said(job: Mirrored, name: str, words: list[str]) -> tuple[str, set[str]]:
    """What a command of its own process says on both streams, with all secrets within its reach; and which of its
    children show a canary."""
    given = [one.format(given=job.config.parents[1] / "given") for one in words]
    config = job.config.with_name("first.toml") if name == "init" else job.config
    command = [sys.executable, "-P", "-m", "slotkeeper.console", "--config", str(config), *name.split(), *given]
    shown = set[str]()
    with (
        TemporaryFile() as told,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=told, stderr=subprocess.STDOUT) as ran,
    ):
        ends = time.monotonic() + (10 if name in ENDLESS else 150)
        while ran.poll() is None:
            shown |= {seen for child in children(ran.pid) if (seen := shows(child, ran.args))}
            if time.monotonic() > ends:
                assert name in ENDLESS, f"{name} did not end"
                ran.send_signal(signal.SIGINT)
                ran.wait(30)
            threading.Event().wait(0.02)
        told.seek(0)
        answer = told.read().decode()
    assert answer or name == "alerts unack", (name, words)
    if "--json" in words and ran.returncode == 0:
        assert [json.loads(line) for line in answer.splitlines() if line.startswith(("{", "["))], answer
    return answer, shown


def children(pid: int) -> list[psutil.Process]:
    """Return all running processes that a process has started."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def shows(child: psutil.Process, parents: object) -> str:
    """Return the command line of a child that shows a canary; before its exec, a child shows its parent's memory."""
    with suppress(psutil.Error):
        words = child.cmdline()
        if words != parents and seen_in(child.pid, BEGINNING) and child.cmdline() == words:
            return " ".join(words)
    return ""


def change_masked_rows(job: Mirrored) -> None:
    """Change and delete rows with a value of the masked column, one of which the target rejects, until the job has."""
    with closing(job.product.sink.connect(SINK_DATABASE)) as connection, connection.cursor() as cursor:
        cursor.execute("ALTER TABLE mart.canary ADD CONSTRAINT cheap CHECK (amount < 1e9) NOT VALID")
    with closing(job.product.warehouse.connect()) as connection, connection.cursor() as cursor:
        for change in (
            "UPDATE {} SET note = note || '!', amount = 2e9 WHERE order_no = 7",
            "UPDATE {} SET note = note || '?' WHERE order_no BETWEEN 100 AND 900",
            "DELETE FROM {} WHERE order_no BETWEEN 20 AND 40",
        ):
            cursor.execute(change.format(TABLE))

    def applied() -> bool:
        job.refuse_end()
        ((entries,),) = job.product.at_sink("SELECT count(*) FROM slotkeeper_quarantine")
        ((changed,),) = job.product.at_sink("SELECT count(*) FROM mart.canary WHERE note LIKE '**%%?'")
        return bool(entries == 1 and changed == 801)

    until(applied, 60, "the changes to be applied, but for one in quarantine")


def refuse_masked_values(job: Mirrored) -> None:
    """No table, file or session of the sink has a value of the masked column."""
    everywhere = job.product.at_sink(
        "SELECT format('%%I.%%I', table_schema, table_name) FROM information_schema.tables"
        " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
        " UNION SELECT '(SELECT query FROM pg_stat_activity WHERE pid <> pg_backend_pid())'"
    )
    assert len(everywhere) > 5
    for (name,) in everywhere:
        found = job.product.at_sink(f"SELECT count(*) FROM {name} t WHERE t::text LIKE '%%' || %s || '%%'", (OF_ROWS,))
        assert found == [(0,)], name
    with closing(job.product.sink.connect(SINK_DATABASE)) as connection, connection.cursor() as cursor:
        cursor.execute("CHECKPOINT")
    assert not files_with([job.product.demo.folder / "sink"], OF_ROWS)


def repeat_the_password(job: Mirrored) -> None:
    """From now on the sink's own error repeats both passwords, one of them in the form of a URL.

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
    """Return the sink's error from the state store, if it was stored already."""
    return next((one.message for one in job.product.store.errors(job.name) if "no route" in one.message), "")


@pytest.mark.parametrize(
    "names", [FEW, pytest.param(tuple(EVERY), marks=pytest.mark.chaos)], ids=["few", "every command"]
)
def test_no_canary_is_seen_in_a_process_a_file_or_an_answer(
    job: Mirrored, tmp_path: Path, spark_cache: Path, names: Sequence[str]
) -> None:
    job.start()
    job.wait_state(JobState.RUNNING)
    change_masked_rows(job)
    refuse_canaries(started(job))
    refuse_masked_values(job)
    repeat_the_password(job)
    job.product.insert_one()
    told = until(lambda: repeated(job), 60, "the sink's error is recorded")
    assert "no route: host=h password=*** via u:***@h" in told, told
    shown, processes_shown = list[tuple[str, list[str]]](), dict[str, set[str]]()
    for name in names:
        runs = EVERY[name]
        for words in runs if isinstance(runs, list) else ():
            answer, found = said(job, name, words)
            if BEGINNING in answer:
                shown.append((name, words))
            if found:
                processes_shown[name] = found
        if name == "jobs restart":
            refuse_canaries(started(job))
    assert not shown and not processes_shown
    events = [one for one in (tmp_path / "events").rglob("*") if one.is_file() and b"SparkListener" in one.read_bytes()]
    assert events, "Spark wrote an event log"
    folders = (job.product.demo.folder, tmp_path / "temp", tmp_path / "events", spark_cache)
    servers = [job.product.demo.folder / name for name in ("warehouse", "sink")]
    assert not [path for path in files_with(folders, BEGINNING) if not any(path.is_relative_to(one) for one in servers)]
    assert not [path for folder in (*folders, ROOT) for path in folder.glob("core.*") if path.is_file()]


def refuse_canaries(pids: set[int]) -> None:
    """Check that no process of a job, including JVM and workers, shows a canary or can write a core dump."""
    names = {psutil.Process(pid).name() for pid in pids}
    assert len(pids) >= 4 and "java" in names, names
    assert {pid: seen_in(pid, BEGINNING) for pid in pids} == dict.fromkeys(pids, "")
    assert {resource.prlimit(pid, resource.RLIMIT_CORE) for pid in pids} == {(0, 0)}
