"""The time to read a configuration grows with the number of channels, not of their pairs; the errors stay the same."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.config import build, check
from slotkeeper.core.config import channels as blocks
from slotkeeper.core.config.keys import CHANNEL
from slotkeeper.core.config.load import load_usable
from slotkeeper.core.state.sqlite import Store
from tests.unit.config.samples import VALID

JOBS, TABLES = 6, 30
HEAD = VALID[: VALID.index("[jobs.orders_rt]")]
Channels = list[tuple[str, str]]
"""Pairs of source table and target."""


def written(jobs: dict[str, Channels], slots: dict[str, str], state: Path) -> str:
    text = f'{HEAD}\n[state]\ndir = "{state}"\n'
    for name, channels in jobs.items():
        text += f'[jobs.{name}]\nsource = "dws1"\nsink = "mart"\nslot = "{slots[name]}"\n'
        text += "".join(f'[[jobs.{name}.channels]]\nfrom = "{table}"\ninto = "{into}"\n' for table, into in channels)
    return text


@pytest.fixture
def config(tmp_path: Path) -> Path:
    names = [f"job_{number}" for number in range(JOBS)]
    jobs = {name: [(f"ods.{name}_{table}", f"mart.{name}_{table}") for table in range(TABLES)] for name in names}
    file = tmp_path / "config.toml"
    file.write_text(written(jobs, {name: name for name in names}, tmp_path / "state"))
    return file


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The number of calls of each of these functions; `channels` counts the tables that are read as a channel."""
    found: Counter[str] = Counter()

    def counted(module: object, name: str) -> None:
        real = getattr(module, name)

        def call(*given: Any, **named: Any) -> Any:
            found["channels" if any(one is CHANNEL for one in given) else name] += 1
            return real(*given, **named)

        monkeypatch.setattr(module, name, call)

    names = ((build, "read_section"), (build, "dotted"), (check, "dotted"), (check, "find_lines"))
    for module, name in (*names, (blocks, "read_section"), (blocks, "dotted")):
        counted(module, name)
    return found


def test_each_channel_is_read_once_and_neither_named_nor_searched_in_the_text(
    config: Path, calls: Counter[str]
) -> None:
    loaded = load_usable(config, {})
    assert len(loaded.jobs) == JOBS
    assert calls["channels"] == JOBS * TABLES and not calls["dotted"] and not calls["find_lines"]


def test_the_lines_are_found_once_when_the_values_are_shown(config: Path, calls: Counter[str]) -> None:
    loaded = load_usable(config, {})
    shown = {one.key: one.origin.place for one in loaded.settings()}
    assert loaded.settings() is loaded.settings() and calls["find_lines"] == 1
    line = next(n for n, text in enumerate(config.read_text().splitlines(), 1) if "ods.job_5_29" in text)
    assert shown["jobs.job_5.channels[29].from"] == f"{config}:{line}"


@pytest.mark.parametrize("command", [["status", "--json"], ["config", "check", "--json"]])
def test_a_command_reads_each_channel_once(config: Path, calls: Counter[str], command: list[str]) -> None:
    with Store.open(config.parent / "state"):
        pass
    assert main(["--config", str(config), *command]) == 0
    assert calls["channels"] == JOBS * TABLES and not calls["dotted"] and not calls["find_lines"]


def first_conflict(name: str, jobs: dict[str, Channels], slots: dict[str, str], before: list[str]) -> str:
    """The error of a job, from comparing every pair of channels in the order of the file; "" if there is none."""
    for number, (table, into) in enumerate(jobs[name]):
        for other, (its_table, its_into) in enumerate(jobs[name][:number]):
            if table == its_table:
                return (
                    f"jobs.{name}.channels[{number}] reads {table}, which jobs.{name}.channels[{other}] already reads"
                )
            if into == its_into:
                end = f"which jobs.{name}.channels[{other}] already writes to"
                return f"jobs.{name}.channels[{number}] writes to {into}, {end}"
    for theirs in before:
        for (table, into), (its_table, its_into) in product(jobs[name], jobs[theirs]):
            if slots[name] == slots[theirs] and table == its_table:
                return f"[jobs.{name}] uses slot {slots[name]} of {table}, which job {theirs} already uses"
            if into == its_into:
                return f"[jobs.{name}] writes to {into}, which job {theirs} already writes to"
    return ""


def test_of_several_conflicts_the_same_one_is_reported_as_by_comparing_every_pair(tmp_path: Path) -> None:
    chance, file, found = random.Random(7), tmp_path / "config.toml", 0
    for _ in range(300):
        names = ["a", "b", "c"]
        slots = {name: chance.choice(["s", "t"]) for name in names}
        jobs = {
            name: [(f"o.t{chance.randrange(9)}", f"m.t{chance.randrange(9)}") for _ in range(chance.randrange(1, 4))]
            for name in names
        }
        file.write_text(written(jobs, slots, tmp_path / "state"))
        loaded = load_usable(file, {})
        before: list[str] = []
        for name in names:
            expected = first_conflict(name, jobs, slots, before)
            said = str(loaded.refused.get(name, ""))
            assert said.endswith(expected) and bool(said) == bool(expected), file.read_text()
            found += bool(expected)
            before += [] if expected else [name]
    assert found > 100
