"""Playing an incident: a deviation from its record is an error; a plan's id and numbers are passed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.errors import Refused, Unreachable
from slotkeeper.demo.incidents import play
from slotkeeper.demo.incidents.record import COPY_ANEW, Answer, Command, World
from slotkeeper.demo.incidents.registry import named

INCIDENT = named("slot-expired")
PLAN = "how: slotkeeper slots reset ods.orders orders_rt \\\n  --execute --plan p1 --confirm orders_rt --rows 7"


class Shell:
    """Answers commands by their first words, and records the typed commands."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.typed: list[str] = []

    def __call__(self, words: Sequence[str]) -> Answer:
        self.typed.append(" ".join(words))
        return self.answers.get(words[0] if words[0] != "jobs" else words[1], Answer(0, ""))


def world(shell: Shell) -> World:
    absent: Any = None
    return World(absent, absent, "mart", "mart", Path("p"), Path("c"), Path("s"), shell)


def made(where: World) -> play.Made:
    return play.Made(where.began, "done")


def test_it_shows_by_exit_code_and_words() -> None:
    where = world(Shell(status=Answer(2, '"text": "SLOT  LOST: dn_1"')))
    assert play.shown(where, INCIDENT, made(where)).said == "SLOT LOST"


@pytest.mark.parametrize("answer", [Answer(0, "SLOT LOST"), Answer(2, "something else")], ids=["exit code", "words"])
def test_what_does_not_show_in_time_is_an_error(answer: Answer) -> None:
    where = world(Shell(status=answer))
    with pytest.raises(Unreachable, match="slot-expired: the symptom did not appear within 0 s"):
        play.shown(where, INCIDENT, made(where), 0)


@pytest.mark.parametrize("answer", [Answer(0, "SLOT LOST"), Answer(1, "another reason")], ids=["exit code", "words"])
def test_what_is_not_refused_as_written_is_an_error(answer: Answer) -> None:
    with pytest.raises(Refused, match="slotkeeper jobs start orders_rt exited with"):
        play.refused(world(Shell(start=answer)), INCIDENT)


def test_the_plans_id_and_number_are_handed_on_and_a_copy_is_waited_for() -> None:
    shell = Shell(slots=Answer(0, PLAN))
    play.cure(world(shell), INCIDENT)
    assert shell.typed == [
        "slots reset ods.orders orders_rt --to snapshot --on-existing replace",
        "slots reset ods.orders orders_rt --execute --plan p1 --reason why --confirm orders_rt --rows 7",
        "jobs start orders_rt",
        "jobs drain orders_rt --wait 10s",
        "verify orders_rt",
    ]


def test_a_step_that_ends_otherwise_is_an_error() -> None:
    shell = Shell(slots=Answer(0, PLAN), verify=Answer(4, "missing"))
    with pytest.raises(Refused, match="verify orders_rt exited with code 4: missing"):
        play.cure(world(shell), INCIDENT)
    failed = Shell(slots=Answer(0, PLAN), drain=Answer(3, "is FAILED"), status=Answer(2, '"state": "FAILED"'))
    with pytest.raises(Refused, match="the job did not read all changes: is FAILED"):
        play.cure(world(failed), INCIDENT)


def test_a_start_that_takes_longer_than_its_patience_is_waited_for() -> None:
    late = Answer(1, "the request remains; `slotkeeper jobs show orders_rt` shows when it takes effect")
    shell = Shell(slots=Answer(0, PLAN), start=late)
    play.cure(world(shell), replace(INCIDENT, cure=COPY_ANEW))
    assert shell.typed[-1] == "verify orders_rt"


def test_a_refused_start_that_takes_longer_than_its_patience_is_judged_by_how_it_ends() -> None:
    late = Answer(1, "the request remains; `slotkeeper jobs show orders_rt` shows when it takes effect")
    ended = Answer(2, '"state": "FAILED", "reason": "SLOT LOST: binlog"')
    assert "SLOT LOST" in play.refused(world(Shell(start=late, status=ended)), INCIDENT).text


def test_a_number_that_the_plan_does_not_ask_for_is_left_out() -> None:
    asked = Command("slotkeeper slots drop ods.orders s --execute --reason why --rows N")
    assert not play.filled(asked, "nothing to type").text.endswith("N")
