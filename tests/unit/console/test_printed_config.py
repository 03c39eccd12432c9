"""With --config, printed commands and hints contain that option; those of the next process do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.cli import context, diagnostics, output
from slotkeeper.core.errors import Refused


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    context.config_given("")


def test_lines_paragraphs_and_hints_name_the_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    context.config_given("/srv/my etl.toml")
    output.line("slotkeeper slots reset t s --execute")
    output.paragraph("do", "wait, or `slotkeeper alerts test`")
    diagnostics.report(Refused("no", "`slotkeeper locks` says who"), tmp_path / "log")
    said = capsys.readouterr()
    named = "slotkeeper --config '/srv/my etl.toml'"
    assert said.out.splitlines() == [f"{named} slots reset t s --execute", f"do  wait, or `{named} alerts test`"]
    assert f"`{named} locks` says who" in said.err


def test_json_is_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    context.config_given("c.toml")
    output.as_json({"do": "`slotkeeper jobs start a`"})
    assert "--config" not in capsys.readouterr().out


def test_what_was_given_ends_with_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = tmp_path / "gone.toml"
    assert main(["--config", str(missing), "jobs", "list"]) == 2
    output.line("slotkeeper doctor")
    assert capsys.readouterr().out.splitlines()[-1] == "slotkeeper doctor"
