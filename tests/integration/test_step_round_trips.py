"""A step's queries at the sink: checks of targets have a separate session, and add no round trip to a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.demo.postgres import Server
from tests.support.effects import Effects
from tests.support.oracle import Event, Image
from tests.support.standin import drop_database, new_database

DATABASE = "step_round_trips"


@pytest.fixture
def effects(pg_server: Server) -> Iterator[Effects]:
    new_database(pg_server, DATABASE)
    made = Effects(pg_server, DATABASE, "mart.orders", others=False)
    yield made
    made.close()
    drop_database(pg_server, DATABASE)


def image(k: int, a: int) -> Image:
    return {"h": 1, "k": k, "a": a, "b": "x", "tags": None, "j": None}


def test_a_step_of_a_session_that_knows_its_target_asks_two_things(
    effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects.fill([image(k, 1) for k in range(1, 4)])
    sink, asked = effects.sink(SinkOptions()), list[str]()

    def told(call: Callable[..., None]) -> Callable[..., None]:
        def calls(self: pg.Cursor, query: Any, *more: Any, **named: Any) -> None:
            asked.append(query.as_string(self) if isinstance(query, pg.sql.Composable) else str(query))
            call(self, query, *more, **named)

        return calls

    for name in ("execute", "copy_expert"):
        monkeypatch.setattr(pg.Cursor, name, told(getattr(pg.Cursor, name)))
    for point in range(3):  # the first one prepares the statements that the session keeps
        asked.clear()
        changed, new = image(1, point), image(9 + point, 1)
        effects.step(sink, [Event(point, 0, "U", (1, 1), changed), Event(point, 1, "I", (1, 9 + point), new)])
    monkeypatch.undo()
    assert [one.split()[0] for one in asked] == ["UPDATE", "EXECUTE"], asked
    assert "slotkeeper_progress" in asked[0]
