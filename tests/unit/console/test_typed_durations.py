"""A duration on the command line needs a unit: the configuration has milliseconds, while users expect seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

from slotkeeper.console.__main__ import main
from slotkeeper.console.cli import select
from slotkeeper.console.commands.main import main_command


def _times(group: Any, words: tuple[str, ...] = ()) -> Iterator[Any]:
    """Every option that a function of Slotkeeper parses as a duration, with its command."""
    context = group.make_context("slotkeeper", [], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from _times(command, (*words, name))
        for one in command.params:
            read = one.type_descriptor.parameter_info.parser if hasattr(one, "type_descriptor") else None
            if one.metavar == "TIME" and read is not None:
                yield pytest.param(read, id=" ".join((*words, name, one.opts[-1])))


TIMES = list(_times(main_command()))


def test_these_are_the_durations_that_are_typed() -> None:
    assert {one.id for one in TIMES} >= {"jobs start --wait", "jobs drain --wait", "run --wait", "alerts silence --for"}


@pytest.mark.parametrize("read", TIMES)
def test_a_duration_without_a_unit_is_a_usage_error_that_says_what_to_write(read: Callable[[str], float]) -> None:
    with pytest.raises(typer.BadParameter, match="90 has no unit; write 90s for seconds, or use ms, m, h or d"):
        read("90")
    with pytest.raises(typer.BadParameter, match=r"1\.5 has no unit; write 1\.5s for seconds"):
        read("1.5")
    assert read("90s") in (90.0, 90_000)


def test_a_wait_without_a_unit_ends_with_code_2_and_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jobs", "start", "orders", "--wait", "90"]) == 2
    assert "Invalid value for '--wait': 90 has no unit; write 90s for seconds" in capsys.readouterr().err


def test_nothing_needs_no_unit() -> None:
    assert select.seconds("0") == 0.0
