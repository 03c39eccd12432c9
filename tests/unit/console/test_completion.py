"""Completion in real shells (bash, zsh, fish): they get the correct words, and nothing else is printed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands.completion import Shell
from slotkeeper.console.commands.main import COMMANDS
from slotkeeper.core.domain.reset import OpenReset
from slotkeeper.core.domain.reset_files import MARKS, PLANS
from slotkeeper.core.state.files import ResetFiles
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store

PROGRAM = Path(sys.executable).with_name("slotkeeper")
CONFIG = """\
[sources.dws1]
dialect = "dws"
host = "nowhere.invalid"
port = 8000
database = "d"
user = "u"
password_env = "SOME_PASSWORD"
sslmode = "require"

[sinks.mart]
kind = "postgres"
host = "nowhere.invalid"
port = 5432
database = "mart"
user = "u"
password_env = "SOME_PASSWORD"
sslmode = "require"

[state]
dir = "state"
"""
JOB = """
[jobs.{name}]
source = "dws1"
sink = "mart"
[[jobs.{name}.channels]]
from = "{table}"
into = "mart.{name}"
[jobs.{name}.binlog]
binlog = true
binlog_slot_name = "slot_{name}"
"""
ODD = 'ods.\\"$(touch hit)\\"'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration of three jobs; its state folder has one more job and an unfinished reset."""
    jobs = JOB.format(name="orders_rt", table="ods.orders") + JOB.format(name="parts", table="ods.parts")
    (tmp_path / "config.toml").write_text(CONFIG + jobs + JOB.format(name="odd", table=ODD))
    state = StateFolder.open(tmp_path / "state")
    files = ResetFiles(state)
    files.save(MARKS, "r1", OpenReset("r1", "orders_rt", "ods.orders", "s").text)  # any command warns of it
    files.save(PLANS, "p7f3a9c", "{}")
    with Store.open(state.path) as store:
        store.register_job("old_job", "elsewhere.toml")
    return tmp_path


