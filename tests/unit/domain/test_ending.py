"""Which session can be ended, by its pid and start time; and who can end it if our login cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.ending import InFront, moment, moment_from, refuse, who_can
from slotkeeper.core.domain.locks import Blocker
from slotkeeper.core.errors import Refused

BEGAN = 1_795_800_000.123456
EVE = Blocker(7, "eve", "psql", "idle in transaction", began=BEGAN)
FOUND = InFront(EVE, "etl", True, "pg_signal_backend", False)
AT = "sink mart"


def test_a_session_that_is_in_front_began_then_and_may_be_ended_is_taken() -> None:
    assert refuse(FOUND, 7, BEGAN, AT) is FOUND and refuse(FOUND, 7, BEGAN + 0.0005, AT) is FOUND


@pytest.mark.parametrize(
    ("found", "began", "said", "hint"),
    [
        (None, BEGAN, "does not block a job's session at sink mart", "`slotkeeper locks`"),
        (FOUND, None, "--began was not given", f"--began {moment(BEGAN)}"),
        (FOUND, BEGAN + 0.002, "not the session connected", f"--began {moment(BEGAN)}"),
        (replace(FOUND, same=2.0), BEGAN + 3.0, "not the session connected", "--began"),
        (replace(FOUND, blocker=replace(EVE, began=None)), BEGAN, "is hidden", "GRANT pg_read_all_stats TO etl"),
        (replace(FOUND, client=False), BEGAN, "a server process", "wait for it"),
        (
            replace(FOUND, blocker=replace(EVE, application="slotkeeper/x")),
            BEGAN,
            "has the application name of a job's",
            "jobs pause",
        ),
        (replace(FOUND, right=""), BEGAN, "login etl is not allowed to end pid 7", "GRANT pg_signal_backend TO etl"),
        (replace(FOUND, right="", kills="KILL 7"), BEGAN, "is not allowed to end pid 7", "`KILL 7`"),
        (
            replace(FOUND, right="", guarded=True),
            BEGAN,
            "is not allowed to end pid 7",
            "a superuser can run `SELECT pg_terminate",
        ),
    ],
)
def test_what_may_not_be_ended_is_refused_with_what_to_do(
    found: InFront | None, began: float | None, said: str, hint: str
) -> None:
    with pytest.raises(Refused) as refused:
        refuse(found, 7, began, AT)
    assert said in refused.value.message and "no session was ended" in refused.value.message
    assert hint in refused.value.hint


def test_hostile_names_stay_names_in_what_is_to_be_typed() -> None:
    bad = replace(EVE, user="eve`; `DROP TABLE x\x1b[31m", application="\x1b]0;t\x07")
    said = who_can(replace(FOUND, blocker=bad, login="etl`; x", right=""))
    assert "\x1b" not in said and "`; `DROP" not in said and "TO etl`" not in said


def test_a_moment_is_typed_to_the_microsecond_and_read_as_it_was() -> None:
    assert abs(moment_from(moment(BEGAN)) - BEGAN) < 1e-5
    for text in ("", "yesterday", "2026-11-27T12:00:00"):
        with pytest.raises(ValueError, match=r"."):
            moment_from(text)
