"""Hostile texts, each of which would do something to a terminal, a reader, a parser or a spreadsheet, planted wherever
the console, the command line and the logs can meet a text that is not theirs.

Every one is planted behind a tag of letters (`tagged`), so that a test can tell whether it was shown at all: in the
state folder through the store where it lets them through, and past it with plain SQL and plain files where somebody
else might have written; at the source as names of slots and values of rows of the embedded stand-in.
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
from string import ascii_lowercase

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
from tests.support.standin import Surface

ESC, BEL, ST = "\x1b", "\x07", "\x1b\\"

TERMINAL = [
    f"{ESC}]52;c;aGFjaw=={BEL}",
    f"{ESC}]52;p;?{ST}",
    f"{ESC}]8;;http://x.example{ST}link{ESC}]8;;{ST}",
    f"{ESC}]8;id=a;file:///etc/passwd{BEL}y{ESC}]8;;{BEL}",
    f"{ESC}]0;title{BEL}",
    f"{ESC}]2;title{ST}",
    f"{ESC}]1;icon{BEL}",
    f"{ESC}]4;1;rgb:ff/00/00{ST}",
    f"{ESC}]10;?{BEL}",
    f"{ESC}]7;file://h/tmp{BEL}",
    f"{ESC}]9;4;1;50{BEL}",
    f"{ESC}]777;notify;a;b{BEL}",
    f"{ESC}]1337;File=inline=1:AAAA{BEL}",
    f"{ESC}]133;A{BEL}",
    f"{ESC}]50;font{BEL}",
    f"{ESC}]22;wait{BEL}",
    f"{ESC}[5;31;45mred",
    f"{ESC}[38;5;9;5mx{ESC}[0m",
    f"{ESC}[2J{ESC}[77;1H",
    f"{ESC}[3J",
    f"{ESC}[999;999H",
    f"{ESC}[99A{ESC}[99D",
    f"{ESC}[2K{ESC}[1G",
    f"{ESC}[6n",
    f"{ESC}[c",
    f"{ESC}[>c",
    f"{ESC}[=c",
    f"{ESC}[>q",
    f"{ESC}[18t",
    f"{ESC}[21t",
    f"{ESC}[8;1;1t",
    f"{ESC}[?1049l",
    f"{ESC}[?1003h",
    f"{ESC}[?2004l",
    f"{ESC}[?25h",
    f"{ESC}[?7h",
    f"{ESC}[4h",
    f"{ESC}[20h",
    f"{ESC}[1;5r",
    f"{ESC}[!p",
    f"{ESC}[5i",
    f"{ESC}[200~rm -rf{ESC}[201~",
    f"{ESC}[>4;2m",
    f"{ESC}[<u",
    f"{ESC}c",
    f"{ESC}7{ESC}8",
    f"{ESC}(0lqk",
    f"{ESC}#8",
    f"{ESC}D{ESC}M",
    f"{ESC}P$q m{ST}",
    f"{ESC}P+q544e{ST}",
    f"{ESC}Pq#0;2;0;0;0#0~~@@{ST}",
    f"{ESC}Ptmux;{ESC}{ESC}]52;c;aGFjaw=={BEL}{ST}",
    f"{ESC}_Gf=24,s=1,v=1;AAAA{ST}",
    f"{ESC}^private{ST}",
    f"{ESC}Xstring{ST}",
    f"{ESC}[31",
    f"{ESC}]52;c;",
    f"{ESC}",
    "\x9b31m",
    "\x9d0;title\x9c",
    "\x90q\x9c",
    "\x85\x84\x8d",
]
CHARACTERS = [
    "\u202egnp.exe\u202c",
    "\u2066a\u2069\u2067b\u2069",
    "\u200fr\u200el\u061c",
    "a\u200bb\u200cc\u200dd\u2060e",
    "\ufeffbom",
    "\u00adshy",
    "\u2028line\u2029paragraph",
    "\U000e0041\U000e0042tags",
    "\ufff9a\ufffab\ufffb",
    "e" + "\u0301" * 300,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 40,
    "\u2764\ufe0f1\ufe0f\u20e3",
    "\u5bbd" * 200,
    "\u115f\u3164\uffa0",
    "\ue000\uf8ff\U0010ffff",
    "line\nline",
    "back\b\b\b\bspace",
    "return\rover",
    "tab\ttab\x0bvt\x0cff",
    "bell\x07\x05\x0e\x0f",
    "del\x7f\x7f",
    "x" * 100_000,
]
WORDS = [
    "[@click=app.quit]x[/]",
    "[@click=app.go('jobs')]x[/]",
    "[/x]",
    "[/]",
    "[red]r[/red]",
    "[bold red on white blink]b",
    "[link=http://x.example]y[/link]",
    "[[[]]]\\[",
    "$x {0} %s%n%999d {x!r}",
    "'; DROP TABLE jobs; --",
    "$(touch owned)`touch owned`",
    "; touch owned | sh &",
    "../../../etc/passwd",
    "=cmd|' /C calc'!A0",
    "+1+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    '=HYPERLINK("http://x.example","y")',
    '","a"\r\n"b',
    '{"a":"b"}</script><script>',
    "q",
    ":rw because",
]
NOT_IN_DATABASES = ["nul\x00nul", b"\xff\xfe bad \xc3\x28".decode("utf-8", "surrogateescape"), "\ud83d lone \udc00"]
"""Texts that PostgreSQL does not accept; every other text could be in a row."""

PAYLOADS = [*TERMINAL, *CHARACTERS, *WORDS, *NOT_IN_DATABASES]


def tag(number: int) -> str:
    """Return letters only, because digits are folded when errors are counted.

    >>> tag(0), tag(27)
    ('Zaa', 'Zbb')
    """
    return f"Z{ascii_lowercase[number // 26]}{ascii_lowercase[number % 26]}"


def tagged() -> list[str]:
    return [tag(number) + payload for number, payload in enumerate(PAYLOADS)]


def storable(text: str) -> str:
    """A text that UTF-8 can encode, with other characters written as escapes."""
    return text.encode("utf-8", "surrogateescape" if _is_bytes(text) else "backslashreplace").decode(
        "utf-8", "backslashreplace"
    )


def _is_bytes(text: str) -> bool:
    return not any("\ud800" <= c < "\udc80" or "\udcff" < c <= "\udfff" for c in text)


TABLE = "ods.hostile"
WIDE = "wide_rt"
"""The job whose every DN, error and line of log is hostile; `job_NN` has one text wherever a job has texts."""


@contextmanager
def living() -> Iterator[Identity]:
    """Return a process that can be recorded as a job's supervisor: it runs and does nothing."""
    code = "import sys; print('on', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield identity.of(process.pid)


