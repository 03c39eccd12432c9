"""Texts from outside reach the screen only as visible text, and their markup is not parsed."""

from __future__ import annotations

import random
import unicodedata
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from slotkeeper.core.domain.audit import Actor, AuditLine, Phase
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.state.audit import Audit
from tests.tui.filled import (
    NOW,
    Filled,
    begin,
    console,
    drive,
    driven,
    lane,
    lines,
    planted,
    polled,
    press,
    screen,
    slot,
)
from tests.tui.planted import until
from tests.tui.quarantined import entry, holding

PAYLOADS = [
    "\x1b]52;c;aGFjaw==\x07",
    "\x1b]8;;http://x.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[H",
    "\x1b[31mred",
    "\x9b31m",
    "\x1bPq#0\x1b\\",
    "\x90payload\x9c",
    "\u202egnp.exe",
    "\u2066a\u2069",
    "a\u200bb\u200cc\u200d",
    "\ufeffbom",
    "[@click=app.quit]quit[/]",
    "[/x]",
    "[bold red]b[/bold red]",
    "[link=http://x.example]y[/link]",
    "line\nline\r\nline\ttab",
    "\x00\x08\x7f",
    "x" * 100_000,
    b"\xff\xfe bad".decode("utf-8", "surrogateescape"),
    "\u8ba2\u5355\U0001f4a5 \u0301\u0301\u0301",
]

FEW = 5
HOW_MANY = pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.chaos)], ids=["few", "all"])


def _raw(text: str) -> list[str]:
    """Characters that must not reach a terminal; the newlines between the screen's lines are not counted."""
    refused = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return [c for c in text.replace("\n", "") if unicodedata.category(c) in refused]


def _begins(payload: str) -> str:
    return safe(_stored(payload))[:6].rstrip()


def _stored(payload: str) -> str:
    return payload.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _plant(made: Filled) -> None:
    """A job and a slot for each payload, which is in every field that can come from outside."""
    slots = []
    for number, payload in enumerate(PAYLOADS):
        job, clean = f"job{number:02}", _stored(payload)
        hostile = lane(f"{clean}dn", 10, retry=f"RAW{clean}", activity=clean, state=clean)
        begin(made.store, job, hostile, reason=clean, trouble=clean, safe=clean)
        made.store.set_state(job, JobState.FAILED, clean, f"RAW{clean}", f"RAW{clean}")
        made.store.record_event(job, clean, clean)
        made.store.record_error(job, clean, clean, f"RAW{clean}")
        made.store.folder.log(job).write_bytes(payload.encode("utf-8", "surrogateescape"))
        view, retained = slot(f"RAW{payload}", 1, 5, payload)
        slots.append(
            (view, replace(retained, shards=tuple(replace(one, shard=payload + one.shard) for one in retained.shards)))
        )
        actor = Actor(clean, clean, 1)
        Audit(made.store.folder).append(
            AuditLine(
                NOW, actor, clean, f"{number}{clean}", Phase.OUTCOME, clean, clean, clean, f"RAW{clean}", {clean: clean}
            )
        )
    found = polled("t", *slots)
    made.polled["dws1", "ods.orders"] = replace(found, slots=replace(found.slots, untold=tuple(PAYLOADS)))


def _visited(few: bool, seed: int) -> set[int]:
    """The payloads whose own pages are opened: the lists show all of them anyway."""
    return set(random.Random(seed).sample(range(len(PAYLOADS)), FEW)) if few else set(range(len(PAYLOADS)))


@HOW_MANY
def test_twenty_hostile_texts_are_shown_and_do_nothing(tmp_path: Path, few: bool, seed: int) -> None:
    visited = _visited(few, seed)
    made = console(tmp_path, filled=False)
    _plant(made)
    shown: dict[str, str] = {}

    async def do(pilot: Pilot[int]) -> None:
        for name, keys in {
            "overview": ["1"],
            "jobs": ["2"],
            "slots": ["3", "r"],
            "slot": ["enter"],
            "audit": ["7"],
        }.items():
            await press(pilot, *keys)
            shown[name] = screen(made.app)
        await press(pilot, "2", "g")
        for number in range(len(PAYLOADS)):
            if number in visited:
                await pilot.press("enter")
                await pilot.pause()
                shown[f"job{number:02}"] = screen(made.app)
                await pilot.press("escape")
            await pilot.press("j")
        made.polled["dws1", "ods.orders"] = Unreachable(PAYLOADS[0])
        await press(pilot, "3", "r")
        shown["fault"] = screen(made.app)
        assert made.app.is_running and not made.app.paused

    drive(made, do, (130, 60))
    assert {name: _raw(text) for name, text in shown.items() if _raw(text)} == {}
    for number, payload in enumerate(PAYLOADS):
        assert f"RAW{_begins(payload)}" in shown["overview"], number
        assert f"RAW{safe(payload)[:6].rstrip()}" in shown["slots"], number
        assert f"RAW{_begins(payload)}" in shown["audit"], number
        if number in visited:
            page = shown[f"job{number:02}"]
            assert f"> job{number:02}" in page and f"RAW{_begins(payload)}" in page


