"""A driver's report about its views: the maximum age of their rows, by this host's clock only."""

from __future__ import annotations

from slotkeeper.core.domain.views import ViewReport, ViewRow, ViewState
from slotkeeper.core.engine.driver.views import reported


def stored(state: ViewState, applied: int = 0, ms: int | None = None) -> ViewRow:
    """Return a view as stored by a sink whose clock is a day ahead."""
    sink = 86_400.0 + 100.0
    return ViewRow(
        "dws.a", "j", 1, "", "{}", state, "", sink, True, "x", "", 3, applied, ms, sink, sink, None, "", 12
    )  # fmt: skip


def told(row: ViewRow, waiting: int | None, before: tuple[ViewReport, ...], now: float) -> tuple[ViewReport, ...]:
    return reported([row], {} if waiting is None else {row.target: waiting}, before, now)


def test_a_view_is_as_fresh_as_its_last_round_began_and_its_state_as_old_as_it_was_seen() -> None:
    (pending,) = first = told(stored(ViewState.PENDING), None, (), 100.0)
    assert (pending.since, pending.fresh_at, pending.waiting) == (100.0, None, None)
    (level,) = told(stored(ViewState.RUNNING), 0, first, 101.0)
    assert (level.since, level.fresh_at) == (101.0, 101.0)
    (behind,) = second = told(stored(ViewState.RUNNING), 7, (level,), 102.0)
    assert (behind.since, behind.fresh_at) == (101.0, 101.0), "changes wait since the last report at the earliest"
    (followed,) = told(stored(ViewState.RUNNING, applied=7, ms=400), 3, second, 104.0)
    assert followed.fresh_at == 101.6, "the round can have begun 0.4 s before that report"
    (stale,) = told(stored(ViewState.STALE, applied=7, ms=400), 3, (followed,), 105.0)
    assert (stale.since, stale.fresh_at) == (105.0, 101.6)
