"""Targets and names of other jobs: in the default configuration, in those beside the new one, and of recorded jobs."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

import pytest

from slotkeeper.console.cli import first_config
from slotkeeper.console.cli.first_config import Place, Server, Writer, known, text_of
from slotkeeper.core.config.load import load_usable
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.state.sqlite import Store

SINK = Place("127.0.0.1", 5432, "mart", "etl")
SOURCE = Place("h", 8000, "gaussdb", "etl")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s")}


def writers(sink: Place, env: dict[str, str]) -> dict[str, Writer]:
    return known(env, Path(env["XDG_STATE_HOME"], "new.toml")).targets(sink)


def configured(file: Path, job: str, target: str, sink: Place = SINK) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    source = Server("dws", SOURCE, file)
    file.write_text(text_of(source, Server("postgres", sink, file), job, "ods.orders", target), encoding="utf-8")
    return file


def test_without_a_configuration_and_jobs_every_target_is_free(env: dict[str, str]) -> None:
    assert writers(SINK, env) == {}


def test_jobs_of_the_usual_configuration_and_of_the_state_folder_are_known(env: dict[str, str], tmp_path: Path) -> None:
    usual = configured(tmp_path / "c" / "slotkeeper" / "config.toml", "orders", "mart.orders")
    other = configured(tmp_path / "other.toml", "orders_own", "mart.orders_own")
    gone = configured(tmp_path / "gone.toml", "cancelled", "mart.cancelled")
    with Store.open(tmp_path / "s" / "slotkeeper") as store:
        for name, file in (("orders_own", other), ("cancelled", gone), ("broken", tmp_path / "absent.toml")):
            store.register_job(name, str(file))
        store.apply("cancelled", JobEvent.CANCELLED, "")
    assert writers(SINK, env) == {
        "mart.orders": Writer("orders", usual),
        "mart.orders_own": Writer("orders_own", other),
    }


def test_the_default_configuration_is_known_beside_the_one_that_the_environment_names(
    env: dict[str, str], tmp_path: Path
) -> None:
    usual = configured(tmp_path / "c" / "slotkeeper" / "config.toml", "orders", "mart.orders")
    named = {**env, "SLOTKEEPER_CONFIG": str(tmp_path / "new.toml")}
    assert writers(SINK, named) == {"mart.orders": Writer("orders", usual)}


def test_a_configuration_beside_the_new_one_is_known_though_its_job_was_never_started(
    env: dict[str, str], tmp_path: Path
) -> None:
    other = configured(tmp_path / "own" / "a.toml", "orders", "mart.orders")
    (tmp_path / "own" / "pyproject.toml").write_text("[project]\n", "utf-8")
    os.mkfifo(tmp_path / "own" / "pipe.toml")
    found = known(env, tmp_path / "own" / "new.toml")
    assert found.targets(SINK) == {"mart.orders": Writer("orders", other)}
    assert found.names(SOURCE) == {"orders": Writer("orders", other)}


def test_a_link_that_cannot_be_followed_and_many_other_files_hide_no_configuration_beside(
    env: dict[str, str], tmp_path: Path
) -> None:
    other = configured(tmp_path / "own" / "z.toml", "orders", "mart.orders")
    (tmp_path / "own" / "a.toml").symlink_to("x" * 300)
    for number in range(60):
        (tmp_path / "own" / f"b{number}.toml").touch()
    found = known(env, tmp_path / "own" / "new.toml")
    assert (found.targets(SINK), found.complete) == ({"mart.orders": Writer("orders", other)}, True)


def test_a_slot_that_another_job_has_at_the_same_source_is_a_taken_name(env: dict[str, str], tmp_path: Path) -> None:
    other = configured(tmp_path / "own" / "a.toml", "nightly", "mart.orders")
    other.write_text(other.read_text("utf-8") + 'binlog_slot_name = "orders"\n', "utf-8")
    found = known(env, tmp_path / "own" / "new.toml")
    assert found.names(SOURCE) == dict.fromkeys(("nightly", "orders"), Writer("nightly", other))
    assert "orders" not in found.names(Place("elsewhere", 8000, "gaussdb", "etl"))


def test_a_configuration_that_does_not_answer_is_passed_over(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = configured(tmp_path / "c" / "slotkeeper" / "config.toml", "orders", "mart.orders")
    silent = configured(tmp_path / "own" / "a.toml", "other", "mart.other")
    reached, answered, load = threading.Event(), threading.Event(), load_usable

    def wait(path: Path, env: dict[str, str]) -> Loaded:
        if path == silent:
            reached.set()
            answered.wait(60)
        return load(path, env)

    monkeypatch.setattr(first_config, "load_usable", wait)
    try:
        monkeypatch.setattr(threading.Thread, "join", lambda self, seconds: reached.wait(60))
        found = known(env, tmp_path / "own" / "new.toml")
    finally:
        monkeypatch.undo()
        answered.set()
    assert (found.targets(SINK), found.complete) == ({"mart.orders": Writer("orders", usual)}, False)


def test_the_name_of_a_recorded_job_is_taken_though_its_configuration_is_gone(
    env: dict[str, str], tmp_path: Path
) -> None:
    with Store.open(tmp_path / "s" / "slotkeeper") as store:
        store.register_job("orders", str(tmp_path / "absent.toml"))
    assert known(env, tmp_path / "new.toml").names(SOURCE) == {"orders": Writer("orders", tmp_path / "absent.toml")}


@pytest.mark.parametrize(
    ("sink", "same"),
    [
        (Place("localhost", 5432, "mart", "other"), True),
        (Place("10.0.0.1", 5432, "mart", "etl"), False),
        (Place("127.0.0.1", 5433, "mart", "etl"), False),
        (Place("127.0.0.1", 5432, "dwh", "etl"), False),
    ],
    ids=["another name of this host", "host", "port", "database"],
)
def test_only_the_same_database_counts(sink: Place, same: bool, env: dict[str, str], tmp_path: Path) -> None:
    configured(tmp_path / "c" / "slotkeeper" / "config.toml", "orders", "mart.orders")
    assert bool(writers(sink, env)) is same


def test_a_file_that_a_full_disk_cuts_off_does_not_stay(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            first_config.write_new(tmp_path / "c.toml", "longer than eight bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_a_broken_configuration_is_passed_over(env: dict[str, str], tmp_path: Path) -> None:
    configured(tmp_path / "c" / "slotkeeper" / "config.toml", "orders", "mart.orders").write_text("[", "utf-8")
    assert writers(SINK, env) == {}


@pytest.mark.parametrize("lacking", ["XDG_CONFIG_HOME", "XDG_STATE_HOME"])
def test_a_folder_that_the_system_refuses_is_passed_over(lacking: str, env: dict[str, str], tmp_path: Path) -> None:
    assert writers(SINK, {**env, lacking: str(tmp_path / ("x" * 300))}) == {}
    configured(tmp_path / "c" / "slotkeeper" / "config.toml", "orders", "mart.orders")
    if lacking == "XDG_STATE_HOME":
        assert set(writers(SINK, {**env, lacking: str(tmp_path / ("x" * 300))})) == {"mart.orders"}
