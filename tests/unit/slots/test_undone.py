"""What a reset orders from the store: under which reset quarantined rows are archived, and whose archived rows are
restored."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from slotkeeper.core.domain.consent import Ordered
from slotkeeper.core.domain.reset import DONE, GOING_BACK, ROLLED_BACK, WRITTEN, Goal, Swap, TargetKind
from slotkeeper.core.errors import Refused
from slotkeeper.core.slots import reset_apply
from tests.property.test_reset_histories import World


class Recorded(World):
    """A slot in memory whose store records the writes; `fails` makes each reset fail after its rows are written."""

    def __init__(self) -> None:
        super().__init__(random.Random(7), 2)
        self.written: list[dict[str, Any]] = []
        self.change(8)
        self.start(1.0)

    def write(  # type: ignore[override]
        self, reset: str, step: str, swap: Swap, epoch: int, by: str = "", undone: str = "", outcome: str = ""
    ) -> Sequence[str]:
        said = {"reset": reset, "step": step, "epoch": epoch, "by": by, "undone": undone, "outcome": outcome}
        self.written.append({**said, "partly": swap.partly, "ordered": swap.ordered, "wanted": list(swap.wanted)})
        return super().write(reset, step, swap, epoch)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """A slot with one reset that is to be undone, which can only move the slot back."""
    world = Recorded()
    assert world.execute(world.plan(Goal(TargetKind.EARLIEST))).outcome == DONE

    def purged(ctx: Any, plan: Any) -> None:
        raise Refused("they were purged meanwhile", "plan again")

    monkeypatch.setattr(reset_apply, "recount", purged)
    return world


def test_a_reset_archives_by_its_own_name_and_restores_nothing(world: Recorded) -> None:
    (there,) = world.written
    assert (there["reset"], there["step"], there["by"] or there["reset"]) == ("R000", WRITTEN, "R000")
    assert (there["undone"], there["outcome"], there["partly"]) == ("", "", False)


def test_an_undo_that_goes_back_archives_by_the_backup_and_restores_what_it_archived_itself(world: Recorded) -> None:
    """What the undo restored is archived again under the reset that it was to undo: a later undo finds it there."""
    before = world.rows()
    made = world.plan(Goal(TargetKind.BACKUP, backup="R000"))
    result = world.execute(made)
    _, there, back = world.written
    assert result.outcome == ROLLED_BACK and result.reset == "R001"
    assert (there["reset"], there["step"], there["by"], there["undone"]) == ("R001", WRITTEN, "", "R000")
    assert (back["reset"], back["step"], back["by"], back["undone"]) == ("R001", GOING_BACK, "R000", "R001")
    assert back["epoch"] == there["epoch"] == before[0].epoch + 1
    assert back["outcome"] == "they were purged meanwhile (plan again)" and back["partly"]
    assert back["ordered"] == Ordered(made.id).text
    assert [row.position for row in back["wanted"]] == [row.position for row in before]


def test_a_reset_to_a_point_that_goes_back_restores_only_what_it_archived_itself(world: Recorded) -> None:
    world.start(1.0)
    world.execute(world.plan(Goal(TargetKind.EARLIEST)))
    back = world.written[-1]
    assert (back["reset"], back["step"], back["by"], back["undone"]) == ("R001", GOING_BACK, "", "R001")
