"""Committed files contain nothing specific to one machine, and the package is complete."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from slotkeeper.core.config import load
from tests.architecture.checkout import PACKAGES, ROOT, committed

HOST_PATHS = re.compile(r"(?<![\w.$}/])/(?:work|root|home/[a-z]\w*|Users/[A-Za-z]\w*|opt/(?:wheels|pypi))(?:/|-|\b)")
"""Folders of one host; common folders (/usr/lib/jvm, /tmp) are allowed."""
REGISTRIES = re.compile(
    r"https?://[^\s\"'<>]*(?:artifactory|nexus|/simple\b|devpi|pypi\.[a-z]+\.|proxy\.golang|registry\.)", re.IGNORECASE
)
EXAMPLES = {"tests/architecture/test_files.py"}
"""Files that have to name such folders and hosts."""


def named(text: str) -> list[str]:
    """Return the host paths and registry hosts that the text names."""
    return [found[0] for pattern in (HOST_PATHS, REGISTRIES) for found in pattern.finditer(text)]


def test_no_committed_file_names_a_path_of_one_machine_or_a_registry() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    found = {}
    for path in committed(ROOT):
        name = path.relative_to(ROOT).as_posix()
        if name not in EXAMPLES and (places := named(path.read_text("utf-8", "replace"))):
            found[name] = places
    assert not found


@pytest.mark.parametrize("text", ["see /root/.cache", "in /work/repo", "'/home/anna/x'", "/opt/wheels", "/Users/Bo/x"])
def test_a_path_of_one_machine_is_reported(text: str) -> None:
    assert named(text)


@pytest.mark.parametrize("text", ["https://nexus.example.org/pypi", "--index-url https://x.example/simple"])
def test_a_registry_is_reported(text: str) -> None:
    assert named(text)


@pytest.mark.parametrize("text", ["a/work/b", "core/root", "https://github.com/x/y", "/usr/lib/jvm", "$HOME/root/x"])
def test_what_every_machine_has_is_not(text: str) -> None:
    assert not named(text)


def test_statements_and_styles_are_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packaged = project["tool"]["setuptools"]["package-data"]
    shipped = {path for pattern in packaged["slotkeeper"] for path in (ROOT / "slotkeeper").glob(pattern)}
    for package in PACKAGES:
        lying = {p for p in (ROOT / "slotkeeper" / package).rglob("*") if p.suffix in (".sql", ".tcss")}
        assert lying and lying <= shipped, sorted(map(str, lying - shipped))
    assert ROOT / "slotkeeper" / "py.typed" in shipped


def test_the_lock_holds_a_version_and_hashes_of_each_package_and_no_index() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").replace("\\\n", "").splitlines()
    packages = [line for line in lines if not line.startswith("#")]
    assert len(packages) > 60
    pinned = re.compile(r"[a-z0-9-]+==[\w.+!]+(?: ; [\w.'!=<>() ]+)?(?:\s+--hash=sha256:[0-9a-f]{64})+")
    assert [line for line in packages if not pinned.fullmatch(line)] == []
    assert "://" not in "\n".join(lines)


def test_make_installs_nothing_without_a_hash_but_this_checkout() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    installs = re.findall(r'"\$\$@" (.+?) \|\|', text)
    unhashed = [line for line in installs if not line.startswith("--require-hashes ")]
    assert (unhashed, len(installs)) == (["--no-deps --no-build-isolation -e ."], 4)
    assert len(re.findall(r"pip install", text)) == 4, (
        "uv and pip run the same steps: three for .venv and one for fuzzing"
    )


def test_the_example_configuration_is_accepted(tmp_path: Path) -> None:
    example = ROOT / "config.example.toml"
    if not example.exists():
        pytest.skip("config.example.toml does not exist yet")
    load.load(example, {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)})


def test_ci_runs_what_the_readme_says() -> None:
    steps = re.findall(r"^step (.+)$", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    assert steps == ["make check", "make test"]
    readme = (ROOT / "README.md").read_text("utf-8")
    assert all(step in readme for step in steps)


def test_make_lists_its_targets() -> None:
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stderr == ""
    targets = re.findall(r"^make ([a-z-]+) ", said.stdout, re.MULTILINE)
    assert {"install", "demo", "test", "check", "bench", "chaos", "clean", "help", "sbom"} <= set(targets)