def state(folder: Path, holder: Identity) -> None:
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
    """Create markers of unfinished resets, acknowledgements, records of actions and their output."""
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
    """Texts that the store itself would have escaped or rejected."""
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
    """History for the replay: the jobs in their current state, with the hostile texts."""
    from slotkeeper.core.launch.view import observe_all
    from slotkeeper.core.state.frames import Frame

    with Store.open(folder) as store:
        metrics, now = Metrics(store), datetime.now(timezone.utc)
        for age in (20, 10, 0):
            for view in observe_all(store)[:20]:
                metrics.add(Frame(view, now - timedelta(seconds=age)), None)


def harm(folder: Path) -> dict[str, object]:
    """Return everything that an action could have changed, for a comparison before and after."""
    connection = sqlite3.connect(f"file:{folder / FILE_NAME}?mode=ro", uri=True)
    try:
        jobs = connection.execute("SELECT name, state, wanted, run FROM jobs ORDER BY name").fetchall()
    finally:
        connection.close()
    kept = ("audit.jsonl", "console/acks.json")
    files = {name: (folder / name).read_bytes() for name in kept if (folder / name).exists()}
    listed = sorted(one.name for kind in ("actions", "resets", "plans") for one in (folder / kind).glob("*"))
    return {"jobs": jobs, "files": files, "listed": listed, "owned": os.path.lexists("owned")}
