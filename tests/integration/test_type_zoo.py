"""Every type mirrors equal as text: copied, inserted, updated, deleted, and moved to another key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.domain.spec import SinkOptions
from core.embedded.warehouse import Warehouse
from core.errors import Refused
from core.sources.dws.session import DwsSession
from core.sqltext import dotted
from tests.support import zoo
from tests.support.mirror import MakeMirror, Mirror

MODES = {"default": SinkOptions()}
"""Write modes by name: every one has to carry every type."""


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    made = make_mirror(warehouse, zoo.TABLE, zoo.TARGET)
    made.job = replace(made.job, binlog=replace(made.job.binlog, full_sync_binlog_batch_read_size=5))
    zoo.make(made)
    return made


def _walk(mirror: Mirror) -> None:
    """Copy, then follow every kind of change."""
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


def test_every_type_is_mirrored_through_a_cursor(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise Refused("COPY is not there", code="0A000")

    monkeypatch.setattr(DwsSession, "copy_out", refuse)
    _walk(mirror)
