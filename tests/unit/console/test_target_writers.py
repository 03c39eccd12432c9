"""Which targets and names other jobs have: by the usual configuration, those beside the new one, and recorded jobs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slotkeeper.console.cli.first_config import Place, Server, Writer, known, text_of
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.state.sqlite import Store

SINK = Place("127.0.0.1", 5432, "mart", "etl")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s")}


def writers(sink: Place, env: dict[str, str]) -> dict[str, Writer]:
    return known(env, Path(env["XDG_STATE_HOME"], "new.toml")).targets(sink)


def configured(file: Path, job: str, target: str, sink: Place = SINK) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    source = Server("dws", Place("h", 8000, "gaussdb", "etl"), file)
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
    assert found.names() == {"orders": Writer("orders", other)}


def test_the_name_of_a_recorded_job_is_taken_though_its_configuration_is_gone(
    env: dict[str, str], tmp_path: Path
) -> None:
    with Store.open(tmp_path / "s" / "slotkeeper") as store:
        store.register_job("orders", str(tmp_path / "absent.toml"))
    assert known(env, tmp_path / "new.toml").names() == {"orders": Writer("orders", tmp_path / "absent.toml")}


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


def test_a_broken_configuration_is_passed_over(env: dict[str, str], tmp_path: Path) -> None:
    configured(tmp_path / "c" / "slotkeeper" / "config.toml", "orders", "mart.orders").write_text("[", "utf-8")
    assert writers(SINK, env) == {}


@pytest.mark.parametrize("lacking", ["XDG_CONFIG_HOME", "XDG_STATE_HOME"])
def test_a_folder_that_the_system_refuses_is_passed_over(lacking: str, env: dict[str, str], tmp_path: Path) -> None:
    assert writers(SINK, {**env, lacking: str(tmp_path / ("x" * 300))}) == {}
    configured(tmp_path / "c" / "slotkeeper" / "config.toml", "orders", "mart.orders")
    if lacking == "XDG_STATE_HOME":
        assert set(writers(SINK, {**env, lacking: str(tmp_path / ("x" * 300))})) == {"mart.orders"}
