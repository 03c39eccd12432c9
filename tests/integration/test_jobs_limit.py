"""`slotkeeper jobs limit`: the limit of a job's copies is stored for its driver, shown and audited."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from slotkeeper.core.domain.copy_limit import CopyLimit
from slotkeeper.core.state import steering
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.faults import StateError
from tests.support.jobs import Jobs
from tests.support.printed import typed

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(jobs: Jobs, capfd: pytest.CaptureFixture[str]) -> Call:
    jobs.store.register_job("orders", "c.toml")

    def called(*words: str) -> tuple[int, str, str]:
        return typed(capfd, "jobs", "limit", "orders", "--state-dir", str(jobs.store.folder.path), *words)

    return called


def test_a_limit_is_stored_shown_and_audited_until_the_configured_one_applies_again(jobs: Jobs, call: Call) -> None:
    code, out, err = call("--rows", "5000", "--bytes", "10MiB", "--reason", "INC-7")
    assert (code, out) == (0, "orders: copies are limited to 5,000 rows/s and 10 MiB/s\n"), err
    assert steering.copy_limit(jobs.store, "orders") == CopyLimit(5_000, 10 << 20)
    after, before = Audit(jobs.store.folder).read().lines[:2]
    assert (before.action, before.what, before.reason) == ("jobs limit", "job orders", "INC-7")
    assert after.outcome == "limited to 5,000 rows/s and 10 MiB/s"
    code, out, err = call("--none", "--json")
    assert (code, json.loads(out)["rows_per_second"], json.loads(out)["set"]) == (0, None, True), err
    assert steering.copy_limit(jobs.store, "orders") == CopyLimit()
    code, out, err = call("--configured")
    assert (code, out) == (0, "orders: copies are not limited (as configured)\n"), err
    assert steering.copy_limit(jobs.store, "orders") is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "--configured"),
        (("--rows", "500", "--none"), "--configured"),
        (("--rows", "99"), "at least 100"),
        (("--bytes", "1KiB"), "at least 64 KiB"),
        (("--bytes", "fast"), "must be a size"),
    ],
)
def test_other_options_are_rejected_and_change_nothing(
    jobs: Jobs, call: Call, words: tuple[str, ...], says: str
) -> None:
    code, out, err = call(*words)
    assert (code, out, says in err) == (2, "", True), err
    assert steering.copy_limit(jobs.store, "orders") is None


def test_a_damaged_file_is_reported_and_set_again(jobs: Jobs, call: Call) -> None:
    call("--rows", "500")
    (jobs.store.folder.path / steering.LIMITS / "orders.json").write_text('{"rows": "many"}', "utf-8")
    with pytest.raises(StateError, match="cannot be read"):
        steering.copy_limit(jobs.store, "orders")
    assert call("--rows", "500")[0] == 0
    assert steering.copy_limit(jobs.store, "orders") == CopyLimit(500)
