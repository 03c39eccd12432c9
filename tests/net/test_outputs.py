"""The net's outputs: the output, exit code and standard error of commands with `--json` are as recorded.

Over one warehouse (the stand-in) and a PostgreSQL, with FAKE drivers.
"""

from __future__ import annotations

import getpass
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_quarantine_jobs import TABLE
from tests.integration.test_schemas import JOB, NEVER, PAIR, Place
from tests.integration.test_schemas import _fake_drivers as _fake_drivers
from tests.net import product, recorded
from tests.net.masks import Masks
from tests.support.jobs import Jobs
from tests.support.pager import Pager

pytestmark = pytest.mark.slow
LEAST = 60
DONE = ("--execute", "--reason", "a test")


class Outputs:
    """Calls commands and stores their output, each with the situation in which it was called."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.now = ""
        self.found: list[dict[str, Any]] = []
        endpoints = (place.mirror.job.source, place.mirror.job.sink)
        self.masks = Masks(
            {str(place.config.parent): "{folder}", sys.executable: "{python}", socket.gethostname(): "{host}"}
            | {str(Path(product.ROOT)): "{checkout}", getpass.getuser(): "{user}"}
            | {str(one.port): "{port}" for one in endpoints}
            | {str(Path(one.password.ref).parent): "{server}" for one in endpoints}
        )

    def __call__(self, *words: str, kind: str = "--json", config: Path | None = None) -> Any:
        """Call with `--json`, keep code, output and errors, and return the last JSON value; None without one."""
        self.place.capfd.readouterr()
        code = product.main([*words, kind, "--config", str(config or self.place.config)])
        said = self.place.capfd.readouterr()
        values = [json.loads(line) for line in said.out.splitlines()]
        self.found.append(
            {
                "at": self.now,
                "words": self.masks.lines([*words, kind]),
                "code": code,
                "out": self.masks.value(values),
                "err": self.masks.lines(said.err.splitlines()),
            }
        )
        return values[-1] if values else None


def look(see: Outputs) -> None:
    """Call the read-only commands."""
    for words in (
        ("jobs", "list"), ("status",), ("jobs", "show", JOB), ("jobs", "show", NEVER), ("slots", "list"),
        ("slots", "list", TABLE), ("slots", "show", *see.place.slot), ("slots", "preflight", TABLE),
        ("slots", "peek", TABLE), ("errors", "list"), ("audit", "list"), ("audit", "verify"), ("verify", JOB),
        ("locks",), ("slots", "history", *see.place.slot), ("alerts", "list"),
    ):  # fmt: skip
        see(*words)
    see("slots", "peek", TABLE, kind="--jsonl")


def refuse(see: Outputs) -> None:
    """Call commands with invalid arguments, or in states that do not allow them."""
    for words in (
        ("jobs", "show", "nobody"), ("jobs", "start", "nobody"), ("jobs", "stop", "nobody"), ("jobs", "logs", "nobody"),
        ("jobs", "pause", NEVER), ("jobs", "resume", NEVER), ("jobs", "restart", NEVER), ("jobs", "drain", NEVER),
        ("jobs", "retry", NEVER), ("jobs", "cancel", NEVER, "--confirm", "other", "--reason", "r"),
        ("jobs", "stop", JOB, "--table", "ods.none"), ("jobs", "list", "--no-such-option"), ("job", "list"),
        ("slots", "show", "ods.none", "s"), ("slots", "show", TABLE, "none"), ("slots", "list", "none"),
        ("slots", "peek", "ods.none"), ("slots", "preflight", "ods.none"), ("slots", "create", TABLE, "Not a name"),
        ("slots", "create", *see.place.slot, *DONE), ("slots", "drop", TABLE, "none"),
        ("slots", "register", *see.place.slot, *DONE), ("slots", "drop", *see.place.slot, *DONE),
        ("slots", "reset", *see.place.slot), ("slots", "reset", *see.place.slot, "--to", "point"),
        ("slots", "reset", *see.place.slot, "--to", "nowhere"),
        ("slots", "reset", *see.place.slot, "--to", "latest", "--dn", "dn_9"),
        ("slots", "reset", *see.place.slot, "--to", "snapshot"), ("slots", "reset", "--resume"),
        ("slots", "reset", *see.place.slot, "--plan", "0123456789ab", *DONE),
        ("slots", "undo", "20260101T000000-abcdef"), ("errors", "list", "nobody"),
        ("errors", "list", JOB, "--state", "gone"), ("errors", "show", JOB, "999"),
        ("errors", "replay", JOB, "--reason", "x"), ("errors", "replay", JOB, "--all"),
        ("errors", "discard", JOB, "1", "--all"), ("verify", "nobody"), ("verify", NEVER), ("locks", "nobody"),
        ("alerts", "test"), ("audit", "list", "--limit", "0"),
    ):  # fmt: skip
        see(*words)


def broken(see: Outputs) -> None:
    """Call commands with configurations that reject one job, or everything."""
    text = see.place.config.read_text("utf-8")
    for name, changed in {
        "one job is refused": text.replace('into = "mart.c"', "into = 7"),
        "an unknown key": text.replace("[state]", "[state]\nfolder = 1"),
        "no server answers": text.replace(f"port = {see.place.mirror.job.source.port}", "port = 1"),
    }.items():
        see.now = name
        config = see.place.config.with_name("other.toml")
        config.write_text(changed, "utf-8")
        for words in (("config", "check"), ("jobs", "list"), ("status",), ("slots", "list"), ("doctor",)):
            see(*words, config=config)
    see.now = "no configuration"
    for words in (("status",), ("jobs", "list"), ("doctor",)):
        see(*words, config=see.place.config.with_name("none.toml"))


def steer(see: Outputs, jobs: Jobs) -> None:
    """Call the verbs of jobs and of their tables, over FAKE drivers."""
    for verb in ("start", "pause", "resume", "restart"):
        see.now = f"before {verb}"
        see("jobs", verb, JOB)
    see.now = "a job is running"
    for words in (
        ("jobs", "start", JOB), ("jobs", "resume", JOB), ("jobs", "retry", JOB), ("jobs", "ensure"),
        ("jobs", "show", JOB), ("jobs", "list"), ("status",), ("jobs", "drain", JOB),
        ("jobs", "cancel", JOB, "--confirm", JOB, "--reason", "r"), ("slots", "drop", *see.place.slot),
        ("slots", "reset", *see.place.slot, "--to", "earliest"),
    ):  # fmt: skip
        see(*words)
    see.place.mirror.source(f"INSERT INTO {TABLE} VALUES (1, 77, 100, 'late')")
    see("jobs", "drain", JOB, "--wait", "0s")
    see("jobs", "stop", JOB)
    see("jobs", "stop", NEVER)
    see.now = "one of two tables"
    see("jobs", "start", PAIR)
    for verb in ("pause", "resume", "stop", "start", "restart", "retry"):
        see("jobs", verb, PAIR, "--table", "ods.b")
    see("jobs", "show", PAIR)
    see("jobs", "stop", PAIR)
    see.now = "a job is stopped"
    see("jobs", "pause", JOB)
    see("jobs", "logs", JOB, "--lines", "1")
    see("jobs", "show", PAIR)
    see("status")
    see("jobs", "cancel", PAIR, "--confirm", PAIR, "--reason", "no more")
    see("jobs", "start", PAIR)


def change(see: Outputs) -> None:
    """Call the verbs of slots and of quarantined rows, as plans and executed."""
    slot, entry = see.place.slot, str(see("errors", "list")["entries"][0]["id"])
    see("errors", "show", JOB, entry)
    for verb in ("create", "drop"):
        plan = see("slots", verb, TABLE, "elsewhere")
        rows = ("--rows", plan["to_type"]["rows"] or "0") if verb == "drop" else ()
        see("slots", verb, TABLE, "elsewhere", "--confirm", "elsewhere", "--confirm-table", TABLE, *rows, *DONE)
    see("slots", "register", *slot)
    see("errors", "replay", JOB, entry, "--reason", "perhaps")
    see("errors", "discard", JOB, entry)
    see("errors", "discard", JOB, entry, "--confirm", JOB, "--rows", "1", *DONE)
    consent = ("--confirm", slot[1], *DONE)
    plan = see("slots", "reset", *slot, "--to", "earliest")
    see("slots", "reset", *slot, "--plan", plan["id"], "--confirm", "other", *DONE)
    reset = see("slots", "reset", *slot, "--plan", plan["id"], *consent)
    see.now = "after a reset"
    see("slots", "reset", *slot, "--plan", plan["id"], *consent)
    undo = see("slots", "undo", reset["reset"])
    see("slots", "undo", reset["reset"], "--plan", undo["id"], "--rows", str(undo["at_stake"]), *consent)
    for words in (("slots", "history", *slot), ("slots", "list", TABLE), ("jobs", "show", JOB), ("status",)):
        see(*words)
    see("audit", "list", "--limit", "100")
    see("audit", "verify")


def alert(see: Outputs, pager: Pager) -> None:
    """Call a command of `[alerts]`, with a fault that an impossible disk limit causes."""
    see.now = "alerts with a command"
    with see.place.config.open("a", encoding="utf-8") as config:
        config.write(f'[alerts]\ncommand = "{pager.command}"\ndisk_free = "16777216MiB"\n')
    found = see("alerts", "list")["alerts"]
    (disk,) = [one["key"] for one in found if one["fault"]["rule"] == "disk_nearly_full"]
    for words in (("ack", disk, "--reason", "known"), ("silence", disk, "--for", "2h", "--reason", "known")):
        assert product.main(["alerts", *words, "--config", str(see.place.config)]) == 0
        see("alerts", "list")
    see("alerts", "test")
    pager.does("fail")
    see("alerts", "test")
    see("status")


def test_every_output_is_as_recorded(place: Place, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    see = Outputs(place)
    see.now = "before any start"
    for words in (("config", "check"), ("config", "show"), ("doctor",), ("docs",)):
        see(*words)
    look(see)
    refuse(see)
    broken(see)
    steer(see, jobs)
    look(see)
    change(see)
    alert(see, Pager(tmp_path / "pager"))
    lines = [recorded.json_line(one) for one in see.found]
    assert len({(one["at"], *one["words"]) for one in see.found}) >= LEAST
    recorded.compare("outputs.jsonl", lines)
