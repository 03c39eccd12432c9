"""`slotkeeper doctor --probe` of the stand-in for Doris: each answer agrees with its settings, and nothing is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.sinks.doris import probe
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.doris.tables import STRING_LIMIT
from slotkeeper.demo.doris.transactions import State, Transaction
from tests.support.pairs import VARIABLE

DOCUMENTED = {name: one.documented for name, one in probe.QUESTIONS.items() if one.documented}


@pytest.fixture
def config(doris: DorisStandin, tmp_path: Path) -> Path:
    """A configuration whose only sink of kind doris is the stand-in, and a job of a PROD source into it."""
    ports, path = doris.ports, tmp_path / "slotkeeper.toml"
    lines = ["[sources.shop]", 'dialect = "mysql"', 'host = "127.0.0.1"', "port = 1", 'user = "u"']
    lines += ["[sinks.store]", 'kind = "postgres"', 'host = "127.0.0.1"', "port = 1", 'database = "d"', 'user = "u"']
    lines += ["[sinks.dor]", 'kind = "doris"', f'host = "{doris.host}"', f"port = {ports.query}"]
    lines += [f"http_port = {ports.frontend}", f'user = "{doris.user}"', f'password_env = "{VARIABLE}"']
    lines += ['sslmode = "disable"', 'progress_store = "store"', f'backends = ["{doris.host}:{ports.backend}"]']
    lines += ["[jobs.j]", 'source = "shop"', 'sink = "dor"', "[[jobs.j.channels]]", 'from = "a.b"', 'into = "mart.b"']
    path.write_text("\n".join([*lines, "[state]", f'dir = "{tmp_path / "state"}"']), "utf-8")
    return path


def asked(config: Path, capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    assert main(["doctor", "--probe", "dor", "--json", "--config", str(config)]) == code
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert report["left"] == [] and [one["name"] for one in report["answers"]] == list(probe.QUESTIONS)
    assert all(one["because"] for one in report["answers"] if one["answer"] is None)
    return report


def answers(report: dict[str, Any]) -> dict[str, str | None]:
    return {one["name"]: one["answer"] for one in report["answers"] if one["topic"] != "not asked"}


def left(doris: DorisStandin) -> list[str]:
    running = [one.label for one in doris.transactions.running()]
    return running + [one for one in doris.tables.names("mart") if one.startswith("slotkeeper")]


def test_each_answer_agrees_with_the_settings_of_the_server(
    config: Path, doris: DorisStandin, capsys: pytest.CaptureFixture[str]
) -> None:
    report = asked(config, capsys)
    assert [one["name"] for one in report["answers"] if one["because"] and one["answer"] is not None] == []
    assert answers(report) == DOCUMENTED | {
        "labels_kept_seconds": doris.settings["streaming_label_keep_max_second"],
        "labels_kept_number": doris.settings["label_num_threshold"],
        "longest_string": str(doris.tables.be_conf[STRING_LIMIT]),
        "backends_listed": "yes",
        "added_at_once": "yes",
    }
    assert (report["kind"], report["stand_in"], report["reader_right"]) == ("doris", True, True)
    assert left(doris) == [] and Path(report["file"]).name == "dor.json"
    doris.tables.tells_be_conf = doris.tables.tells_partitions = False
    doris.settings.update(streaming_label_keep_max_second="60", label_num_threshold="9")
    report = asked(config, capsys)
    found = {one["name"]: one for one in report["answers"]}
    assert found["longest_string"]["answer"] is None and found["backends_listed"]["answer"] == "no"
    assert "SHOW permission" in found["partition_kept"]["because"]
    assert "below Doris's default" in found["labels_kept_seconds"]["because"]
    assert report["reader_right"]


def never_taken(doris: DorisStandin) -> None:
    doris.transactions.under = lambda database, label: None  # type: ignore[method-assign]


def visible_at_once(doris: DorisStandin) -> None:
    precommit = doris.transactions.precommit

    def early(one: Transaction) -> None:
        precommit(one)
        if one.apply is not None:
            one.apply()
            one.apply = None

    doris.transactions.precommit = early  # type: ignore[method-assign]


def abort_forgotten(doris: DorisStandin) -> None:
    doris.transactions.abort = lambda database, number, reason="": None  # type: ignore[method-assign]


def states_unknown(doris: DorisStandin) -> None:
    doris.transactions.state = lambda database, label: State.UNKNOWN  # type: ignore[method-assign]


def no_two_phases(doris: DorisStandin) -> None:
    doris.backend.two_phase = False


WRONG: dict[str, tuple[Callable[[DorisStandin], None], set[str]]] = {
    "labels are never taken": (never_taken, {"taken_before_commit", "taken_after_commit"}),
    "rows are visible at once": (visible_at_once, {"invisible_before_commit"}),
    "aborts do nothing": (abort_forgotten, {"free_after_abort", "commit_after_abort", "label_states"}),
    "states are unknown": (states_unknown, {"two_phase", "label_states"}),
    "two phases are disabled": (no_two_phases, {"two_phase"}),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_server_on_which_rows_could_be_lost_or_repeated_is_recognized(
    config: Path, doris: DorisStandin, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    spoil, wrong = WRONG[case]
    spoil(doris)
    report = asked(config, capsys, 1)
    assert {one["name"] for one in report["answers"] if one["reader"] == "WRONG"} >= wrong
    assert [one for one in doris.tables.names("mart") if one.startswith("slotkeeper")] == []


def test_a_sink_of_a_job_from_prod_is_probed_after_consent_only(
    config: Path, doris: DorisStandin, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(
        config.read_text("utf-8").replace(
            'user = "u"\n[sinks.store]', 'user = "u"\nenvironment = "PROD"\n[sinks.store]'
        )
    )
    assert main(["doctor", "--probe", "dor", "--config", str(config)]) == 0
    shown = capsys.readouterr().out
    assert "dry run: nothing was changed" in shown and "UNIQUE KEY" in shown and doris.backend.loads == 0
    words = ["--execute", "--reason", "why", "--confirm", "dor"]
    assert main(["doctor", "--probe", "dor", *words, "--config", str(config)]) == 0
    assert left(doris) == [] and doris.backend.loads > 0
