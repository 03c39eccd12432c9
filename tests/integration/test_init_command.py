"""`slotkeeper init`: a first job, by options or by answers at a terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import init, jobs
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience
from slotkeeper.demo.warehouse import Warehouse
from tests.support.local_driver import LOCAL
from tests.support.mirror import MakeMirror
from tests.support.printed import bare
from tests.tui.terminal import Terminal

TABLE = "ods.orders"
DWS = ("--dialect", "dws")
HALF = (*DWS, "--source", "etl@127.0.0.1:1/d", "--source-password-file", "p")
FULL = (*HALF, "--table", "ods.orders", "--sink", "etl@127.0.0.1:1/d", "--sink-password-file", "p")


@dataclass(frozen=True)
class Pair:
    """A warehouse with a table to follow, and a sink, as the user of a first job knows them."""

    source: Endpoint
    sink: Endpoint

    @property
    def words(self) -> list[str]:
        found = ["--dialect", "dws"]
        for name, one in (("source", self.source), ("sink", self.sink)):
            found += [f"--{name}", at(one), f"--{name}-password-file", one.password.ref]
        return found


def at(one: Endpoint) -> str:
    return f"{one.user}@{one.host}:{one.port}/{one.database}"


@pytest.fixture
def pair(warehouse: Warehouse, make_mirror: MakeMirror) -> Pair:
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))
    mirror = make_mirror(warehouse, TABLE)
    return Pair(mirror.job.source, mirror.job.sink)


def test_options_make_a_configuration_that_both_servers_allow(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own" / "c.toml"
    words = ["init", "--config", str(file), *pair.words, "--table", TABLE, "--no-start"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert f"written: {file}" in said.out and "both servers passed all" in said.out
    assert "start it: `slotkeeper jobs start orders" in bare(said.out)
    assert said.out.startswith("This creates your first job") and str(file) in said.out.splitlines()[1]
    assert file.stat().st_mode & 0o777 == 0o600
    job = load(file, {}).jobs["orders"]
    assert (job.slot, job.channel.source_table, job.channel.target, job.channel.create_target) == (
        "orders", TABLE, "mart.orders", True,
    )  # fmt: skip
    assert main(words) == 2
    assert "already exists" in capsys.readouterr().err


def test_a_target_that_another_job_writes_is_not_proposed_and_rejected_with_that_jobs_name(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    words = [*pair.words, "--table", TABLE, "--no-start"]
    assert main(["init", "--config", str(first), *words]) == 0
    monkeypatch.setenv("SLOTKEEPER_CONFIG", str(first))
    assert main(["init", "--config", str(second), *words, "--into", "mart.orders"]) == 2
    said = bare(capsys.readouterr().err)
    assert f"mart.orders: job orders already writes it (configuration {first})" in said and "mart.orders_2" in said
    assert not second.exists()
    assert main(["init", "--config", str(second), *words, "--job", "orders_own"]) == 0
    assert load(second, {}).jobs["orders_own"].channel.target == "mart.orders_2"
    third = tmp_path / "third.toml"
    assert main(["init", "--config", str(third), *words, "--job", "orders"]) == 2
    assert f"orders: job orders already has this name or slot (configuration {first})" in bare(capsys.readouterr().err)
    assert main(["init", "--config", str(third), *words]) == 0
    assert load(third, {}).jobs["orders_2"].channel.target == "mart.orders_3"


def test_the_file_that_the_environment_names_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "named.toml"
    monkeypatch.setenv("SLOTKEEPER_CONFIG", str(file))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["init"]) == 2
    assert f"Writes   {file}\n" in capsys.readouterr().out
    file.touch()
    assert main(["init"]) == 2
    assert f"configuration {file}: already exists" in capsys.readouterr().err


def test_a_job_that_has_not_started_in_time_is_not_a_success_and_continues(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_start_patience", lambda job, wait: Patience(0.01))
    monkeypatch.setattr(control, "Launch", lambda: LOCAL)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "c.toml"
    options = ["--config", str(file)]
    try:
        assert main(["init", *options, *pair.words, "--table", TABLE, "--start"]) == 1
        said = capsys.readouterr()
        assert (
            "not started yet: job orders is still starting" in said.err and "open the console: slotkeeper" in said.out
        )
        assert main(["jobs", "show", "orders", *options]) == 0
    finally:
        assert main(["jobs", "stop", "orders", *options]) == 0


def test_what_a_server_does_not_allow_is_said_and_the_file_stays(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.toml"
    assert main(["init", "--config", str(file), *pair.words, "--table", "ods.nosuch"]) == 1
    said = capsys.readouterr()
    assert "fail" in said.out and "ods.nosuch" in said.out
    assert "then run: `slotkeeper doctor`" in bare(said.err) and "start it" not in said.out
    assert file.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--dialect is required: no terminal for a prompt"),
        (["--dialect", "oracle"], "unknown kind 'oracle' (known: dws, hologres, hologres_slot, mysql)"),
        ([*DWS], "--source is required: no terminal for a prompt"),
        ([*DWS, "--source", "etl:secret9XYZ@h/d"], "the address must not contain a password"),
        ([*DWS, "--source", "nowhere"], "'nowhere' is not a server address"),
        ([*DWS, "--source", "etl@h:notaport/d"], "expected: user@host:port/database"),
        ([*DWS, "--source", "etl@h:1"], "expected: user@host:port/database"),
        (["--dialect", "mysql", "--source", "etl@h:1/d"], "expected: user@host:port"),
        ([*DWS, "--source", "etl@h:1/d"], "--source-password-file is required"),
        ([*HALF, "--table", "orders"], "--table 'orders': must be schema.table"),
        ([*FULL, "--into", "orders"], "--into 'orders': must be schema.table"),
        ([*FULL, "--job", "orders rt"], "--job 'orders rt': must consist of letters and digits"),
        ([*DWS, "--sink-kind", "doris"], "a sink of kind doris needs a second sink for its progress rows"),
        ([*DWS, "--sink-kind", "oracle"], "unknown kind 'oracle' (known: postgres, dws)"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line_and_nothing_is_written(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--config", str(tmp_path / "c.toml"), *words]) == 2
    error = capsys.readouterr().err
    assert said in error and "secret9XYZ" not in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", ["c.toml", "new/folder/c.toml"])
def test_a_folder_that_others_can_write_gets_neither_a_question_nor_a_file(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o777)
    assert main(["init", "--config", str(tmp_path / file), *FULL]) == 2
    said = capsys.readouterr()
    assert f"is below {tmp_path}, which is writable by other users (mode 0777)" in said.err and not said.out
    assert not list(tmp_path.iterdir())


def test_a_link_that_leads_nowhere_is_refused_before_a_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.toml").symlink_to(tmp_path / "absent")
    assert main(["init", "--config", str(tmp_path / "c.toml")]) == 2
    said = capsys.readouterr()
    assert "already exists" in said.err and not said.out


def test_a_path_that_the_system_refuses_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ("x" * 300)))
    for words in (["init", *FULL], ["init", "--config", str(tmp_path / ("y" * 300)), *FULL], ["status"]):
        assert main(words) == 2
        assert "File name too long" in capsys.readouterr().err


def test_an_answer_that_no_configuration_takes_is_asked_for_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = iter(["etl@127.0.0.1:1/d", "p", "orders", "ods.订单", "etl@127.0.0.1:1/d", "p", "", "1st", ""])
    monkeypatch.setattr(init, "_ask", lambda question, default: next(typed) or default)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["init", "--config", str(tmp_path / "c.toml"), *DWS]) == 1
    said = capsys.readouterr().err
    assert "--table 'orders': must be schema.table" in said and "--job '1st': must consist of letters" in said
    assert load(tmp_path / "c.toml", {}).jobs["job"].channel.target == "mart.订单"


def test_who_leaves_at_a_question_leaves_no_password_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed, existed = iter(["etl@127.0.0.1:1/d", "", "ods.orders"]), list[bool]()

    def ask(question: str, default: str | None) -> str:
        existed.append((tmp_path / "warehouse.password").exists())
        try:
            return next(typed)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(init, "_ask", ask)
    monkeypatch.setattr(init, "_unseen", lambda question: "secret")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    assert main(["init", "--config", str(tmp_path / "c.toml"), *DWS]) == 130
    assert existed == [False] * 4, "it is written after the last question"
    assert not list(tmp_path.iterdir())


def test_the_welcome_screen_asks_writes_and_opens_the_console(pair: Pair, tmp_path: Path) -> None:
    """A typed password is not shown, and is stored in a file that only its owner can read."""
    terminal = Terminal(tmp_path, configured=False)
    terminal.read_until(b"your first job")
    password = Path(pair.sink.password.ref).read_bytes().strip()
    terminal.press(b"n", b"Leave    with Ctrl-C")
    terminal.read_until(b"kind of source (dws, hologres, hologres_slot, mysql)")
    terminal.press(b"oracle\n", b"unknown kind")
    terminal.press(b"dws\n", b"source (user@host:port/database)")
    terminal.press(b"nowhere\n", b"is not a server address")
    terminal.press(at(pair.source).encode() + b"\n", b"file with the password")
    terminal.press(pair.source.password.ref.encode() + b"\n", b"source table")
    terminal.press(b"ods.orders\n", b"sink (user@host:port/database)")
    terminal.press(at(pair.sink).encode() + b"\n", b"file with the password")
    terminal.press(b"\n", f"password of {pair.sink.user}: ".encode())
    terminal.press(password + b"\n", b"target table")
    terminal.press(b"\n", b"name of the job")
    terminal.press(b"orders_own\n", b"start it now?")
    terminal.press(b"n\n", b"slotkeeper jobs start orders_own")
    terminal.read_until(b"\x1b[?1049h", len(terminal.seen))
    terminal.read_until(b"orders_own", len(terminal.seen))
    terminal.write(b"q")
    terminal.read_until(b"\x1b[?1049l", len(terminal.seen))
    assert terminal.end() == 0
    assert password not in terminal.seen
    kept = tmp_path / "slotkeeper" / "mart.password"
    assert (kept.read_bytes().strip(), kept.stat().st_mode & 0o777) == (password, 0o600)
    assert load(tmp_path / "slotkeeper" / "config.toml", {}).jobs["orders_own"].channel.target == "mart.orders"