@HOW_MANY
def test_hostile_rows_in_quarantine_are_shown_and_do_nothing(tmp_path: Path, few: bool, seed: int) -> None:
    visited = _visited(few, seed)
    rows = [
        entry(
            1_000 - number, f"RAW{payload}", shard=payload, target=payload, kind=payload[:1], sqlstate=payload[:5],
            column=payload, constraint=payload, message=f"RAW{payload}", run=payload, ended_by=payload,
            reason=payload, pair=payload, values=((f"RAW{payload}", f"RAW{payload}"), (payload, None)),
        )
        for number, payload in enumerate(PAYLOADS)
    ]  # fmt: skip
    made, quarantines = holding(tmp_path, *rows)
    drawn: list[str] = []

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "4")
        await until(pilot, made.app, "orders_rt", "bad rows")
        await press(pilot, "j", "enter")
        await until(pilot, made.app, f"Quarantine orders_rt {len(PAYLOADS)}")
        for number, payload in enumerate(PAYLOADS):
            drawn.append(screen(made.app))
            assert f"RAW{safe(payload)[:4].rstrip()}" in drawn[-1], number
            if number in visited:
                await press(pilot, "enter")
                await until(pilot, made.app, "SOURCE TEXT", "RAW")
                drawn.append(screen(made.app))
                await press(pilot, "escape")
            await press(pilot, "j")
        await press(pilot, "g", "space", "a")
        drawn.append(screen(made.app))
        quarantines.fault = Unreachable(PAYLOADS[0])
        await press(pilot, "escape", "A")
        await until(pilot, made.app, "outdated")
        drawn.append(screen(made.app))
        assert made.app.is_running

    drive(made, do, (130, 50))
    assert [text for text in drawn if _raw(text)] == []


PAIRS = {"\u2502": "\u2502", "\u256d": "\u256e", "\u2570": "\u256f", "|": "|", "+": "+"}
"""The last character of a framed row, by its first one."""


@HOW_MANY
@pytest.mark.parametrize("ascii_only", [False, True], ids=["signs", "ascii"])
@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_no_hostile_name_moves_a_column_of_verdict_tiles_frames_bars_or_signs(
    size: tuple[int, int], ascii_only: bool, few: bool, tmp_path: Path, seed: int
) -> None:
    visited, made = _visited(few, seed), console(tmp_path, ascii_only=ascii_only, filled=False)
    _plant(made)
    for number, payload in enumerate(PAYLOADS):
        clean = _stored(payload)
        lanes = (lane(f"{number}{clean}", 10), lane(f"dn_{clean}", 10), *(lane(f"l{n}", 10) for n in range(number)))
        begin(made.store, f"live{number:02}", *lanes)
    shown: dict[str, list[str]] = {}

    async def do(pilot: Pilot[int]) -> None:
        for key in "13467":
            await press(pilot, key, "r", "g")
            for before, place in pairwise([0, *sorted(visited)]):
                await press(pilot, *["j"] * (place - before))
                shown[f"{key} {place}"] = lines(made.app)
        await press(pilot, "2", "enter")
        shown["job"] = lines(made.app)
        await press(pilot, "h")
        shown["graphs"] = lines(made.app)

    drive(made, do, size)
    for name, drawn in shown.items():
        text = "\n".join(drawn)
        assert not _raw(text), name
        assert not ascii_only or text.isascii(), name
        assert all(cell_len(line) == size[0] for line in drawn), text
        edges = [(line[0], line[-1]) for line in drawn[3:-2] if line[0] in PAIRS or line[-1] in PAIRS.values()]
        assert edges and all(PAIRS.get(first) == last for first, last in edges), text


@driven()
async def test_a_hostile_filter_is_only_a_filter(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "slash")
    for wanted in ("[", "(", "*", "[/x]", "[@click=app.quit]q[/]", "!", "!!", "\\"):
        made.app.screen.query_one("#filter").value = wanted  # type: ignore[attr-defined]
        await pilot.pause()
        assert made.app.is_running and _raw(screen(made.app)) == []


def test_planted_slots_are_what_the_other_tests_think() -> None:
    assert [one.name for one in planted().slots.slots] == ["orders_slot", "orders_dr", "dr_copy", "second"]
