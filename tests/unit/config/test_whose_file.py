"""A configuration or secret that another user could have written is rejected by starts and by `config check`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.config.load import load, load_usable
from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.errors import ConfigError
from tests.unit.config.samples import VALID

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
COMMANDS = [["config", "check"], ["jobs", "start", "orders_rt"], ["jobs", "restart", "orders_rt"], ["run", "orders_rt"]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "p").write_text("hush", "utf-8")
    (tmp_path / "p").chmod(0o600)
    file = tmp_path / "config.toml"
    text = VALID.replace('password_env = "DWS1_PASSWORD"', 'password_file = "p"')
    file.write_text(text.replace("[state]\n", f'[state]\ndir = "{tmp_path / "state"}"\n'), "utf-8")
    file.chmod(0o600)
    return file


def refused(config: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["--config", str(config), *words]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err and not (config.parent / "state").exists()
    return said.err


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_configuration_that_others_can_write_is_refused_by_every_command(
    config: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    config.chmod(0o666)
    said = refused(config, words, capsys)
    assert f"configuration {config} is writable by other users (mode 0666): its commands would run as this user" in said
    assert f"chmod go-w {config}" in said


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_password_file_that_others_can_write_refuses_its_jobs(
    config: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (config.parent / "p").chmod(0o602)
    said = refused(config, words, capsys)
    assert f"password_file {config.parent / 'p'} is writable by other users (mode 0602)" in said
    assert "config.toml:17: jobs.orders_rt" in said


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_state_folder_that_others_can_write_is_refused_by_every_command(
    config: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    state = config.parent / "state"
    state.mkdir()
    state.chmod(0o777)
    assert main(["--config", str(config), *words]) == 3
    assert f"state folder {state} is writable by other users (mode 0777)" in capsys.readouterr().err
    assert list(state.iterdir()) == []


def test_a_check_makes_no_state_folder(config: Path) -> None:
    assert main(["--config", str(config), "config", "check"]) == 0
    assert not (config.parent / "state").exists()


def test_a_secret_is_judged_again_when_it_is_needed(config: Path) -> None:
    secret = config.parent / "p"
    assert resolve(SecretRef("file", str(secret))) == "hush"
    secret.chmod(0o620)
    with pytest.raises(ConfigError, match="is writable by other users"):
        resolve(SecretRef("file", str(secret)))


def test_an_unused_secret_of_somebody_else_is_a_warning(config: Path) -> None:
    (config.parent / "p").chmod(0o602)
    loaded = load_usable(config, {})
    assert list(loaded.refused) == ["orders_rt"]
    assert any("sources.dws1: password_file" in one and "writable by other users" in one for one in loaded.warnings)


@NEEDS_ROOT
def test_a_users_configuration_is_not_obeyed_by_root(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.chown(config, 64_001, -1)
    said = refused(config, ["config", "check"], capsys)
    assert "belongs to another user (uid 64001), and this command runs as root" in said
    assert "run as that user" in said


def test_a_configuration_behind_a_link_is_read_as_one_of_the_links_folder(config: Path) -> None:
    """As in a projected volume of Kubernetes: file -> ..data/file -> ..of_today/file, all owned by root."""
    folder = config.parent / "volume"
    (folder / "..of_today").mkdir(parents=True)
    config.rename(folder / "..of_today" / "config.toml")
    (config.parent / "p").rename(folder / "p")
    (folder / "..data").symlink_to("..of_today")
    (folder / "config.toml").symlink_to("..data/config.toml")
    loaded = load(folder / "config.toml", {})
    assert loaded.path == folder / "config.toml" and loaded.warnings == ()
    assert loaded.sources["dws1"].endpoint.password.ref == str(folder / "p")
