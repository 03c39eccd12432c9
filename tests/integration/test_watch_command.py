"""`slotkeeper watch` on real supervisors with FAKE drivers: six lines below the prompt, which remain."""

from __future__ import annotations

import sys

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.launch import control
from tests.support.jobs import Jobs
from tests.support.terminal import Terminal


def words(jobs: Jobs, job: str) -> list[str]:
    return ["watch", job, "--state-dir", str(jobs.folder / "state")]


def test_six_lines_are_drawn_over_and_stay_when_the_job_has_ended(jobs: Jobs) -> None:
    jobs.start("orders")
    with Terminal([sys.executable, "-m", "slotkeeper.console", *words(jobs, "orders")], size=(70, 20)) as terminal:
        terminal.screen.inline = True
        terminal.shows("orders  RUNNING", "problem ", "action  ", "behind  ", "copy    ", "last    ")
        control.stop(jobs.store, "orders")
        terminal.shows("orders  STOPPED")
        assert terminal.gone() == 0
        lines = [line for line in terminal.screen.text.splitlines() if line.strip()]
        assert len(lines) == 6 and all(len(line) < 70 for line in lines)
        assert b"\x1b[?1049h" not in terminal.content and terminal.screen.foreign == []


def test_leaving_by_ctrl_c_leaves_the_job_and_the_lines(jobs: Jobs) -> None:
    jobs.start("orders")
    with Terminal([sys.executable, "-m", "slotkeeper.console", *words(jobs, "orders")]) as terminal:
        terminal.shows("orders  RUNNING", "last    ")
        terminal.send("\x03")
        assert terminal.gone() == 0
        terminal.shows("orders  RUNNING", "job orders continues")
    assert jobs.view_of_job("orders").state is JobState.RUNNING


def test_where_nothing_can_be_drawn_it_writes_lines_and_a_failed_job_ends_it_with_1(
    jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.start("orders", "exit", code=10)
    assert main(words(jobs, "orders")) == 1
    out = capsys.readouterr().out
    assert "x orders  FAILED" in out and "\x1b" not in out
    assert main(words(jobs, "nobody")) == 3
