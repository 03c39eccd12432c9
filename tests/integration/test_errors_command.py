"""`errors list|show|replay|discard` as typed, and `verify` beside them: output, questions and refusals."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.demo.warehouse import Warehouse
from tests.integration.test_quarantine_jobs import TABLE, cure, mirror_of
from tests.support import polling, standin
from tests.support.mirror import MakeMirror, Mirror
from tests.support.printed import typed

HOSTILE = "a\x1b]0;owned\x07[@click=app.danger]x[/]"


@dataclass(frozen=True)
class Shell:
    mirror: Mirror
    config: Path
    capfd: pytest.CaptureFixture[str]

    def call(self, *words: str) -> tuple[int, str, str]:
        """Return (exit code, stdout, stderr)."""
        return typed(self.capfd, *words, "--config", str(self.config))

    def listed(self, *words: str) -> list[dict[str, Any]]:
        code, out, err = self.call("errors", "list", *words, "--json")
        assert code == 0, err
        return list(json.loads(out)["entries"])


@pytest.fixture
def shell(warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Shell:
    """A stopped job over ten rows, of which numbers 1 and 2 are in quarantine."""
    mirror = mirror_of(warehouse, make_mirror)
    standin.run(warehouse, f"INSERT INTO {TABLE} SELECT g % 4, g, g / 3 * 100, 'row' FROM generate_series(1, 10) g")
    standin.run(warehouse, f"UPDATE {TABLE} SET n = 1 WHERE id <= 2")
    standin.run(warehouse, f"UPDATE {TABLE} SET v = '{HOSTILE}' WHERE id = 2")
    mirror.start().wait_running()
    mirror._until(lambda: mirror.heard.rows_quarantined == 2, 30, "the job to tell how many it holds")
    mirror.stop()
    entry = polling.job(mirror.job.name, mirror.job.slot, TABLE, "mart.orders")
    return Shell(mirror, polling.config(tmp_path, mirror.job.source, mirror.job.sink, entry), capfd)


def test_a_row_is_shown_replayed_and_discarded_as_typed(shell: Shell) -> None:
    job = shell.mirror.job.name
    found = shell.listed(job)
    assert [one["key"] for one in found] == [["2", "2"], ["1", "1"]]
    assert {one["sqlstate"] for one in found} == {"23514"}
    assert shell.listed() == found
    assert shell.listed(job, "--state", "superseded") == []
    assert shell.listed(job, "--limit", "1", "--before", str(found[0]["id"])) == found[1:]
    code, out, _ = shell.call("errors", "list", job)
    assert code == 0
    assert "c1" in out

    second, first = (str(one["id"]) for one in found)
    code, out, _ = shell.call("errors", "show", job, second)
    assert code == 0
    assert "\x1b" not in out
    assert "v: a\\x1b]0;owned\\x07" in out
    code, out, _ = shell.call("errors", "show", job, second, "--json")
    assert json.loads(out)["values"]["v"] == HOSTILE

    assert shell.call("verify", job)[0] == 4
    code, out, _ = shell.call("verify", job, "--json")
    said = json.loads(out)
    assert (code, said["verdict"], said["equal"]) == (4, "equal apart from quarantine", False)
    assert said["quarantined"]["count"] == 2

    code, out, _ = shell.call("errors", "replay", job, "--all", "--reason", "perhaps")
    assert code == 1
    assert out.count("rejected again: 23514") == 2
    cure(shell.mirror)
    code, out, _ = shell.call("errors", "replay", job, first, "--reason", "cured", "--json")
    assert (code, json.loads(out)["entries"][0]["state"]) == (0, "replayed")
    code, out, _ = shell.call("errors", "replay", job, first, "--reason", "again")
    assert (code, "nothing was done: it was already replayed" in out) == (0, True)

    code, out, _ = shell.call("errors", "discard", job, second)
    assert code == 0
    assert f"--execute --reason TEXT --confirm {job} --rows 1" in out
    assert [one["id"] for one in shell.listed(job)] == [int(second)], "it was a dry run"
    typed = ["errors", "discard", job, second, "--execute", "--reason", "not wanted"]
    for more, lacks in (([], "the name typed"), (["--confirm", job], "nothing was typed")):
        code, _, err = shell.call(*typed, *more)
        assert (code, lacks in err) == (3, True), err
    assert shell.call(*typed, "--confirm", job, "--rows", "1")[0] == 0
    assert shell.listed(job) == []
    assert shell.call("verify", job)[0] == 4

    code, out, _ = shell.call("audit", "list", "--json")
    lines = [(one["action"], one["phase"], one["reason"]) for one in json.loads(out)["lines"]]
    assert ("errors replay", "intent", "cured") in lines
    assert ("errors discard", "outcome", "not wanted") in lines
    assert HOSTILE not in out


WRONG = {
    ("list", "JOB", "--state", "gone"): (2, "unknown state 'gone'"),
    ("list", "absent"): (2, "unknown job 'absent'"),
    ("show", "JOB", "999"): (3, "unknown entry 999"),
    ("replay", "JOB", "--reason", "x"): (2, "specify either IDs or --all"),
    ("replay", "JOB", "999", "--reason", "x"): (3, "unknown entry 999"),
    ("replay", "JOB", "--all"): (3, "needs a reason"),
    ("discard", "JOB", "1", "--all"): (2, "specify either IDs or --all"),
}


def test_what_is_typed_wrong_gets_one_line(shell: Shell) -> None:
    for words, (code, says) in WRONG.items():
        given = [shell.mirror.job.name if word == "JOB" else word for word in words]
        found, _, err = shell.call("errors", *given)
        assert (found, says in err) == (code, True), err
        assert "Traceback" not in err
