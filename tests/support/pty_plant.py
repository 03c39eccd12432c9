"""Plants hostile texts wherever the console, the command line and the logs can meet a text that is not theirs.

In the state folder through the store where it lets them through, and past it with plain SQL and plain files where
somebody else might have written; at the source as names of slots and values of rows of the embedded stand-in.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from slotkeeper.core.domain.audit import Actor, AuditLine, Phase
from slotkeeper.core.domain.fault import Ack
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import Identity, JobReport, LaneReport
from slotkeeper.core.drivers import pg
from slotkeeper.core.launch import identity, log
from slotkeeper.core.state.alerts import AckFile
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.frames import Metrics
from slotkeeper.core.state.sqlite import FILE_NAME, Store
from slotkeeper.demo.warehouse import Warehouse
from tests.support.pty_payloads import NOT_IN_DATABASES, storable, tagged
from tests.support.standin import Surface

TABLE = "ods.hostile"
WIDE = "wide_rt"
"""The job whose every DN, error and line of log is hostile; `job_NN` has one text wherever a job has texts."""


@contextmanager
def living() -> Iterator[Identity]:
    """A process that can be recorded as a job's supervisor: it lives, and does nothing until its end."""
    code = "import sys; print('on', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield identity.of(process.pid)


def state(folder: Path, holder: Identity) -> None:
    """Everything that lies in a state folder."""
    texts = [storable(one) for one in tagged()]
    with Store.open(folder) as store:
        _job(store, WIDE, holder, [_lane(f"{text[:60]}{n}", text) for n, text in enumerate(texts)], "")
        for number, text in enumerate(texts):
            _job(store, f"job_{number:03}", holder, [_lane(text, text)], text)
            store.record_event(WIDE, text, text)
            store.record_error(WIDE, "source", text, text)
            log.say(store.folder, WIDE, text)
        for number, text in enumerate(texts[:8]):
            store.set_state(f"job_{number:03}", JobState.FAILED, text, text, text)
        with store.folder.log(WIDE).open("ab") as stream:
            stream.writelines(one.encode("utf-8", "surrogateescape") + b"\n" for one in tagged() if _encodes(one))
        _audit(store, texts)
        _files(store, texts, holder)
    _past_the_store(folder / FILE_NAME, texts)


def source(warehouse: Warehouse) -> list[str]:
    """A table with a hostile value per row and a slot per name, as far as the database takes them; those texts."""
    taken = [text for text, plain in zip(tagged(), _plain(), strict=True) if plain]
    warehouse.create_table(TABLE, "id bigint NOT NULL, note text, status text", ("id",))
    surface = Surface(warehouse)
    try:
        surface.start(TABLE, "wide_slot")
        for text in taken:
            surface.rows("SELECT * FROM pgxc_register_full_sync_point(%s, %s)", (TABLE, text[:200]))
    finally:
        surface.close()
    connection = warehouse.connect()
    try:
        with connection.cursor() as cursor:
            for number, text in enumerate(taken):
                cursor.execute(f"INSERT INTO {TABLE} VALUES (%s, %s, %s)", (number, text, text[:40]))
            cursor.execute(f"UPDATE {TABLE} SET status = note || 'x' WHERE id < 20")
    except pg.DriverError as error:
        raise AssertionError(f"the stand-in does not take the texts: {error}") from error
    finally:
        connection.close()
    return taken


def _plain() -> list[bool]:
    refused = set(NOT_IN_DATABASES)
    return [text[3:] not in refused for text in tagged()]


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _lane(shard: str, text: str) -> LaneReport:
    at, latest = 88_512_330, 88_512_330
    places = (f"{at}/3", str(latest), "88512290")
    said = LaneReport(shard, 1, text, text, *places, 5, 1.0, text, text, text, at=at, latest_at=latest, behind=0)
    return replace(said, shown=text or str(at))


