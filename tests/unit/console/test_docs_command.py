"""`slotkeeper docs`: every page that a message or a help text names exists, and opens at the named section."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import docs
from slotkeeper.core.domain.text import see
from slotkeeper.core.errors import ConfigError
from slotkeeper.demo.incidents.registry import INCIDENTS
from tests.architecture.checkout import PACKAGES, ROOT, sources, tree

FILE = re.compile(r"[\w/-]+\.md\b")
LINK = re.compile(r"\]\([^)]*\)")
"""A Markdown link to another page."""
COMMAND = re.compile(r"slotkeeper docs ([\w/@#.-]*[\w])")


def texts(path: Path) -> Iterator[str]:
    """The strings of a module without docstrings, which may name files for developers."""
    nodes = tree(path.read_text("utf-8"))
    said = {id(one.value) for one in nodes if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def calls() -> Iterator[tuple[str, str, str]]:
    """(file, page, title) of every call of `see` with literal texts."""
    for path in sources(ROOT, *PACKAGES):
        for node in tree(path.read_text("utf-8")):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "see":
                given = [str(one.value) for one in node.args if isinstance(one, ast.Constant)]
                if len(given) == len(node.args):
                    yield str(path.relative_to(ROOT)), given[0], given[1] if given[1:] else ""


def test_no_text_of_the_program_names_a_file_of_the_checkout_instead_of_a_page() -> None:
    found = {
        str(path.relative_to(ROOT)): named
        for path in sources(ROOT, *PACKAGES)
        for text in texts(path)
        if (named := [one for one in FILE.findall(LINK.sub("]", text)) if one != "README.md"])
    }
    assert not found, "name a page with slotkeeper.core.domain.text.see"


def test_every_page_that_a_text_names_opens_at_its_section() -> None:
    named = sorted(calls())
    assert len(named) > 10
    for file, name, title in named:
        found = docs.page_named(typed(name, title))
        assert found.text and bool(found.section) == bool(title), file


def typed(name: str, title: str) -> str:
    """The page as an argument of `slotkeeper docs`."""
    return see(name, title).removeprefix("`slotkeeper docs ").removesuffix("`")


def test_every_incident_has_its_section() -> None:
    for incident in INCIDENTS:
        assert docs.page_named(typed("runbook", incident.page)).text.startswith(f"## {incident.page}\n")


@pytest.mark.parametrize("file", ["config.example.toml", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_every_page_that_a_file_names_as_a_command_opens(file: str) -> None:
    for page in COMMAND.findall((ROOT / file).read_text("utf-8")):
        assert docs.page_named(page).text, page


def test_the_list_has_every_page_and_unit_with_a_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "--json"]) == 0
    listed = {one["page"]: one["title"] for one in json.loads(capsys.readouterr().out)}
    units = {f"systemd/{path.name}" for path in (ROOT / "docs" / "systemd").iterdir()}
    assert set(listed) == {path.stem for path in (ROOT / "docs").glob("*.md")} | units
    assert all(listed.values())


def test_the_list_fits_a_terminal_of_80_columns_and_names_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    out, err = capsys.readouterr()
    assert max(map(len, out.splitlines())) <= 80
    assert "`slotkeeper docs runbook`" in err


def test_a_page_is_printed_as_it_is_where_no_terminal_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "mysql"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs" / "mysql.md").read_text("utf-8")


def test_a_section_may_be_typed_as_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "runbook#slot-lost", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["section"] == "slot-lost-the-slot-expired-or-was-dropped"
    assert found["text"].startswith("## SLOT LOST")


def test_a_heading_in_a_block_of_code_starts_no_section() -> None:
    with pytest.raises(ConfigError, match="no section"):
        docs.page_named("alerts#binsh")


@pytest.mark.parametrize("wrong", ["runbok", "../README", "adr/0001", "runbook#nothing-of-that-name"])
def test_a_page_that_is_not_there_is_one_message_that_says_where_to_look(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", wrong]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 2 and "`slotkeeper docs" in err


def on_a_terminal(page: str, code: int = 0, **env: str) -> str:
    """The output of a page on a terminal; the command must exit with `code`."""
    read, write = pty.openpty()
    command = [sys.executable, "-m", "slotkeeper.console", "docs", page]
    given = {**os.environ, "TERM": "xterm", **env}
    with subprocess.Popen(command, cwd=ROOT, stdout=write, stderr=write, env=given) as shown:
        os.close(write)
        seen = b""
        while True:
            try:
                read_now = os.read(read, 65_536)
            except OSError:  # the other end of the terminal is closed
                break
            if not read_now:
                break
            seen += read_now
    os.close(read)
    assert shown.returncode == code
    return seen.decode().replace("\r\n", "\n")


def test_a_terminal_gets_a_rendered_page_through_the_pager_that_is_named() -> None:
    seen = on_a_terminal("states", PAGER="sed s/^/|/")
    lines = seen.splitlines()
    assert lines and all(line.startswith("|") for line in lines)
    assert "| --- |" not in seen and "\x1b[" in seen


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"PAGER": "no-such-pager-anywhere"}], ids=str)
def test_without_a_pager_a_page_is_shown_without_control_characters(env: dict[str, str]) -> None:
    seen = on_a_terminal("states", 0, **env)
    assert "CATCHING UP" in seen and "\x1b" not in seen


def test_a_pager_that_cannot_be_started_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "pager").write_text("no program\n", encoding="utf-8")
    (tmp_path / "pager").chmod(0o755)
    for pager, said in ((str(tmp_path / "pager"), "cannot start the pager"), ("less '", "PAGER cannot be parsed")):
        seen = on_a_terminal("states", code=2, PAGER=pager)
        assert said in seen and "Traceback" not in seen
