"""Which targets other jobs write, by the usual configuration and by those that jobs here were started from."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.console.cli.first_config import Place, Server, Writer, text_of, writers
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.state.sqlite import Store

SINK = Place("127.0.0.1", 5432, "mart", "etl")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s")}


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
