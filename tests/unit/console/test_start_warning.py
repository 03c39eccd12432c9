"""A start first warns of a cause that would end it again: the job would be RUNNING before it reads the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.console.commands import jobs
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.start import SAFE
from slotkeeper.core.errors import TroubleName
from slotkeeper.core.state.sqlite import Store


@pytest.mark.parametrize(
    ("trouble", "safe", "said"),
    [
        ("QUARANTINE FULL", SAFE[TroubleName.QUARANTINE_FULL], "fix the cause in the sink"),
        ("", "check the user and the password reference", "unless you do this: check the user"),
        (
            "SLOT LOST",
            f"{SAFE[TroubleName.SLOT_LOST]}: `slotkeeper slots reset t s`; then `slotkeeper jobs start orders`",
            "",
        ),
        ("", "", ""),
    ],
)
def test_a_start_after_a_failure_says_what_has_to_be_done_first(
    trouble: str, safe: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(tmp_path / "state") as store:
        store.register_job("orders", "c.toml")
        store.apply("orders", JobEvent.START, "")
        store.apply("orders", JobEvent.FAILED, "why", trouble, safe)
        jobs._warn_of_its_end(store, "orders")
    err = capsys.readouterr().err
    assert said in err and bool(said) == bool(err), err


def test_a_first_start_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open(tmp_path / "state") as store:
        jobs._warn_of_its_end(store, "orders")
    assert not capsys.readouterr().err