def ran(words: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLOTKEEPER")}
    env |= {"XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "HOME": str(folder), **more}
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, env=env, cwd=folder)


Asked = Callable[..., list[str]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Asked:
    """The completions that a shell gets for these words, without their help texts."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("SLOTKEEPER_CONFIG", raising=False)
    monkeypatch.setenv("_SLOTKEEPER_COMPLETE", "bash")
    monkeypatch.chdir(tmp_path)

    def ask(*words: str) -> list[str]:
        capsys.readouterr()
        assert main(words) == 0
        answer = capsys.readouterr()
        assert answer.err == ""
        return [line.partition("\t")[0] for line in answer.out.splitlines()]

    return ask


C = ("--config", "config.toml")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("jo",), ["jobs"]),
        (("jobs", "st"), ["start", "stop"]),
        (("config", ""), ["check", "show"]),
        (("status", "--js"), ["--json"]),
        (("jbs", "st"), []),
        (("--conf",), ["--config"]),
        (("jobs", "pause", "orders_rt", "--nosuch", ""), []),
        (("completion", "z"), ["zsh"]),
        (("demo", "--incident", "slot-exp"), ["slot-expired"]),
        ((*C, "jobs", "start", ""), ["odd", "old_job", "orders_rt", "parts"]),
        (("jobs", "start", "or", *C), []),
        (("jobs", *C, "start", "or"), ["orders_rt"]),
        ((*C, "jobs", "start", "orders_rt", ""), []),
        ((*C, "jobs", "pause", "orders_rt", "--table", ""), ["ods.orders"]),
        ((*C, "jobs", "pause", "orders_rt", "--table="), ["--table=ods.orders"]),
        ((*C, "jobs", "pause", "orders_rt", "--table", "=", "ods."), ["ods.orders"]),
        ((*C, "slots", "preflight", ""), ["ods.orders", "ods.parts"]),
        ((*C, "slots", "history", "ods.parts", ""), ["slot_parts"]),
        ((*C, "doctor", "--probe", ""), ["dws1", "mart"]),
        ((*C, "slots", "reset", "ods.orders", "slot_orders_rt", "--execute", "--plan", "p7"), ["p7f3a9c"]),
        ((*C, "slots", "reset", "ods.orders", "slot_orders_rt", "--to", "la"), ["latest"]),
        ((*C, "slots", "reset", "ods.orders", "slot_orders_rt", "--confirm", ""), []),
        ((*C, "jobs", "cancel", "orders_rt", "--confirm", ""), []),
        (("jobs", "list", "--state-dir", "state", "--js"), ["--json"]),
        (("jobs", "stop", "--state-dir", "state", "old"), ["old_job"]),
        (("--config", "conf"), [""]),
        (("jobs", "stop", "--state-dir", ""), [""]),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_offered(asked: Asked, typed: tuple[str, ...], offered: list[str]) -> None:
    assert asked(*typed) == offered


def test_nothing_is_made_and_a_broken_configuration_is_silent(asked: Asked, tmp_path: Path) -> None:
    assert asked("jobs", "start", "") == []
    (tmp_path / "broken.toml").write_text("[jobs")
    assert asked("--config", "broken.toml", "jobs", "start", "") == []
    assert [each.name for each in tmp_path.iterdir()] == ["broken.toml"]


def test_each_command_is_offered_without_being_imported(folder: Path) -> None:
    asking = (
        "import sys, slotkeeper.console.__main__ as m; m.main(['jobs', 'start', '']); m.main(['']);"
        " sys.exit(str({'psycopg2', 'pyspark', 'textual', 'rich'} & set(sys.modules)))"
    )
    answer = ran([sys.executable, "-c", asking], folder, _SLOTKEEPER_COMPLETE="bash")
    assert answer.stderr.strip() == "set()"
    assert answer.stdout.split("\n")[-len(COMMANDS) - 1].startswith(f"{next(iter(COMMANDS))}\t")


def test_the_names_in_a_script_are_those_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in Shell:
        assert main(["completion", shell.value]) == 0
        printed = capsys.readouterr().out
        assert "_SLOTKEEPER_COMPLETE=" in printed and "eval" not in printed


# -- real shells ------------------------------------------------------------------------------------------------------

LINES = {
    "jobs can": "cancel",
    "status --js": "--json",
    "--config config.toml jobs start ord": "orders_rt",
    "--config config.toml slots history ods.parts slo": "slot_parts",
    "--config conf": "config.toml",
}
BASH = """\
eval "$({program} completion bash)"
complete -p slotkeeper >/dev/null || exit 9
answer() {{
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
    _slotkeeper_complete {program}
    printf '%s\\n' "${{COMPREPLY[@]}}"
}}
"""
FISH = "{program} completion fish | source\n"
ZSH = """\
zmodload zsh/zpty
zpty shell 'PS1="@ " PATH={bin}:$PATH TERM=dumb zsh -f -i'
zpty -w shell 'unset zle_bracketed_paste; unsetopt prompt_cr prompt_sp; autoload -Uz compinit; compinit -u -D'
zpty -w shell 'eval "$({program} completion zsh)"'
zpty -w shell 'dump() {{ print -r -- "<$BUFFER>" }}; zle -N dump; bindkey "^O" dump'
zpty -w shell 'print re""ady'
zpty -r -m shell seen '*ready*@ '
"""
ZSH_LINE = """\
zpty -n -w shell $'slotkeeper {typed}\\t\\x0f'
zpty -r -m shell seen '*<*>*'
print -r -- "${{${{seen#*<}}%%>*}}"
zpty -n -w shell $'\\x15'
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(folder: Path) -> None:
    script = BASH.format(program=PROGRAM) + "".join(f"answer slotkeeper {line}\n" for line in LINES)
    answer = ran(["bash", "--norc", "-c", script], folder)
    assert (answer.stdout.split(), answer.stderr) == (list(LINES.values()), "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes(folder: Path) -> None:
    script = FISH.format(program=PROGRAM)
    script += "".join(f"complete --do-complete '{PROGRAM} {line}'\n" for line in LINES)
    answer = ran(["fish", "--no-config", "-c", script], folder)
    assert answer.stderr == ""
    assert [line.split("\t")[0] for line in answer.stdout.splitlines()] == list(LINES.values())


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_at_a_prompt(folder: Path) -> None:
    """In an interactive shell, because completion runs only within zsh's line editor."""
    script = ZSH.format(program=PROGRAM, bin=PROGRAM.parent)
    script += "".join(ZSH_LINE.format(typed=typed) for typed in LINES)
    answer = ran(["zsh", "-f", "-c", script + "zpty -d shell\n"], folder)
    assert answer.stderr == ""
    assert [line.split()[-1] for line in answer.stdout.splitlines()] == list(LINES.values())


@pytest.mark.usefixtures("folder")
def test_a_name_that_a_shell_would_take_for_a_command_is_not_offered(asked: Asked) -> None:
    assert not [each for each in asked(*C, "slots", "preflight", "") if "touch" in each]
