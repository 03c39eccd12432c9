"""Which statements keep unchanged values. No server."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import create_autospec

import pytest

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks.postgres.session import DWS
from slotkeeper.core.sinks.postgres.write import session_tables, small_step
from slotkeeper.core.sinks.postgres.write import statements as compose
from slotkeeper.core.sinks.postgres.write.statements import TargetTable

TABLE = TargetTable("s.t", ("id", "n", "v"), ("id",), types=("integer", "integer", "text"))
MODES = ("auto", "update_auto", "copy_merge", "copy_upsert", "copy_update")


def text(*parts: pg.sql.Composable) -> str:
    """Return statements as text."""
    return "; ".join(repr(part) for part in parts)


@pytest.mark.parametrize("mode", MODES)
def test_only_a_wide_step_compares_and_only_long_values(mode: str) -> None:
    options, wide = SinkOptions(write_mode=mode), replace(TABLE, kept=("v",))
    assert text(*compose.plan(TABLE, options, 50).statements).count("*=") == 0
    assert text(*compose.plan(wide, options, 50).statements).count("*=") == 1


def test_a_dws_sink_has_no_long_values() -> None:
    asked = create_autospec(pg.Cursor, instance=True)
    assert session_tables.store_whole(asked, replace(TABLE, dialect=DWS), SinkOptions()) == ()
    assert asked.mock_calls == []


def test_a_small_step_does_not_compare() -> None:
    assert "*=" not in text(small_step.prepare(TABLE, SinkOptions()))