def _job(store: Store, job: str, holder: Identity, lanes: list[LaneReport], text: str) -> None:
    store.register_job(job, text or "slotkeeper.toml")
    store.begin_run(job, f"run-{job}")
    store.set_supervisor(f"run-{job}", holder)
    report = JobReport(
        job,
        f"run-{job}",
        "RUNNING",
        text,
        text,
        text,
        3,
        tuple(lanes),
        changes=7,
        tasks_started=1,
        environment=text[:40],
    )
    assert store.put_report(report)
    if text:
        store.record_event(job, text, text)
        store.record_error(job, text, text, text)


def _audit(store: Store, texts: list[str]) -> None:
    audit, now = Audit(store.folder), datetime.now(timezone.utc)
    for number, text in enumerate(texts):
        line = AuditLine(
            now - timedelta(seconds=number),
            Actor(text, text, 1, text, text),
            text,
            f"{number}{text}",
            Phase.OUTCOME,
            text,
            text,
            text,
            text,
            {text: text},
        )
        audit.append(line)


def _files(store: Store, texts: list[str], holder: Identity) -> None:
    """Marks of unfinished resets, acknowledgements, records of actions and what those said."""
    now = datetime.now(timezone.utc)
    acks = AckFile(store.folder)
    for number, text in enumerate(texts[:30]):
        acks.put(f"error {WIDE} {text}", Ack(text, now))
        mark = {"job": text if number % 2 else f"job_{number:03}", "table": text, "slot": text}
        _put(store, "resets", f"mark{number}", mark)
        id = f"{now:%Y%m%dT%H%M%S}-{number:06x}"
        record = {
            "id": id,
            "argv": ["jobs", "restart", text],
            "what": text,
            "key": f"job_{number:03}",
            "by": text,
            "changes": True,
            "started_at": now.isoformat(),
            "child": None,
            "command": None,
            "ended_at": now.isoformat() if number % 2 else None,
            "code": 1,
        }
        _put(store, "actions", id, record)
        for name in ("out", "err"):
            (store.folder.path / "actions" / f"{id}.{name}").write_bytes(text.encode("utf-8", "surrogateescape"))


def _put(store: Store, kind: str, name: str, value: object) -> None:
    place = store.folder.path / kind
    place.mkdir(mode=0o700, exist_ok=True)
    (place / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")


def _past_the_store(file: Path, texts: list[str]) -> None:
    """What the store itself would have made visible, or refused."""
    connection = sqlite3.connect(file)
    try:
        for number, text in enumerate(texts):
            connection.execute(
                "UPDATE jobs SET reason = ?, trouble = ?, safe = ?, config = ? WHERE name = ?",
                (text, text, text, text, f"job_{number:03}"),
            )
            connection.execute(
                "UPDATE errors SET message = ?, code = ? WHERE job = ?", (text, text, f"job_{number:03}")
            )
            connection.execute("UPDATE events SET text = ?, event = ? WHERE job = ?", (text, text, f"job_{number:03}"))
        connection.commit()
    finally:
        connection.close()


def frames(folder: Path) -> None:
    """What was, for the replay: the jobs as they are now, hostile as they are."""
    from slotkeeper.core.launch.view import observe_all
    from slotkeeper.core.state.frames import Frame

    with Store.open(folder) as store:
        metrics, now = Metrics(store), datetime.now(timezone.utc)
        for age in (20, 10, 0):
            for view in observe_all(store)[:20]:
                metrics.add(Frame(view, now - timedelta(seconds=age)), None)


def harm(folder: Path) -> dict[str, object]:
    """What an action would have changed: compared before and after."""
    connection = sqlite3.connect(f"file:{folder / FILE_NAME}?mode=ro", uri=True)
    try:
        jobs = connection.execute("SELECT name, state, wanted, run FROM jobs ORDER BY name").fetchall()
    finally:
        connection.close()
    kept = ("audit.jsonl", "console/acks.json")
    files = {name: (folder / name).read_bytes() for name in kept if (folder / name).exists()}
    listed = sorted(one.name for kind in ("actions", "resets", "plans") for one in (folder / kind).glob("*"))
    return {"jobs": jobs, "files": files, "listed": listed, "owned": os.path.lexists("owned")}
