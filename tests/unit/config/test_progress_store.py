"""A sink that stores no progress rows names one that does; jobs get both, and any other combination is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.services.doctor import check_sink, grants, promise_of, promises
from tests.support.sqlite_pair import sink as sqlite
from tests.unit.config.samples import VALID, added, changed

LITE = """
[sinks.lite]
kind = "sqlite_adds_up"
file = "target.db"
"""
BESIDE = changed('sink = "mart"', 'sink = "lite"') + LITE


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the tests' own kind of sink, so that a configuration may name it."""
    sqlite.register(monkeypatch)


def loaded(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def test_a_job_gets_the_store_that_its_sink_names(tmp_path: Path) -> None:
    text = BESIDE.replace('kind = "postgres"', 'kind = "postgres"\nprogress_schema = "ops"')
    job = load(loaded(tmp_path, text + 'progress_store = "mart"\n'), {}).jobs["orders_rt"]
    store, kind = job.store_at
    assert (job.in_two_parts, store.name, kind, job.sink.name, job.sink_kind) == (
        True,
        "mart",
        "postgres",
        "lite",
        "sqlite_adds_up",
    )
    assert (job.progress_schema, job.locked_target) == ("ops", "target.db.mart.orders")
    assert promise_of(job) == "each change takes effect at least once; repeats are counted"


def test_doctor_asks_such_a_sink_in_a_session_of_its_own_and_says_what_its_jobs_promise(tmp_path: Path) -> None:
    found = load(loaded(tmp_path, BESIDE + 'progress_store = "mart"\n'), {})
    assert [one.text for one in check_sink(found, found.sinks["lite"])] == ["target.db can be opened"]
    assert [one.text for one in promises(found)] == ["each change takes effect at least once; repeats are counted"]
    assert dict(grants(found))["sink lite"] == []


def test_a_sink_that_keeps_its_progress_rows_is_its_own_store(tmp_path: Path) -> None:
    job = load(loaded(tmp_path, VALID), {}).jobs["orders_rt"]
    assert (job.in_two_parts, job.store_at, job.locked_target) == (False, (job.sink, "postgres"), "mart.orders")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BESIDE, "sets no progress_store, but a sink of kind sqlite_adds_up cannot store progress rows"),
        (BESIDE + 'progress_store = "nowhere"\n', r"sinks\.lite\.progress_store is not the name of a \[sinks\.X\]"),
        (
            BESIDE + 'progress_store = "lite"\n',
            "a sink of kind sqlite_adds_up, which cannot store others' progress rows",
        ),
        (
            BESIDE + 'progress_store = "mart"\nprogress_schema = "ops"\n',
            r"progress_schema has no effect: the progress rows are in sinks\.mart",
        ),
        (
            BESIDE.replace('kind = "postgres"', 'kind = "dws"') + 'progress_store = "mart"\n',
            "names a sink of kind dws, which cannot store others' progress rows",
        ),
        (added("sinks.mart", 'progress_store = "mart"'), "a sink of kind postgres stores its own progress rows"),
        (
            BESIDE.replace("sink_options]", 'sink_options]\non_bad_row = "quarantine"') + 'progress_store = "mart"\n',
            "needs a sink that stores its own progress rows",
        ),
    ],
)
def test_every_other_pairing_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(loaded(tmp_path, text), {})
