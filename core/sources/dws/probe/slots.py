"""Probe questions about points, registrations, transactions of other coordinators, and old snapshots.

A number that other writers also change is read several times, with and without an action of the probe in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from slotkeeper.core.domain.probing import Found, ProbeFinding, code_of, needs, short, yes_or_no
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.dws.probe import questions as decide
from slotkeeper.core.sources.dws.probe.scratch import HOME, ProbeContext
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sqltext import dotted

ROUNDS = 3
MORE = 12
"""`ROUNDS` is the minimum number of readings of a changing number, `MORE` the maximum if the readings disagree."""
ACTS = 8
"""Number of registrations between two commits of the probe; commits of other sessions can hide their effect."""
PURGED = 3
"""Number of transactions whose records a registration can purge."""


def newest(ctx: ProbeContext) -> Iterator[Found]:
    """Compare `latest` with the probe's newest record, and determine the order of the DNs' rows."""
    rounds: list[decide.Beside] = []
    while (finding := decide.latest(rounds)) is None and len(rounds) < MORE:
        before = ctx.here().latest
        _touch(ctx)
        after = ctx.here().latest
        own = _newest_own(ctx)
        rounds.append(decide.Beside(before - own, after - own))
    seen = ", ".join(f"{one.before} and {one.after}" for one in rounds)
    text = f"newest point before and after a commit, relative to its point: {seen}"
    yield "latest_inclusive", finding or decide.no_finding(), text
    answers = [ctx.ask_slot() for _ in range(MORE)]
    points = {str(row[3]) for row in answers[0]}
    yield "latest_same", yes_or_no(len(points) == 1), f"{len(answers[0])} DNs report {' '.join(sorted(points))}"
    orders = {tuple(row[0] for row in rows) for rows in answers}
    yield "dn_order_fixed", yes_or_no(len(orders) == 1), f"{len(orders)} orders in {len(answers)} answers"
    ids = sorted(int(row[1]) for row in answers[0])
    yield "negative_node_ids", yes_or_no(ids[0] < 0), f"ids {' '.join(map(str, ids))}"


def registering(ctx: ProbeContext) -> Iterator[Found]:
    """Check registrations: the returned counts, the two points, the cluster's point, and the registration time."""
    dns = len(ctx.ask_slot())
    _touch(ctx)
    here = ctx.here()
    one = ctx.register(ctx.home, here.latest, False, here.xmin)
    points = ctx.here().points
    finding = needs(
        points.live == here.latest and points.durable != here.latest, True, "a registration moves both points"
    )
    yield "two_points", finding, f"registered {here.latest} with false: {points.live} and {points.durable}"
    counts = ctx.register_all(here.latest)
    right = needs(one == 1 and counts == [dns, dns], True, "every registration would count as partial")
    yield "register_counts", right, f"one DN: {one}; all {dns}: {_said(counts)}"
    yield _own_moves(ctx)
    yield _time_of_registration(ctx)


def _own_moves(ctx: ProbeContext) -> Found:
    rounds: list[tuple[int, int]] = []
    while (finding := decide.moves(rounds, ACTS)) is None and len(rounds) < ROUNDS:
        here, first = ctx.here(), _touched(ctx)
        for _ in range(ACTS):
            ctx.here()
        second = _touched(ctx)
        for _ in range(ACTS):
            ctx.register(ctx.home, here.latest, False, here.xmin)
        rounds.append((second - first, _touched(ctx) - second))
    seen = ", ".join(f"{statuses} and {acts}" for statuses, acts in rounds)
    text = f"points between two commits with {ACTS} status queries, and with {ACTS} registrations: {seen}"
    return "register_moves_point", finding or decide.no_finding(), text


def _time_of_registration(ctx: ProbeContext) -> Found:
    def at() -> object:
        rows = ctx.listed() or ()
        wanted = (ctx.home.name, False)
        return next((row.registered_at for row in rows if (row.shard, row.checkpoint) == wanted), None)

    here = ctx.here()
    ctx.register(ctx.home, here.latest, False, here.xmin)
    before = at()
    ctx.register(ctx.home, here.latest, False, here.xmin)
    same = at()
    _touch(ctx)
    ctx.register(ctx.home, ctx.here().latest, False, here.xmin)
    other = at()
    seen = f"registered at {before}; after the same point again: {same}; after another point: {other}"
    return "refresh_same_point", decide.refreshes(before, same, other), seen


def retaining(ctx: ProbeContext) -> Iterator[Found]:
    kept = ctx.here().xmin

    def statuses(xmin: int, least: int, most: int) -> list[int]:
        ctx.register_all(ctx.here().latest, xmin)
        found: list[int] = []
        while len(found) < least or (len(found) < most and found[-1] <= kept):
            _touch(ctx)
            found.append(ctx.here().xmin)
        return found

    seen, released, again = statuses(kept, ROUNDS, MORE), list[int](), list[int]()
    text = f"slot xmin {kept}: statuses report {_said(seen)}"
    if max(seen) <= kept:
        released = statuses(ctx.transaction_id(), ROUNDS, MORE)
        again = statuses(kept, ROUNDS, ROUNDS)
        text += f"; a newer slot xmin: {_said(released)}; {kept} again: {_said(again)}"
    yield "xmin_includes_slots", decide.xmin_kept(kept, seen, released, again), text


