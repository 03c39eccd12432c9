"""The schemas of printed JSON: one for each command, the same as on the pages, and an additional key fails."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from bench.schemas import SCHEMAS, document, pages
from bench.schemas.jobs import NOTIFICATION
from bench.schemas.looking import LOG
from slotkeeper.console.commands import main as main_cli
from slotkeeper.console.commands.locks import ListsByDefault
from slotkeeper.core.domain.report import JobReport
from slotkeeper.core.state.audit import Audit, intent, outcome
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.verify.compare import Comparison, Found
from slotkeeper.demo import command as demo
from slotkeeper.demo.run import DemoOptions
from tests.support.promised import broken

FOLDER = Path(__file__).parents[3] / "docs" / "schemas"


def commands() -> Iterator[tuple[str, set[str]]]:
    """(typed words, options) of every command."""
    root = main_cli.main_command()
    for name in root.list_commands(None):
        command = root.get_command(None, name)
        below = getattr(command, "commands", None) or {"": command}
        if getattr(command, "invoke_without_command", False):
            below = {"": command, **below}
        for verb, leaf in below.items():
            shown = "" if verb == "list" and isinstance(command, ListsByDefault) else verb
            yield f"{name} {shown}".strip(), {option for one in leaf.params for option in one.opts}


def test_every_command_that_prints_json_has_a_schema_and_no_other_has() -> None:
    with_json = {name for name, options in commands() if "--json" in options}
    with_lines = {f"{name} --jsonl" for name, options in commands() if "--jsonl" in options}
    assert len(with_json) > 20 and with_lines
    assert set(SCHEMAS) == with_json | with_lines | {LOG, NOTIFICATION}


def test_the_pages_are_what_the_schemas_say() -> None:
    assert {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()} == pages(), "make docs"


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, list):
        for one in schema:
            yield from parts(one)
    elif isinstance(schema, dict):
        yield schema
        for name, one in schema.items():
            if name == "properties":
                yield from parts(list(one.values()))
            elif isinstance(one, dict) or name in ("anyOf", "oneOf", "prefixItems"):
                yield from parts(one)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_one_and_describes_all_that_it_names(name: str) -> None:
    found = json.loads(json.dumps(document(name)))
    Draft202012Validator.check_schema(found)
    for one in parts(found):
        assert one.get("type") != "object" or "additionalProperties" in one, one
        for key, held in one.get("properties", {}).items():
            assert held.get("description") or held.get("anyOf"), (name, key)


def line() -> dict[str, Any]:
    return {
        **intent("jobs stop", "job a", "because", {"dn_1": "100"}).as_json(),
        "before": "0" * 64,
    }


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a key more": lambda one: one.update(more=1),
    "a key less": lambda one: one.pop("reason"),
    "another type": lambda one: one.update(reason=1),
    "a key more within": lambda one: one["actor"].update(more=1),
    "a time with another offset": lambda one: one.update(at="2026-01-01T00:00:00+00:00"),
    "a local time": lambda one: one.update(at="2026-01-01T00:00:00"),
    "an unknown word": lambda one: one.update(phase="later"),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_what_is_not_promised_is_noticed(change: str) -> None:
    good = line()
    assert broken(LOG, good) == []
    wrong = copy.deepcopy(good)
    CHANGES[change](wrong)
    assert broken(LOG, wrong)


def test_the_audit_writes_what_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotkeeper.core.state.audit.MOST_BYTES", 2_000)
    audit = Audit(StateFolder.open(tmp_path / "state"))
    for number in range(12):
        first = intent("slots drop", f"dws1 ods.t slot s{number}", "hostile \x1b]0;x\x07 \u202e", {"dn_1": "100"})
        audit.append(first)
        audit.append(outcome(first, "failed: \u00e9", {}))
    files = sorted((tmp_path / "state").glob("audit*.jsonl"))
    lines = [json.loads(text) for file in files for text in file.read_text("utf-8").splitlines()]
    assert (len(files) > 1, len(lines)) == (True, 24)
    assert [fault for one in lines for fault in broken(LOG, one)] == []


@pytest.mark.parametrize("report", [None, JobReport("orders_rt", "r", "RUNNING", tasks_started=3)], ids=["none", "one"])
def test_the_verdict_of_the_demo_is_as_promised(report: JobReport | None) -> None:
    kinds = dict.fromkeys(("insert", "update", "delete", "key_change"), 2)
    known = report is not None
    run: Any = SimpleNamespace(
        ledger=lambda: {"dn_1": 8},
        applied=lambda: {"dn_1": 8},
        latency=lambda: SimpleNamespace(p50=1.5, p99=20.0) if known else None,
        view=lambda: SimpleNamespace(report=report),
        ledger_kinds=lambda: kinds,
        options=DemoOptions(dns=1),
        spark={"start_s": 2.5},
        note="a stand-in",
        target=SimpleNamespace(note="PostgreSQL", cannot_prove=()),
    )
    clock: Any = SimpleNamespace(writing_seconds=4.0, snapshot_rate=1000.5 if known else None)
    equal = Comparison(9, 9, 1, Found(), Found(), Found(), Found(), Found(), (), 0.1)
    found = {**demo._verdict(run, clock, equal), "duration_s": 12.5, "log": None}
    assert (found["verified"], broken("demo", found)) == (True, [])
