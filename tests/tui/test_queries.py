"""DataFrame queries in the list of jobs: shown like jobs that run elsewhere, read-only, also on small terminals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.actions.menu import job_entries
from slotkeeper.console.monitor.query_poller import RESTING, QueryPoller
from slotkeeper.console.monitor.store_reader import Reader
from slotkeeper.core.domain.query_report import QuerySeen
from slotkeeper.core.domain.spec import JobSpec
from tests.support.waiting import until
from tests.tui.filled import LARGE, SMALL, Filled, begin, console, drive, flowing, lane, polled, press, screen, slot

PLACES = {f"dn_{n}": f"1014{n}/-1" for n in range(1, 5)}
QUERY = QuerySeen(
    True,
    "job second run query-9d1c2f3a by etl@spark-driver-7 pid 4242, last report 2 s ago",
    PLACES,
    "6366ed2e-396e-4933-ab23-4c057380ea2c",
    "orders to lake",
    128,
    "s3a://lake/checkpoints/orders_to_lake_in_the_long_run/of_the_second_quarter",
    dict.fromkeys(PLACES, "10200/-1"),
    {"dn_1": 59, "dn_2": 58, "dn_3": 57, "dn_4": 56},
    "commits",
    3.0,
)


class Stores:
    """The stores of a configuration, which return the planted answer or do not answer."""

    def __init__(self, made: Filled, answer: QuerySeen | None) -> None:
        self.answer = answer
        self.silent = False
        self.asked: list[list[str]] = []
        loaded = made.app.services.loaded
        assert loaded is not None
        self.poller = QueryPoller(loaded, made.clock, self._ask)
        made.feed.reader = Reader(loaded, loaded.state_dir, made.clock, self.poller)
        self._made = made

    def _ask(self, jobs: Sequence[JobSpec], silent: set[str]) -> dict[tuple[str, str], QuerySeen]:
        self.asked.append([job.name for job in jobs])
        if self.silent:
            silent.update(job.name for job in jobs)
            return {}
        return {("second", "ods.orders"): self.answer} if self.answer else {}

    async def read(self, pilot: Pilot[int]) -> str:
        """One read that queries the stores, and one that shows the answer."""
        before = len(self.asked)
        self._made.clock.at += timedelta(seconds=RESTING)
        self._made.feed.now()
        until(lambda: len(self.asked) > before and not self.poller._asking.locked(), 10, "the stores to be asked")
        self._made.feed.now()
        await pilot.pause()
        return screen(self._made.app)


def with_query(folder: Path, answer: QuerySeen | None = QUERY) -> tuple[Filled, Stores]:
    made = console(folder, ascii_only=True, filled=False)
    begin(made.store, "orders_rt", lane("dn_1", 88_512_330))
    return made, Stores(made, answer)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_query_is_a_job_that_runs_elsewhere(tmp_path: Path, size: tuple[int, int]) -> None:
    made, stores = with_query(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        shown = await stores.read(pilot)
        assert stores.asked[0] == ["second"], "no store is queried for a job that was started here"
        assert " 2 of 2 jobs " in shown
        (row,) = [line.split() for line in shown.splitlines() if " second " in line and "RUNNING" in line]
        assert size == SMALL or "dn_1" in row
        assert "?" not in row
        assert "a query" in " ".join(row), "the job that runs elsewhere"
        await press(pilot, "2", "j")
        whole_is_there(screen(made.app))
        await press(pilot, "enter")
        shown = screen(made.app)
        rows = [line.split() for line in shown.splitlines() if " elsewhere " in line and " dn_" in line]
        assert [(row[1], row[-2]) for row in rows] == [
            ("dn_1", "59"), ("dn_2", "58"), ("dn_3", "57"), ("dn_4", "56")
        ]  # fmt: skip
        whole_is_there(shown)
        made.clock.at += timedelta(minutes=2)
        stores.silent = True
        shown = await stores.read(pilot)
        assert "batch 128, 2m33s ago" in shown, "its age increases while no store answers"
        assert "its store has not answered for 2m30s" in flowing(shown), shown
        assert shown.count("DataFrame query orders to lake") == 1 and "batch 128, 3s ago" not in shown, shown

    drive(made, do, size)


def whole_is_there(shown: str) -> None:
    """Check for each fact of a query, on a screen of any size."""
    print(shown)
    shown = flowing(shown)
    for said in (
        "DataFrame query orders to lake (6366ed2e-396e-4933-ab23-4c057380ea2c) runs elsewhere; view only from here",
        "ods.orders batch 128, 3s ago was 59 commits behind",
        "s3a://lake/checkpoints/orders_to_lake_in_the_long_run/of_the_second_quarter",
        "by etl@spark-driver-7 pid 4242",
    ):
        assert said in shown, (said, shown)


def test_nothing_can_be_done_to_a_query_from_here(tmp_path: Path) -> None:
    made, stores = with_query(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        await stores.read(pilot)
        await press(pilot, "2", "j", "a")
        shown = screen(made.app)
        refused = [line for line in shown.splitlines() if "a DataFrame query: stop and start it in its Spark" in line]
        assert len(refused) == len(job_entries([], ())), shown
        await press(pilot, "s", "g", "r", "c")
        assert "ACTIONS   job second" in screen(made.app)
        assert not made.app.services.runs.recent()

    drive(made, do, LARGE)


def test_its_slot_says_who_reads_it_and_offers_no_stop(tmp_path: Path) -> None:
    made, stores = with_query(tmp_path)
    made.polled["dws1", "ods.orders"] = polled("ods.orders", slot("second", 1, 7, "second"))

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "3")
        shown = await stores.read(pilot)
        assert "read by job second: RUNNING; DataFrame query, was 59 commits behind, batch 128," in " ".join(
            shown.split()
        )
        await press(pilot, "a")
        shown = screen(made.app)
        assert "a DataFrame query reads this slot: stop and start it in its Spark program" in flowing(shown)
        assert "stop job second first" not in shown

    drive(made, do, LARGE)


def test_a_query_that_does_not_live_and_one_whose_rows_are_gone(tmp_path: Path) -> None:
    made, stores = with_query(tmp_path, replace(QUERY, lives=False))

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "2", "j")
        shown = await stores.read(pilot)
        assert "is not running; view only from here" in flowing(shown), shown
        assert "second - STOPPED" in flowing(shown)
        assert "start it in its Spark program" in shown and "stop and start it" not in shown
        (row,) = [line.split() for line in shown.splitlines() if " second " in line and "STOPPED" in line]
        assert row.count("-") > 2 and "59" not in row, "its current lag: a dash besides two signs"
        stores.answer = None
        shown = await stores.read(pilot)
        assert "never started" in shown and "DataFrame query" not in shown, shown

    drive(made, do)


def test_a_query_in_its_first_batch_says_why_there_is_nothing_but_question_marks(tmp_path: Path) -> None:
    made, stores = with_query(tmp_path, QuerySeen(True, QUERY.who, PLACES))

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "2", "j")
        shown = flowing(await stores.read(pilot))
        assert "runs elsewhere" in shown and "batch ? behind ?" in shown, shown
        assert "? reported after its first batch" in shown, shown

    drive(made, do, SMALL)


def test_the_log_of_a_query_is_said_to_lie_elsewhere(tmp_path: Path) -> None:
    made, stores = with_query(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "2", "j")
        await stores.read(pilot)
        await press(pilot, "enter", "l")
        shown = screen(made.app)
        assert "no log here: the query's program writes it" in shown and "no log yet" not in shown, shown

    drive(made, do, SMALL)
