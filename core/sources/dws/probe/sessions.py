"""Questions that take a second session: what transactions of other coordinators, and with old
snapshots, mean for us.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from slotkeeper.core.domain.inspection import ProbeFinding
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.dws.probe import findings as decide
from slotkeeper.core.sources.dws.probe.questions import yes_or_no
from slotkeeper.core.sources.dws.probe.session import HOME, Found, ProbeContext, short
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sqltext import dotted

OLD_KEY = 91
"""The key of the row that is written under an old snapshot."""


def elsewhere(ctx: ProbeContext) -> Iterator[Found]:
    """Whether a transaction that is open at another coordinator holds back the snapshot of ours."""
    others = ctx.asked("coordinators", {})
    own = next((str(name) for name, mine, _, _ in others if mine), "")
    found = [(str(name), str(host), int(port)) for name, mine, host, port in others if not mine]
    if not own or not found:
        because = "the cluster has one coordinator" if own else "which coordinator this is cannot be told"
        yield "cluster_wide_snapshot", ProbeFinding(None, because=because), f"{len(others)} coordinators"
        return
    name, host, port = found[0]
    place = f"{name} at {host}:{port}"
    with closing(ctx.session.beside(f"@{name}", (host, port))) as other:
        try:
            _sent(other, "BEGIN")
        except SlotkeeperError as error:
            yield (
                "cluster_wide_snapshot",
                ProbeFinding(None, because=f"{place} does not let this login in"),
                short(error),
            )
            return
        _sent(other, f"UPDATE {dotted(ctx.table)} SET v = v WHERE place = {HOME} AND id = 9")
        number = int(_sent(other, "SELECT txid_current()")[0][0])
        ctx.transaction_id()  # a newer one, so that the snapshot could go on
        during = ctx.snapshot_xmin()
        _sent(other, "ROLLBACK")
    ctx.transaction_id()
    after = ctx.snapshot_xmin()
    seen = f"open through {place}: {number}; snapshots begin at {during}, afterwards at {after}"
    yield "cluster_wide_snapshot", decide.counted(number, during, after), seen


def old_snapshot(ctx: ProbeContext) -> Iterator[Found]:
    """Whether what is written under a snapshot older than the table's first slot is recorded; there is no slot yet."""
    if ctx.said("clear_clears") != "yes":
        yield (
            "old_snapshot_recorded",
            ProbeFinding(None, because="the slot could not be cleared: recording goes on"),
            "",
        )
        return
    with closing(ctx.session.beside("@old")) as other:
        _sent(other, "BEGIN ISOLATION LEVEL REPEATABLE READ")
        _sent(other, f"SELECT count(*) FROM {dotted(ctx.table)}")
        ctx.begin()
        _sent(other, f"INSERT INTO {dotted(ctx.table)} (place, id, v) VALUES ({HOME}, {OLD_KEY}, 'o')")
        _sent(other, "COMMIT")
    ctx.act(f"INSERT INTO {{t}} (place, id, v) VALUES ({HOME}, {OLD_KEY + 1}, 'o')")
    names, rows = ctx.raw_rows()
    keys = [row[names.index("id")] for row in rows]
    finding = yes_or_no(OLD_KEY in keys if OLD_KEY + 1 in keys else None, "a later row was not recorded either")
    yield "old_snapshot_recorded", finding, f"written before the slot's snapshot, then after: recorded {keys}"


def _sent(session: DwsSession, statement: str) -> list[tuple[Any, ...]]:
    return session.composed_rows(pg.sql.SQL(statement), None)
