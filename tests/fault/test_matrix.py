"""A few cells of `make matrix`, with tasks in threads: each is reached on the wire, and ends equal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.matrix.__main__ import Run

CELLS = (("sink sessions", "before commit"), ("line to sink cut", "after commit"), ("driver", "half registered"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, seed: int) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("matrix")
    made = Run(folder, "local", seed, folder / "log")
    yield made
    made.close()


@pytest.mark.parametrize(("victim", "phase"), CELLS)
def test_a_victim_at_a_point_of_the_protocol_costs_no_change_and_no_command(run: Run, victim: str, phase: str) -> None:
    cell = run.play(victim, phase)
    assert (cell.outcome, cell.equal) == ("recovered", True), cell
