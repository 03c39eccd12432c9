"""The sdist and the wheel that `make dist` builds: their files, and their metadata."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.architecture.checkout import ROOT, committed, link


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Both distributions, built as by `make dist`, from a copy so that the checkout stays clean."""
    copy = tmp_path_factory.mktemp("source")
    for path in committed(ROOT):
        if path.relative_to(ROOT).parts[0] not in ("tests", "bench"):
            place = copy / path.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place, follow_symlinks=False)
    link(copy)
    (copy / "console" / "docs").symlink_to("../docs")
    made = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(made), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=made)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    yield made
    shutil.rmtree(copy)


@pytest.fixture(scope="module")
def wheel(folder: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(folder.glob("slotkeeper-*-cp311-abi3-*.whl")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(wheel.read(name))


def test_the_wheel_has_every_module_and_everything_that_they_read(wheel: zipfile.ZipFile) -> None:
    tracked = {path.relative_to(ROOT).as_posix() for path in committed(ROOT)}
    ours = re.compile(r"(?:slotkeeper/)?((?:core|console|demo)/.*\.(?:pyi?|sql|tcss|toml)|\w+\.py|py\.typed)$")
    wanted = {f"slotkeeper/{match[1]}" for name in tracked if "/" in name and (match := ours.match(name))}
    pages = {f"slotkeeper/console/{name}" for name in tracked if re.match(r"docs/([\w-]+\.md|systemd/.+)$", name)}
    packaged = {name for name in wheel.namelist() if ".d" not in name.partition("/")[0]}
    kernels = {name for name in packaged if name.endswith(".abi3.so")}
    assert packaged - kernels == wanted | pages
    both = {f"slotkeeper/core/{name}.abi3.so" for name in ("sources/mysql/_kernel", "sinks/postgres/write/_routing")}
    assert kernels == (both if shutil.which("cc") else set())
    others = {name.partition(".d")[2] for name in wheel.namelist() if name.startswith("slotkeeper-")}
    assert "ata/data/share/man/man1/slotkeeper.1" in others
    assert {"ist-info/licenses/LICENSE", "ist-info/licenses/NOTICE"} <= others


def test_the_sdist_has_the_kernels_source_and_is_built_without_a_compiler(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(next(folder.glob("slotkeeper-*.tar.gz"))) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    for name in ("sources/mysql/kernel.c", "sinks/postgres/write/routing.c"):
        assert (source / "slotkeeper" / "core" / name).is_file()
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"CC": "/nowhere/cc"})
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    assert "optional extension modules have failed" in done.stdout + done.stderr or "failed" in done.stderr
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    assert "slotkeeper/core/sources/mysql/kernel.py" in names
    assert not any(name.endswith(".so") for name in names)


def test_what_is_a_link_in_the_checkout_is_a_file_in_both(folder: Path, wheel: zipfile.ZipFile) -> None:
    example = (ROOT / "config.example.toml").read_bytes()
    assert wheel.read("slotkeeper/console/config.example.toml") == example
    assert wheel.read("slotkeeper/console/docs/runbook.md") == (ROOT / "docs" / "runbook.md").read_bytes()
    with tarfile.open(next(folder.glob("slotkeeper-*.tar.gz"))) as sdist:
        assert all(one.isfile() or one.isdir() for one in sdist.getmembers())


def test_the_metadata_says_what_it_is_and_who_makes_it(metadata: Message) -> None:
    assert (metadata["Name"], metadata["License-Expression"]) == ("slotkeeper", "Apache-2.0")
    assert metadata["Author"] == "The Slotkeeper developers"
    assert {"binlog", "cdc", "spark"} <= set(metadata["Keywords"].split(","))
    classifiers = set(metadata.get_all("Classifier", []))
    assert {"Typing :: Typed", "Environment :: Console", "Programming Language :: Python :: 3.11"} <= classifiers
    assert set(metadata.get_all("Provides-Extra", [])) == {"demo", "dataframe", "dev"}
    assert metadata.get_payload() == (ROOT / "README.md").read_text("utf-8")


def test_each_dependency_is_named_once_with_a_range(metadata: Message) -> None:
    needed = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    for extra in ("", "demo", "dataframe", "dev"):
        names = [
            one.name.lower()
            for one in needed
            if (one.marker is None) == (not extra) and (not extra or f'"{extra}"' in str(one.marker))
        ]
        assert names and len(names) == len(set(names)), extra
    users = [one for one in needed if 'extra == "dev"' not in str(one.marker)]
    assert len({one.name.lower() for one in users}) == len(users)
    for one in users:
        operators = {part.operator for part in one.specifier}
        assert operators == {"~="} or {">=", "<"} <= operators, f"{one}: constraints.txt alone has exact versions"


@pytest.mark.chaos
@pytest.mark.timeout(3_600)
def test_the_wheel_works_in_an_empty_environment(folder: Path, tmp_path: Path) -> None:
    python = tmp_path / "v" / "bin" / "python"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "v")], check=True)
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    pins = tmp_path / "pins.txt"
    pins.write_text(
        "\n".join(re.findall(r"^[a-z0-9-]+==[^ \\\n]+", (ROOT / "constraints.txt").read_text("utf-8"), re.M))
    )
    subprocess.run([*pip, "-c", str(pins), str(next(folder.glob("*.whl")))], check=True, cwd=tmp_path)
    program = str(python.with_name("slotkeeper"))
    for page in ("runbook#i-must-reset", "mysql", "systemd/slotkeeper-run@.service"):
        assert subprocess.check_output([program, "docs", page], env=env, cwd=tmp_path)
    lacking = subprocess.run(
        [program, "demo", "--sink", "doris"], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert 'pip install "slotkeeper[demo]"' in lacking.stderr
    demo = [*pip, "-c", str(pins), f"slotkeeper[demo] @ {next(folder.glob('*.whl')).as_uri()}"]
    subprocess.run(demo, check=True, cwd=tmp_path)
    command = [program, "demo", "--headless", "--duration", "20s", "--json"]
    assert '"verified": true' in subprocess.check_output(command, env=env, cwd=tmp_path, text=True)
