"""The modules that two short commands load, counted and not timed: `--version`, and `status` for monitoring."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.cli.context import BY_CODE, FLAGS, JSON, asks_version, status_asked
from slotkeeper.console.commands import main as main_cli
from slotkeeper.core.state.sqlite import Store
from tests.unit.config.samples import VALID

ROOT = Path(__file__).parents[3]
CODE = (
    "import sys; before = set(sys.modules); sys.argv = ['slotkeeper', *sys.argv[1:]];"
    " from slotkeeper.console.__main__ import main; code = main();"
    " print(code, *sorted(set(sys.modules) - before), file=sys.stderr)"
)
UNNEEDED = (
    *("typer", "pydantic", "textual", "platformdirs", "subprocess", "hashlib", "importlib.metadata", "sqlglot"),
    *("psutil", "traceback", "difflib"),
)
CONFIGURED = """
[jobs.{job}]
source = "dws1"
sink = "mart"
[[jobs.{job}.channels]]
from = "ods.{job}"
into = "mart.{job}"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration of several jobs, each of which was started once."""
    file = tmp_path / "config.toml"
    jobs = "".join(CONFIGURED.format(job=f"job_{number}") for number in range(4))
    file.write_text(VALID.replace("[state]\n", f'[state]\ndir = "{tmp_path / "state"}"\n') + jobs)
    with Store.open(tmp_path / "state") as store:
        for job in ("orders_rt", *(f"job_{number}" for number in range(4))):
            store.register_job(job, str(file))
            store.begin_run(job, f"run of {job}", "")
    return file


def loaded(words: Sequence[str], config: Path) -> tuple[str, list[str]]:
    """The output of a command line and the modules that it loads; 2 is CRITICAL and 3 UNKNOWN."""
    env = {**os.environ, "SLOTKEEPER_CONFIG": str(config), "HOME": str(config.parent)}
    ran = subprocess.run(
        [sys.executable, "-c", CODE, *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    code, *modules = ran.stderr.splitlines()[-1].split()
    assert code in ("0", "2", "3"), ran.stderr
    return ran.stdout, modules


def test_the_version_loads_neither_a_parser_nor_the_configuration(config: Path) -> None:
    shown, modules = loaded(["--version"], config)
    assert shown.startswith("slotkeeper ")
    assert [name for name in modules if name in (*UNNEEDED, "sqlite3", "tomli", "msgspec")] == []
    ours = [name for name in modules if name.startswith("slotkeeper.") and name.count(".") > 1]
    assert not [name for name in ours if name.startswith(("slotkeeper.core.config", "slotkeeper.console.commands"))]
    assert len(ours) <= 14, ours


@pytest.mark.parametrize("words", [["status", "--json"], ["status", "--exit-code"], ["status", "--config", "{config}"]])
def test_status_loads_no_parser_and_few_of_our_modules(config: Path, words: list[str]) -> None:
    _, modules = loaded([word.format(config=config) for word in words], config)
    assert [name for name in modules if name in UNNEEDED] == []
    ours = [name for name in modules if name.startswith("slotkeeper.") and name.count(".") > 1]
    late = ("slot", "type_name", "reset", "consent", "quarantine", "lane", "query_report")
    assert [name for name in ours if name in [f"slotkeeper.core.domain.{one}" for one in late]] == []
    assert len(ours) <= 105, len(ours)


def test_status_means_the_same_with_and_without_the_parser(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOTKEEPER_CONFIG", str(config))
    for number in range(4):
        for rest in itertools.permutations((JSON, BY_CODE, *FLAGS, f"--config={config}"), number):
            for place in range(number + 1):
                words = [*rest[:place], "status", *rest[place:]]
                light = status_asked(words) is not None
                assert light is not any(word in (JSON, BY_CODE) for word in rest[:place])
                if light:
                    said = main(words), capsys.readouterr()
                    assert said == (main_cli.run(words), capsys.readouterr()), words


@pytest.mark.parametrize(
    "words",
    [
        *(["status", "--help"], ["status", "--state-dir", "x"], ["status", "--", "x"], ["status", "x"], ["jobs"]),
        *(
            ["--config", "status"],
            ["--config", "status", "x"],
            ["status", "--config"],
            ["status", "--config", "--json"],
        ),
        *(["jobs", "status"], ["status", "status"], ["status", "--version"], []),
    ],
)
def test_any_other_line_is_left_to_the_parser(words: list[str]) -> None:
    assert status_asked(words) is None and not asks_version(words)
