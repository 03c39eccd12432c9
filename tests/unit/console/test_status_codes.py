"""`status --exit-code` for monitoring: anything that prevents a judgement exits with 3, never with 0, 1 or 2."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import overall
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.state.sqlite import FILE_NAME, Store
from tests.unit.config.samples import VALID

ROOT = Path(__file__).parents[3]
CODE = ("status", "--exit-code")


class Place:
    """A configuration with one finished job, and a valid state folder: healthy until the test damages something."""

    def __init__(self, folder: Path) -> None:
        self.config, self.state = folder / "c.toml", folder / "state"
        self.write(VALID)
        with Store.open(self.state) as store:
            store.register_job("orders_rt", str(self.config))
            store.begin_run("orders_rt", "r0")
            store.apply("orders_rt", JobEvent.FINISHED, "")
            store.end_run("r0", 0, "")

    def write(self, text: str, password: str = "") -> None:
        text = text.replace("[state]\n", f'[state]\ndir = "{self.state}"\n')
        if password:
            text = text.replace('password_env = "DWS1_PASSWORD"', f'password_file = "{password}"')
        self.config.write_text(text, "utf-8")

    def words(self) -> list[str]:
        return [*CODE, "--config", str(self.config)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("SLOTKEEPER_CONFIG", raising=False)
    return Place(tmp_path)


def _folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _folder_of_everybody(place: Place) -> None:
    place.state.chmod(0o777)


def _state_is_a_file(place: Place) -> None:
    for one in sorted(place.state.rglob("*"), reverse=True):
        one.rmdir() if one.is_dir() else one.unlink()
    place.state.rmdir()
    place.state.write_text("x")


def _no_state(place: Place) -> None:
    place.state.rename(place.state.with_name("elsewhere"))


def _password_is_a_folder(place: Place) -> None:
    (place.state.parent / "secret").mkdir()
    place.write(VALID, password="secret")


UNJUDGED: dict[str, tuple[Callable[[Place], object], str]] = {
    "no such configuration": (lambda place: place.config.unlink(), "the file does not exist"),
    "a configuration that is a folder": (lambda place: _folder_instead(place.config), "cannot be read"),
    "a configuration that is not TOML": (lambda place: place.config.write_text("[jobs"), "TOML"),
    "a configuration that is not text": (lambda place: place.config.write_bytes(b"\xff\xfe\x00"), "UTF-8"),
    "an unknown key of a job": (lambda place: place.write(VALID.replace("slot = ", "slto = ")), "slto"),
    "an unknown key of a source": (lambda place: place.write(VALID.replace("port = 8000", "prot = 8000")), "prot"),
    "an unknown section": (lambda place: place.write(VALID + "[nosuch]\n"), "nosuch"),
    "a value out of its range": (lambda place: place.write(VALID.replace("port = 8000", "port = 0")), "port"),
    "no such password file": (lambda place: place.write(VALID, password="none"), "No such file"),
    "a password file that is a folder": (_password_is_a_folder, "is not a regular file"),
    "no state folder": (_no_state, "does not exist: no job is known"),
    "no state file": (lambda place: (place.state / FILE_NAME).unlink(), "does not exist: no job is known"),
    "a state folder that is a file": (_state_is_a_file, "is not a folder"),
    "a state folder that everybody may write to": (_folder_of_everybody, "state"),
    "a damaged state file": (lambda place: (place.state / FILE_NAME).write_bytes(b"x" * 9_000), "damaged"),
    "a state file that is a folder": (lambda place: _folder_instead(place.state / FILE_NAME), "state.sqlite3"),
}


def test_in_order_it_is_fine(place: Place) -> None:
    assert main(place.words()) == 0


@pytest.mark.parametrize("what", list(UNJUDGED))
def test_what_prevents_a_judgement_is_3_and_is_said(
    place: Place, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, said = UNJUDGED[what]
    spoil(place)
    for more in ([], ["--json"]):
        assert main([*place.words(), *more]) == 3
        out, err = capsys.readouterr()
        assert said in err and "Traceback" not in err and "ok" not in out.lower()


def test_a_state_folder_that_is_not_there_is_not_made(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = place.state / "nope"
    for words in (["status"], [*CODE]):
        assert main([*words, "--state-dir", str(nowhere)]) == 3
        assert f"state folder {nowhere} does not exist" in capsys.readouterr().err
    assert not nowhere.exists()
    assert main([*CODE]) == 3, "neither a configuration nor the default folder"


@pytest.mark.parametrize(
    "words",
    [
        [*CODE, "--jsn"],
        [*CODE, "extra"],
        [*CODE, "--state-dir"],
        [*CODE, "--config"],
        ["--nope", *CODE],
        ["sttaus", "--exit-code"],
        ["--exit-code"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_3(place: Place, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 3
    assert capsys.readouterr().err.startswith("slotkeeper: ")
    assert main(["--nope", *(word for word in words if word != "--exit-code")]) == 2


@pytest.mark.parametrize("error", [RuntimeError("ours"), MemoryError(), RecursionError()], ids=repr)
def test_a_defect_of_slotkeeper_is_3_without_a_traceback(
    place: Place, error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> object:
        raise error

    monkeypatch.setattr(overall, "gather", broken)
    assert main(place.words()) == 3
    said = capsys.readouterr()
    assert (said.out, "this is a defect" in said.err, "Traceback" in said.err) == ("", True, False)
    assert main(["status", "--config", str(place.config)]) == 1


def test_an_answer_that_cannot_be_written_is_3(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "slotkeeper.console", *place.words()],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60, env=env,
        )  # fmt: skip
    assert (ended.returncode, "Traceback" in ended.stderr) == (3, False), ended.stderr
    monkeypatch.setattr(overall, "overall", lambda *args: (_ for _ in ()).throw(BrokenPipeError()))
    monkeypatch.setattr("slotkeeper.console.__main__._let_go_of_stdout", lambda: None)
    assert main(place.words()) == 3


def test_what_is_worse_than_not_known_stays_worse(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open(place.state) as store:
        store.register_job("orders_rt", "c")
        store.begin_run("orders_rt", "r1")
        store.apply("orders_rt", JobEvent.FAILED, "gone")
    place.write(VALID, password="none")
    assert main(place.words()) == 2
    said = capsys.readouterr()
    assert "CRITICAL  orders_rt  FAILED: gone" in said.out and "job orders_rt: password_file" in said.err
