"""Rows in quarantine on the console over a real sink: counted, listed, unmasked, replayed by a real child."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.cli.context import Invocation
from slotkeeper.console.monitor.sink_pollers import SinkQuarantines
from slotkeeper.console.tui.app import ConsoleApp, place_of
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.console.tui.services import services_for
from slotkeeper.core.config.load import load
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.quarantine import EntryState, Wanted
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.demo.warehouse import Warehouse
from tests.integration.test_quarantine_jobs import TABLE, applied, keys, small, update
from tests.support import polling
from tests.support.mirror import MakeMirror, Mirror
from tests.tui.filled import lines
from tests.tui.planted import arm

WAIT = 90.0


def quarantined(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    """A stopped job that holds a copied row, two updates of which one is bad in its own way, and a changed key."""
    mirror = small(warehouse, make_mirror)
    mirror.start().wait_running()
    applied(mirror, update(1, 1), update(2, 2), f"UPDATE {TABLE} SET id = 104, n = 1 WHERE id = 4")
    mirror.stop()
    assert keys(mirror) == [("1", "U"), ("104", "U"), ("2", "U"), ("20", "c"), ("4", "B")]
    return mirror


def configured(mirror: Mirror, folder: Path) -> Loaded:
    """A configuration of that job, whose source is PROD."""
    job = mirror.job
    text = polling.job(job.name, job.slot, TABLE, job.channel.target)
    text += f'[jobs.{job.name}.sink_options]\non_bad_row = "quarantine"\n\n'
    path = polling.config(folder, job.source, job.sink, text)
    path.write_text(path.read_text("utf-8").replace("dialect =", 'environment = "PROD"\ndialect ='), encoding="utf-8")
    return load(path, {})


def test_a_sink_is_counted_listed_and_its_values_are_masked_until_the_audit_knows(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = quarantined(warehouse, make_mirror)
    loaded = configured(mirror, tmp_path)
    job, quarantines = loaded.jobs[mirror.job.name], SinkQuarantines()
    (count,) = quarantines.counts(job)
    assert (count.source_table, count.slot, count.quarantined, count.entries) == (TABLE, job.slot, 4, 5)
    found = quarantines.page(job, Wanted(slot=job.slot))
    assert len(found) == 5 and all(one.values == () and one.state is EntryState.QUARANTINED for one in found)
    one = next(each for each in found if each.key[1] == "2")
    whole = quarantines.entry(loaded, job, one.id, unmask=False)
    assert whole is not None and whole.masked and dict(whole.entry.values)["v"] == "x"
    audit = Audit(StateFolder.open(loaded.state_dir))
    assert audit.read(10).lines == ()
    whole = quarantines.entry(loaded, job, one.id, unmask=True)
    assert whole is not None and not whole.masked
    assert {(line.action, line.what) for line in audit.read(10).lines} == {
        ("errors show", f"job {job.name} entry {one.id}")
    }
    assert quarantines.entry(loaded, job, 999, unmask=False) is None
    away = replace(job, sink=replace(job.sink, port=1))
    with pytest.raises(SlotkeeperError, match="refused"):
        quarantines.counts(away)


def test_rows_are_replayed_from_the_console_and_what_is_still_bad_stays(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = quarantined(warehouse, make_mirror)
    mirror.at_sink("ALTER TABLE mart.orders DROP CONSTRAINT c1")
    loaded = configured(mirror, tmp_path)
    app = ConsoleApp(services_for(Invocation(config=loaded.path)), place_of(loaded), live=False)

    async def until(pilot: Pilot[int], *words: str) -> str:
        async with asyncio.timeout(WAIT):
            while not all(word in (text := "\n".join(lines(app))) for word in words):
                await pilot.pause(0.02)
        return text

    async def run() -> None:
        async with app.run_test(size=(110, 30)) as pilot:
            await arm(pilot, app, "the check is gone")
            await pilot.press("4")
            await until(pilot, "4 rows in quarantine, oldest", "limit 100")
            await pilot.press("enter")
            await until(pilot, "23514", "22P02", "c1")
            assert isinstance(app.screen, TableScreen) and app.screen.table.row_count == 5
            await pilot.press("a", "R", "y")
            text = await until(pilot, "3 replayed, 1 still rejected", "rejected again: 22P02")
            assert "together with the other half of its key change" in text
            await pilot.press("escape")
            await until(pilot, "Quarantine", " 22P02 ", "1 row in quarantine")
            assert app.screen.table.row_count == 1
            await pilot.press("A")
            await until(pilot, "replayed")

    asyncio.run(run())
    assert keys(mirror) == [("2", "U")]
    assert mirror.query(
        mirror.sink, "SELECT id FROM mart.orders WHERE id IN (1, 4, 20, 104) AND n = 1 ORDER BY id"
    ) == [
        (1,),
        (20,),
        (104,),
    ]
    audited = Audit(StateFolder.open(loaded.state_dir)).read(10).lines
    assert {(line.action, line.reason) for line in audited} == {
        ("console arm", "the check is gone"), ("errors replay", "the check is gone"),
    }  # fmt: skip
