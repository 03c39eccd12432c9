"""Every type is mirrored with equal text: copied, inserted, updated, deleted, and moved to another key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.spec import UPDATE_MODES, SinkOptions
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sqltext import dotted
from slotkeeper.demo.warehouse import Warehouse
from tests.support import zoo
from tests.support.mirror import MakeMirror, Mirror

MODES = {
    "default": SinkOptions(),
    "upsert": SinkOptions(write_mode="upsert"),
    "copy_upsert, replace": SinkOptions(write_mode="copy_upsert", conflict_strategy="replace"),
    "copy_merge": SinkOptions(write_mode="copy_merge"),
    "each changed row again": SinkOptions(ignore_update_before=False),
}
"""Options that insert, by name: each has to transfer every type."""


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    made = make_mirror(warehouse, zoo.TABLE, zoo.TARGET)
    made.job = replace(made.job, binlog=replace(made.job.binlog, full_sync_binlog_batch_read_size=5))
    zoo.make(made)
    return made


def _walk(mirror: Mirror) -> None:
    mirror.start().wait_running()
    zoo.wait_equal(mirror)
    zoo.insert(mirror, 1000)
    zoo.wait_equal(mirror)
    for _ in range(2):
        zoo.rotate(mirror, 1000)
    table = dotted(zoo.TABLE)
    mirror.source(f"DELETE FROM {table} WHERE k % 5 = 1")
    mirror.source(f'UPDATE {table} SET "Tail" = "Tail" + 7 WHERE k % 5 = 2')
    zoo.wait_equal(mirror)
    mirror.stop()


@pytest.mark.parametrize("mode", MODES)
def test_every_type_is_mirrored(mirror: Mirror, mode: str) -> None:
    mirror.job = replace(mirror.job, sink_options=MODES[mode])
    _walk(mirror)


@pytest.mark.parametrize("mode", UPDATE_MODES)
def test_every_type_is_updated(mirror: Mirror, mode: str) -> None:
    """In the modes that insert nothing, over the rows of a copy."""
    mirror.start().wait_running()
    zoo.wait_equal(mirror)
    mirror.stop()
    mirror.job = replace(mirror.job, on_existing="merge", sink_options=SinkOptions(write_mode=mode))
    mirror.start().wait_running()
    for _ in range(2):
        zoo.rotate(mirror, 0)
        zoo.wait_equal(mirror)
    mirror.source(f"DELETE FROM {dotted(zoo.TABLE)} WHERE k % 5 = 1")
    zoo.wait_equal(mirror)
    mirror.stop()


def test_every_type_is_mirrored_through_a_cursor(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise Refused("COPY is not there", code="0A000")

    monkeypatch.setattr(DwsSession, "copy_out", refuse)
    _walk(mirror)