def consuming(ctx: ProbeContext) -> Iterator[Found]:
    """Check whether registering the newest record's point counts that record as read."""
    _touch(ctx)
    newest_point = _newest_own(ctx)
    ctx.register_all(newest_point)
    at = ctx.asked("consumed_records", {})[0][0]
    text = f"both points of all DNs at the newest record's point {newest_point}: {at}"
    if not at:
        ctx.register_all(max(ctx.here().latest, newest_point + 1))
        beyond = ctx.asked("consumed_records", {})[0][0]
        text += f"; at a later point: {beyond}"
    yield "consumed_at_point", yes_or_no(bool(at)), text


def purging(ctx: ProbeContext) -> Iterator[Found]:
    """Check which records below the registered point remain after a registration."""
    base = ctx.here().latest
    for _ in range(PURGED):
        _touch(ctx)
    before = [point for point in ctx.own(ctx.raw(ctx.home.node_id)[1]) if point > base - 1]
    middle = before[len(before) // 2]
    ctx.register_all(middle)
    left = ctx.own(ctx.raw(ctx.home.node_id)[1])
    finding = decide.purged(before, middle, left, ctx.said("latest_inclusive"))
    seen = f"records at {_said(before)}; both points of all DNs at {middle}; remaining: {_said(left[-6:])}"
    yield "purge_at_once", finding[0], seen
    yield "registered_point_kept", finding[1], seen


def backwards(ctx: ProbeContext) -> Iterator[Found]:
    """Try a registration below the registered point."""
    here = ctx.here()
    registered = max(here.latest, here.points.live or 0)
    ctx.register_all(registered, here.xmin)
    before, asked = ctx.here().points.live, registered - 1
    error = code_of(lambda: ctx.register(ctx.home, asked, False, here.xmin))
    after = ctx.here().points.live
    if after != registered:
        ctx.register(ctx.home, registered, False, here.xmin)
    seen = f"registered {before}, then {asked}: {error or 'accepted'}; the point is now {after}"
    yield "backward_allowed", decide.backward(error, before, asked, after), seen


def clearing(ctx: ProbeContext) -> Iterator[Found]:
    """Clear the slot; this is the last question about the slot, because nothing is recorded afterwards."""
    try:
        count = ctx.session.rows("drop_slot", {"table": ctx.table, "slot": ctx.slot})[0][0]
    except SlotkeeperError as error:
        if error.code != "42883":
            raise
        yield "clear_clears", ProbeFinding(None, because="this kernel has no pgxc_binlog_clear_target_slot"), ""
        return
    left = ctx.listed()
    finding = yes_or_no(None if left is None else not left, "this kernel cannot list slots")
    yield "clear_clears", finding, f"{count} cleared, {len(left or ())} points listed afterwards"


def _newest_own(ctx: ProbeContext) -> int:
    return ctx.own(ctx.raw(ctx.home.node_id)[1])[-1]


def _touched(ctx: ProbeContext) -> int:
    _touch(ctx)
    return _newest_own(ctx)


def _touch(ctx: ProbeContext) -> None:
    """Write one more transaction with a record on the home DN."""
    ctx.act(f"UPDATE {{t}} SET v = 'c' WHERE place = {HOME} AND id = 9")


def _said(numbers: list[int]) -> str:
    return " ".join(map(str, numbers)) or "none"


OLD_KEY = 91
"""The key of the row that is written with an old snapshot."""


def elsewhere(ctx: ProbeContext) -> Iterator[Found]:
    """Check whether an open transaction on another coordinator holds back this session's snapshot."""
    others = ctx.asked("coordinators", {})
    own = next((str(name) for name, mine, _, _ in others if mine), "")
    found = [(str(name), str(host), int(port)) for name, mine, host, port in others if not mine]
    if not own or not found:
        because = "the cluster has one coordinator" if own else "the server does not report its coordinator"
        yield "cluster_wide_snapshot", ProbeFinding(None, because=because), f"{len(others)} coordinators"
        return
    name, host, port = found[0]
    place = f"{name} at {host}:{port}"
    with closing(ctx.session.beside(f"@{name}", (host, port))) as other:
        try:
            _sent(other, "BEGIN")
        except SlotkeeperError as error:
            refused = ProbeFinding(None, because=f"{place} rejects this login")
            yield "cluster_wide_snapshot", refused, short(error)
            return
        _sent(other, f"UPDATE {dotted(ctx.table)} SET v = v WHERE place = {HOME} AND id = 9")
        number = int(_sent(other, "SELECT txid_current()")[0][0])
        ctx.transaction_id()  # a newer transaction, so that the snapshot can advance
        during = ctx.snapshot_xmin()
        _sent(other, "ROLLBACK")
    ctx.transaction_id()
    after = ctx.snapshot_xmin()
    seen = f"transaction {number} open at {place}: snapshot xmin {during}, afterwards {after}"
    yield "cluster_wide_snapshot", decide.counted(number, during, after), seen


def old_snapshot(ctx: ProbeContext) -> Iterator[Found]:
    """Check whether DWS records writes with a snapshot taken before the table's first slot exists."""
    if ctx.said("clear_clears") != "yes":
        because = "could not clear the slot: recording continues"
        yield "old_snapshot_recorded", ProbeFinding(None, because=because), ""
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
    yield "old_snapshot_recorded", finding, f"keys written under an older, then a newer snapshot: recorded {keys}"


def _sent(session: DwsSession, statement: str) -> list[tuple[Any, ...]]:
    return session.composed_rows(pg.sql.SQL(statement), None)
