"""A restarted driver reads the configuration that its run was started with, even if the file has changed since."""

from __future__ import annotations

import argparse
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.spark import job as driver
from slotkeeper.core.state import files
from slotkeeper.core.state.sqlite import Store
from tests.unit.config.samples import VALID

JOB = "orders_rt"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state") as opened:
        opened.register_job(JOB, "c.toml")
        yield opened


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "c.toml"
    made.write_text(VALID, "utf-8")
    return made


def started_job(store: Store, file: Path, run: str) -> JobSpec:
    return driver._job(argparse.Namespace(config=str(file), job=JOB, run=run, wait_ms=None), store)[1]


@pytest.mark.parametrize("broken", ["[jobs", "", "[jobs.orders_rt]\nsource = 'gone'\n"])
def test_a_configuration_that_broke_while_the_job_runs_does_not_end_it(store: Store, file: Path, broken: str) -> None:
    store.begin_run(JOB, "one", "")
    before = started_job(store, file, "one")
    file.write_text(broken, "utf-8")
    assert started_job(store, file, "one") == before
    with pytest.raises(ConfigError):
        started_job(store, file, "two")


def test_a_configuration_that_is_gone_does_not_end_it_either(store: Store, file: Path) -> None:
    store.begin_run(JOB, "one", "")
    before = started_job(store, file, "one")
    file.unlink()
    assert started_job(store, file, "one") == before


def test_a_refused_configuration_is_not_kept(store: Store, file: Path) -> None:
    file.write_text("[jobs", "utf-8")
    with pytest.raises(ConfigError):
        started_job(store, file, "one")
    assert files.kept_config(store.folder, "one") is None


def test_what_is_kept_is_for_its_owner_alone_and_goes_with_the_next_run(store: Store, file: Path) -> None:
    for run in ("one", "two"):
        store.begin_run(JOB, run, "")
        started_job(store, file, run)
        store.apply(JOB, JobEvent.STOPPED, "")
    (left,) = store.folder.path.glob("started.*/*")
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    assert left.stem == "two"
    files.drop_config(store.folder, "two")
    assert files.kept_config(store.folder, "two") is None
