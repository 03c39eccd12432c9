"""The command line as a whole: lazy groups, shared options, usage errors, codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from slotkeeper import __version__
from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import main as main_cli
from slotkeeper.core.errors import Refused
from tests.unit.config.samples import SECRET, VALID, changed

ROOT = Path(__file__).parents[3]
HEAVY = ("textual", "pyspark", "psycopg2", "rich")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("SLOTKEEPER_CONFIG", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "c.toml"
    file.write_text(VALID)
    return file


def _planted(monkeypatch: pytest.MonkeyPatch, raised: BaseException | None) -> None:
    """Replace the registered commands by one, `demo`, that raises an error."""
    planted = typer.Typer()

    @planted.command()
    def demo(text: str = "") -> None:
        if raised is not None:
            raise raised

    def load(name: str) -> object:
        planted.rich_markup_mode = None
        return typer.main.get_command(planted)

    monkeypatch.setattr(main_cli, "load_command", load)


@pytest.mark.parametrize(
    "args",
    [
        ["nope"],
        ["confg"],
        ["--nope"],
        ["config"],
        ["config", "nope"],
        ["config", "check", "--nope"],
        ["config", "check", "extra"],
        ["--config"],
        ["config", "check", "--config"],
        ["config", "\x1b[31m"],
    ],
    ids=" ".join,
)
def test_a_usage_error_is_one_message_and_code_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("slotkeeper: ") and len(err.splitlines()) == 2
    assert "--help" in err and "\x1b" not in err


def test_a_wrong_command_gets_the_nearest_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    main(["confg"])
    assert "did you mean config?" in capsys.readouterr().err


@pytest.mark.parametrize("place", range(3))
def test_shared_options_may_stand_anywhere(place: int, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["config", "check"]
    args[place:place] = ["--ascii", f"--config={file}"]
    assert main(args) == 0
    assert capsys.readouterr().out == f"{file}: valid (1 source, 1 sink, 1 job)\n"


def test_after_two_dashes_nothing_is_an_option() -> None:
    assert main_cli.hoisted(["a", "--", "--config", "x"]) == ["a", "--", "--config", "x"]


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"slotkeeper {__version__}\n"


def test_help_lists_commands_in_three_parts_and_all_options_on_one_small_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert [line[:9].strip() for line in lines if line[:3] in ("Loo", "Act", "Set")] == ["Look:", "Act:", "Set up:"]
    assert [name for line in lines[2:-2] for name in line[9:21].strip().split(", ")] == list(main_cli.COMMANDS)
    options = {name for option in main_cli.main_command().params for name in option.opts}
    assert options | {"--help"} == set(re.findall(r"--[a-z-]+", "\n".join(lines)))


def test_a_command_whose_module_is_absent_is_not_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(main_cli.COMMANDS, "ghost", main_cli.Entry("no_such_module", "not built"))
    assert main(["ghost"]) == 2
    assert "unknown command 'ghost'" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert "ghost" not in capsys.readouterr().out


def test_every_module_that_is_there_can_be_loaded() -> None:
    root = main_cli.main_command()
    for name in root.list_commands(None):
        assert root.get_command(None, name).name == name


def test_show_tells_values_and_origins(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "--origin", "--config", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"sources.dws1.port = 8000  # file {file}:4" in lines
    assert 'jobs.orders_rt.retry.wait_max = "30s"  # default' in lines
    assert main(["config", "show", "--config", str(file)]) == 0
    assert "sources.dws1.port = 8000" in capsys.readouterr().out.splitlines()


def test_show_as_json_is_one_object(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "--json", "--config", str(file)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["settings"]["sources.dws1.port"] == {"value": 8000, "origin": "file", "place": f"{file}:4"}


def test_secrets_are_never_shown(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DWS1_PASSWORD", SECRET)
    file.write_text(changed('kind = "postgres"', f'kind = "postgres"\npassword_command = "echo {SECRET}"'))
    for args in (["config", "show", "--origin"], ["config", "show", "--json"], ["config", "check"]):
        assert main([*args, "--config", str(file)]) == 0
        out, err = capsys.readouterr()
        assert SECRET not in out + err


def test_check_warns_and_is_fine(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(changed('password_env = "DWS1_PASSWORD"', 'password_file = "none"'))
    assert main(["config", "check", "--config", str(file)]) == 0
    out, err = capsys.readouterr()
    assert "fine" in out
    assert err.startswith("slotkeeper: warning: sources.dws1: password_file") and len(err.splitlines()) == 1
    assert main(["config", "check", "--json", "--config", str(file)]) == 0
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == 1


def test_check_says_which_password_cannot_be_masked(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DWS1_PASSWORD", "orders")
    assert main(["config", "check", "--config", str(file)]) == 0
    err = capsys.readouterr().err
    assert "sources.dws1: the variable DWS1_PASSWORD (password_env) contains fewer than 8 characters" in err
    assert "it cannot be masked" in err and "orders" not in err
    monkeypatch.setenv("DWS1_PASSWORD", SECRET)
    assert main(["config", "check", "--config", str(file)]) == 0
    assert not capsys.readouterr().err


def test_an_error_of_a_command_is_its_message_and_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _planted(monkeypatch, Refused("job x runs", hint="stop it first"))
    monkeypatch.setattr(main_cli.LazyGroup, "list_commands", lambda self, ctx: ["demo"])
    assert main(["demo"]) == 3
    assert capsys.readouterr().err == "slotkeeper: job x runs\n  stop it first\n"


@pytest.mark.parametrize(("raised", "code"), [(typer.Exit(4), 4), (KeyboardInterrupt(), 130), (None, 0)])
def test_a_command_ends_with_its_own_code(
    raised: BaseException | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _planted(monkeypatch, raised)
    monkeypatch.setattr(main_cli.LazyGroup, "list_commands", lambda self, ctx: ["demo"])
    assert main(["demo"]) == code


def test_an_unexpected_error_is_one_line_and_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _planted(monkeypatch, ZeroDivisionError("[bold]row[/bold]"))
    monkeypatch.setattr(main_cli.LazyGroup, "list_commands", lambda self, ctx: ["demo"])
    assert main(["demo"]) == 1
    log = tmp_path / "state" / "slotkeeper" / "console.log"
    expected = f"slotkeeper: unexpected ZeroDivisionError; this is a defect\n  details: {log}\n"
    assert capsys.readouterr().err == expected
    assert "Traceback" in log.read_text()


def _python(code: str, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *args],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_looking_at_the_configuration_loads_nothing_heavy(file: Path) -> None:
    code = (
        "import sys; from slotkeeper.console.__main__ import main; code = main(sys.argv[1:]);"
        f"print([m for m in {HEAVY!r} if m in sys.modules], code, file=sys.stderr)"
    )
    done = _python(code, "config", "show", "--json", "--config", str(file))
    assert done.stderr == "[] 0\n"


def test_a_reader_that_goes_away_causes_no_error(file: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as stdout:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "slotkeeper.console", "config", "show", "--config", str(file)],
            cwd=ROOT,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "")


def test_a_narrow_locale_causes_no_error(file: Path) -> None:
    file.write_text(changed('environment = "PROD"', 'environment = "größe"'))
    code = "import sys; from slotkeeper.console.__main__ import main; sys.exit(main(sys.argv[1:]))"
    done = _python(code, "config", "show", "--config", str(file), PYTHONIOENCODING="ascii", COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")


def test_without_a_configuration_and_a_screen_no_command_is_loaded(tmp_path: Path) -> None:
    script = "import sys\nfrom slotkeeper.console.__main__ import main\ncode = main([])\n"
    script += "print(code, *(name for name in sys.modules if name.startswith('slotkeeper.console.commands.')))"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    env = {name: env[name] for name in env if not name.startswith(("XDG_", "SLOTKEEPER_"))}
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.stdout.split() == ["2", *(f"slotkeeper.console.commands.{name}" for name in ("configured", "main"))], (
        ended.stderr
    )
