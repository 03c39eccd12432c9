"""Own commands: which files and entries are accepted, and how a program is started, read and ended."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from slotkeeper.console.actions import own, own_child
from slotkeeper.console.actions.own import Context, Own, OwnCommand
from slotkeeper.console.actions.runner import OWN, Order, Runner
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.audit import Phase
from slotkeeper.core.errors import Refused
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from tests.support.waiting import until

TAIL = '[[command]]\nname = "tail"\nkey = "f5"\nrun = ["tail", "-n", "5"]\n'
HOSTILE = 'o\'r "d" $(touch x) `id`; \\ * \x1b[31m\x1b]0;t\x07 \n --flag é'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir(mode=0o700)
    return tmp_path / "config" / own.FILE


def written(file: Path, text: str, mode: int = 0o600) -> Path:
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return file


def test_a_private_file_gives_commands_and_contexts(file: Path) -> None:
    text = TAIL + '[contexts]\nprod = {config = "/etc/slotkeeper/prod.toml"}\nlab = {state_dir = "~/lab"}\n'
    contexts = (Context("prod", Path("/etc/slotkeeper/prod.toml")), Context("lab", None, Path("~/lab").expanduser()))
    assert own.read(written(file, text)) == Own((OwnCommand("tail", "f5", ("tail", "-n", "5")),), contexts)


def test_a_missing_file_gives_no_command_and_no_fault(file: Path) -> None:
    assert own.read(file) == own.read(Path("/proc/1/no/such")) == Own()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o700, 0o601, 0o622])
def test_a_file_that_is_open_to_others_gives_nothing_and_says_so(mode: int, file: Path) -> None:
    found = own.read(written(file, TAIL, mode))
    assert not found.commands and len(found.faults) == 1 and "chmod" in found.faults[0]


def test_a_file_of_another_user_or_of_root_gives_nothing(file: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives files away")
    os.chown(written(file, TAIL), 4_711, -1)
    found = own.read(file)
    assert not found.commands and "belongs to another user" in found.faults[0]


def test_a_link_even_to_a_private_file_of_ones_own_gives_nothing(file: Path, tmp_path: Path) -> None:
    file.symlink_to(written(tmp_path / "mine.toml", TAIL))
    found = own.read(file)
    assert not found.commands and "is a link" in found.faults[0]


def test_a_folder_on_the_way_that_others_can_write_gives_nothing(file: Path) -> None:
    written(file, TAIL)
    file.parent.chmod(0o777)
    found = own.read(file)
    assert not found.commands and "writable by other users" in found.faults[0]


def test_a_fifo_and_a_folder_hold_nothing_up(file: Path) -> None:
    os.mkfifo(file, 0o600)
    assert "not a regular file" in own.read(file).faults[0]
    file.unlink()
    file.mkdir()
    assert own.read(file).faults


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[command", "not used"),
        ("a = " + "[" * 5_000, "not used"),
        ("#" * own.MOST + "#", "larger than"),
        ("command = 7", "at most"),
        ('[[command]]\nkey = "f5"\nrun = ["a"]', "unnamed entry"),
        ('[[command]]\nname = "\\u001b[31m"\nrun = ["a"]', "name can contain only letters"),
        (TAIL + TAIL.replace("f5", "f6"), "the name is used twice"),
        (TAIL + TAIL.replace("tail", "other"), "key f5 is already used (tail)"),
        (TAIL.replace("f5", "p"), "key p is already used (pause job)"),
        (TAIL.replace("f5", "escape"), "key must be a letter"),
        (TAIL.replace("f5", "ctrl+c"), "key must be a letter"),
        (TAIL.replace("f5", "ctrl+m"), "key must be a letter"),
        (TAIL.replace('["tail", "-n", "5"]', '"tail -n 5; rm -rf x"'), "run must be a list of words"),
        (TAIL.replace('["tail", "-n", "5"]', "[]"), "run must be a list of words"),
        (TAIL.replace('"-n"', "7"), "not a valid argument"),
        (TAIL.replace('"-n"', '"a\\u0000b"'), "not a valid argument"),
        (TAIL.replace('"tail", ', '"./tail", '), "an absolute path"),
        (TAIL.replace('"tail", ', '"", '), "not a valid argument"),
        (TAIL + "shell = true", "unknown key shell"),
        ('[contexts]\nx = "/a"', "a context must set"),
        ('[contexts]\nx = {config = "relative"}', "must be a path that"),
        ('[contexts]\nx = {config = "/a", state_dir = "/b"}', "a context must set"),
        ('[contexts]\n"../x" = {config = "/a"}', "a context's name"),
        ("surprise = 1", "unknown key surprise"),
    ],
)
def test_what_cannot_be_taken_is_one_clear_line_and_the_rest_stays(text: str, said: str) -> None:
    found = own.read_text(text.encode(), {"p": "pause job"})
    assert len(found.faults) == 1 and said in found.faults[0]
    assert "\n" not in found.faults[0] and "\x1b" not in found.faults[0] and len(found.faults[0]) < 400
    good = own.read_text((text + "\n" + TAIL.replace("tail", "good").replace("f5", "f9")).encode(), {"p": "pause job"})
    if text.startswith("[[command]]"):
        assert good.command("good") is not None


# -- running programs
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def run(file: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def go(code: str, *pairs: str, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        written(file, f'[[command]]\nname = "it"\nrun = [{json.dumps(sys.executable)}, "-c", {json.dumps(code)}]\n')
        mark = OwnCommand("it", "", (sys.executable, "-c", code)).mark
        words = [*OWN, str(tmp_path / "state"), str(file), "it", mark, "INC-7", *pairs]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(words, stdout=pipe, stderr=pipe, env={**os.environ, **(environment or {})}))
        return started[-1]

    yield go
    for one in started:
        if one.poll() is None:
            one.kill()
        one.communicate()


def lines(tmp_path: Path) -> list[tuple[Phase, str, str, dict[str, str]]]:
    read = Audit(StateFolder.looked_at(tmp_path / "state")).read().lines
    return [(one.phase, one.what, one.outcome or one.reason, dict(one.result)) for one in reversed(read)]


def test_the_row_is_in_the_environment_byte_for_byte_and_no_shell_reads_it(
    run: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    code = "import os, json; print(json.dumps([os.environ[k] for k in ('JOB', 'TABLE', 'SLOT', 'DN')]))"
    pairs = (f"JOB={HOSTILE}", "TABLE=a=b", "SLOT=", "EXTRA=x")
    out, err = run(code, *pairs, environment={"DN": "stale", "SLOT": "stale"}).communicate(timeout=60)
    assert json.loads(out) == [HOSTILE, "a=b", "", ""] and err == b""
    (before, what, why, row), (after, _, ended, _) = lines(tmp_path)
    assert (before, why, after, ended) == (Phase.INTENT, "INC-7", Phase.OUTCOME, "exit 0")
    assert (
        what.startswith("it: ") and "\x1b" not in row["JOB"] and row["TABLE"] == "a=b" and set(row) == {"JOB", "TABLE"}
    )


def test_secrets_that_were_handed_to_the_console_are_not_in_its_environment(
    run: Callable[..., subprocess.Popen[bytes]],
) -> None:
    code = "import os; print(sorted(k for k in os.environ if 'SECRET' in k))"
    out, _ = run(code, environment={"SLOTKEEPER_SECRETS": "/proc/self/fd/99"}).communicate(timeout=60)
    assert out == b"[]\n"


@pytest.mark.parametrize(
    ("code", "ended"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)], ids=["3", "killed"]
)
def test_its_exit_code_is_ours_and_is_in_the_audit(
    code: str, ended: int, run: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    one = run(code)
    one.communicate(timeout=60)
    assert one.returncode == ended and lines(tmp_path)[-1][2] == f"failed: exit {ended}"


def test_a_program_that_writes_without_end_fills_no_disk(run: Callable[..., subprocess.Popen[bytes]]) -> None:
    out, _ = run("import sys; [sys.stdout.write('x' * 65536) for _ in range(64)]").communicate(timeout=60)
    assert own_child.MOST_WRITTEN < len(out) < own_child.MOST_WRITTEN + 100 and out.endswith(
        b"more bytes are not stored\n"
    )


def test_what_it_leaves_behind_with_its_output_open_holds_nothing_up(
    run: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    one = run(code)
    assert one.stdout is not None
    left = int(one.stdout.readline())
    try:
        until(lambda: one.poll() is not None, 30, "it to end")
        assert one.returncode == 0 and lines(tmp_path)[-1][2] == "exit 0"
    finally:
        with suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("deaf", [False, True], ids=["it listens", "it ignores SIGTERM"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_hangs_is_ended_with_all_it_started_and_the_audit_says_so(
    number: signal.Signals, deaf: bool, run: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    told = tmp_path / "told"
    hears = f"lambda *of: open({str(told)!r}, 'w')" if deaf else "signal.SIG_DFL"
    code = f"import signal, subprocess, os; signal.signal(signal.SIGTERM, {hears}); "
    code += "p = subprocess.Popen(['sleep', '600']); print(os.getpid(), p.pid, flush=True)\nwhile True: signal.pause()"
    one = run(code)
    assert one.stdout is not None
    pids = [int(word) for word in one.stdout.readline().split()]
    one.send_signal(number)
    if deaf:
        until(told.exists, 30, "it to be told")
        one.send_signal(number)  # a second signal does not wait
    until(lambda: one.poll() is not None, 30, "it to be ended")
    assert one.returncode == 130
    until(lambda: not any(map(_there, pids)), 30, "all of it to end")
    assert lines(tmp_path)[-1][2] == "interrupted"


def _there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2]
    except OSError:
        return False
    return not state.startswith("Z")


def test_a_command_that_has_gone_or_a_file_that_was_opened_meanwhile_runs_nothing(
    run: Callable[..., subprocess.Popen[bytes]], file: Path, tmp_path: Path
) -> None:
    touched = tmp_path / "ran"
    code = f"open({str(touched)!r}, 'w')"
    one = run(code)
    file.chmod(0o644)
    _, err = one.communicate(timeout=60)
    if one.returncode == 3:  # otherwise it had read the file before
        assert b"unknown own command it" in err and b"accessible to other users" in err
        assert not touched.exists() and not lines(tmp_path)
    written(file, TAIL)
    words = [
        sys.executable,
        "-P",
        "-m",
        "slotkeeper.console.actions.own_child",
        str(tmp_path / "s"),
        str(file),
        "it",
        "",
        "",
    ]
    ended = subprocess.run(words, capture_output=True, check=False, timeout=60)
    assert ended.returncode == 3 and b"unknown own command it" in ended.stderr and not ended.stdout


def test_an_argument_list_that_was_changed_after_it_was_shown_is_not_run(file: Path, tmp_path: Path) -> None:
    shown = OwnCommand("it", "", ("true", "a"))
    assert shown.mark != OwnCommand("it", "", ("true a",)).mark != OwnCommand("it", "", ("true", "b")).mark
    touched = tmp_path / "ran"
    written(file, f'[[command]]\nname = "it"\nrun = ["touch", {json.dumps(str(touched))}]\n')
    words = [*OWN, str(tmp_path / "state"), str(file), "it", shown.mark, "INC-7"]
    ended = subprocess.run(words, capture_output=True, check=False, timeout=60)
    assert ended.returncode == 3 and b"own command it has changed since it was shown: touch" in ended.stderr
    assert not touched.exists() and not (tmp_path / "state").exists()


def test_a_path_from_the_home_of_a_user_without_one_is_a_fault_and_the_rest_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_account(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", no_account)
    found = own.read_text((TAIL + '[contexts]\nx = {config = "~/a"}\n').encode(), {})
    assert found.command("tail") is not None and found.faults[0].startswith("console.toml: x: Could not determine home")


def test_the_console_s_runner_starts_it_shows_what_it_writes_and_ends_one_that_hangs(
    file: Path, tmp_path: Path
) -> None:
    code = "import os, signal; print(os.environ['JOB'], '\\x1b[31m', flush=True)\nwhile True: signal.pause()"
    written(file, f'[[command]]\nname = "it"\nrun = [{json.dumps(sys.executable)}, "-c", {json.dumps(code)}]\n')
    runs = Runner(tmp_path / "state", SystemClock())
    mark = OwnCommand("it", "", (sys.executable, "-c", code)).mark
    words = (str(tmp_path / "state"), str(file), "it", mark, "INC-7", f"JOB={HOSTILE}", "TABLE=", "SLOT=", "DN=")
    id = runs.start(Order(words, "run it", HOSTILE, program=OWN, shown=(sys.executable, "-c", code)))
    until(lambda: runs.said(id).out.count("\x1b[31m") == 2, 60, "it to write")
    assert runs.said(id).out.startswith(HOSTILE) and runs.cancel(id)
    until(lambda: (found := runs.find(id)) is not None and found.over, 60, "it to be ended")
    found = runs.find(id)
    assert found is not None and found.record.code == 130 and found.record.own
    assert found.record.text == shlex.join([sys.executable, "-c", code])
    assert [one[2] for one in lines(tmp_path)] == ["INC-7", "interrupted"]


def test_without_a_line_in_the_audit_nothing_runs(run: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "audit.jsonl").mkdir()
    one = run(f"open({str(tmp_path / 'ran')!r}, 'w')")
    _, err = one.communicate(timeout=60)
    assert one.returncode == 3 and b"audit" in err and not (tmp_path / "ran").exists()


def test_a_program_that_path_does_not_have_or_only_a_relative_part_of_it_is_refused(tmp_path: Path) -> None:
    trap = tmp_path / "bin" / "trap"
    trap.parent.mkdir()
    trap.write_text("#!/bin/sh\n")
    trap.chmod(0o755)
    assert own_child.program_of("trap", f"bin:{trap.parent}") == str(trap)
    for path in ("bin", "", "."):
        with pytest.raises(Refused, match="program trap was not found"):
            own_child.program_of("trap", path)
