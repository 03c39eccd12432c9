"""Changes of the set of DNs during a mirror: every kind, at every time, and the required end of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.reset import DONE
from slotkeeper.core.errors import Refused, Trouble, TroubleName
from slotkeeper.demo.scaling import add_dn, remove_dn, rename_dn
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.resetting import SNAPSHOT, Resetting
from tests.support.waiting import until

TABLE, TARGET = "ods.t", "mart.t"
KEYS = 400
EQUAL, NAMED = "equal", "TOPOLOGY CHANGED"


@dataclass(frozen=True, slots=True)
class Kind:
    """A change of the set, given a limit in seconds; `waits`: until everything is consumed, as documented."""

    act: Callable[[Warehouse, float], object]
    waits: bool = False


KINDS = {
    "added": Kind(lambda w, limit: add_dn(w, "dn_5", timeout=limit), True),
    "two added": Kind(lambda w, limit: [add_dn(w, name, timeout=limit) for name in ("dn_5", "dn_6")], True),
    "added without points": Kind(lambda w, limit: add_dn(w, "dn_5", points=False, timeout=limit), True),
    "added, unread left": Kind(lambda w, _: add_dn(w, "dn_5", wait=False)),
    "removed": Kind(lambda w, limit: remove_dn(w, "dn_2", timeout=limit), True),
    "removed, unread left": Kind(lambda w, _: remove_dn(w, "dn_2", wait=False)),
    "renamed": Kind(lambda w, _: rename_dn(w, "dn_2", "dn_two")),
    "exchanged names": Kind(lambda w, _: exchanged(w)),
    "renamed with another id": Kind(lambda w, _: rename_dn(w, "dn_2", "dn_two", keeps_id=False)),
}
MOMENTS = ("running", "stopped", "paused", "mid-copy")
UNREAD = ("unread", "nothing unread")


def exchanged(warehouse: Warehouse) -> None:
    for old, new in (("dn_1", "dn_x"), ("dn_2", "dn_1"), ("dn_x", "dn_2")):
        rename_dn(warehouse, old, new)


def expected(kind: str, moment: str, unread: str) -> str:
    """How a situation ends; a change whose wait fails does not happen, and the mirror is equal without it."""
    left = unread == "unread" and moment != "running"
    if KINDS[kind].waits and left:
        return EQUAL
    if kind in ("renamed", "exchanged names"):
        return EQUAL
    if kind in ("added", "two added") or (kind == "added, unread left" and not left):
        return NAMED if moment == "mid-copy" else EQUAL
    return NAMED


def prepared(warehouse: Warehouse, make_mirror: MakeMirror, need: bool = True) -> Mirror:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v integer", ("id",))
    mirror = make_mirror(warehouse, TABLE, TARGET)
    options = replace(mirror.job.binlog, check_node_change_interval=100, need_redistribution=need)
    mirror.job = replace(mirror.job, binlog=replace(options, full_sync_binlog_batch_read_size=40))
    mirror.keepalive = 0.5
    mirror.source(f"INSERT INTO {TABLE} SELECT n, 0 FROM generate_series(1, {KEYS}) n")
    return mirror


def touch(mirror: Mirror, rounds: int = 2) -> None:
    """Change every key `rounds` times, delete one, and insert one again."""
    for _ in range(rounds):
        mirror.source(f"UPDATE {TABLE} SET v = v + 1", f"DELETE FROM {TABLE} WHERE id = {KEYS}")
        mirror.source(f"INSERT INTO {TABLE} SELECT {KEYS}, max(v) FROM {TABLE}")


def consumed(mirror: Mirror) -> None:
    """Wait until the server says that every slot has read everything."""

    def all_read() -> bool:
        return bool(
            mirror.query(mirror.warehouse.connect, f"SELECT pgxc_consumed_binlog_records('{TABLE}', 0) = 1")[0][0]
        )

    until(all_read, 30, "the slot to have consumed everything")


class Situation:
    """One change of the set at one moment."""

    def __init__(self, mirror: Mirror, kind: str, moment: str, unread: str) -> None:
        self.mirror, self.kind, self.moment, self.unread = mirror, KINDS[kind], moment, unread
        self._held = At("before_chunk_commit", self._in_the_copy, nth=2)

    def play(self) -> BaseException | None:
        """Wait for the end of the job, or until the mirror is equal while all writers write; the job's error."""
        mirror = self.mirror
        if self.moment == "mid-copy":
            mirror.start(self._held)
            assert self._held.done.wait(240)
        else:
            mirror.start().wait_running()
            mirror.wait_equal()
            self._at_rest()
        touch(mirror)
        return self._end()

    def _in_the_copy(self) -> None:
        if self.unread == "unread":
            touch(self.mirror)
        self._change()

    def _at_rest(self) -> None:
        mirror, unread = self.mirror, self.unread == "unread"
        if self.moment == "running":
            writer = Thread(target=touch, args=(mirror, 6))
            writer.start()
            self._change()
            writer.join(240)
            return
        touch(mirror)
        mirror.wait_equal()
        consumed(mirror)
        mirror.stop() if self.moment == "stopped" else mirror.pause()
        if unread:
            touch(mirror)
        self._change()
        if self.moment == "stopped":
            mirror.start()
        else:
            mirror.wanted = WantedState.RUN

    def _change(self) -> None:
        in_vain = self.kind.waits and self.unread == "unread" and self.moment != "running"
        try:
            self.kind.act(self.mirror.warehouse, 0.1 if in_vain else 20)
        except Refused as error:
            assert "was not consumed" in error.message and in_vain
        else:
            assert not in_vain, "the stand-in has to wait until everything is consumed"

    def _end(self) -> BaseException | None:
        mirror = self.mirror

        def over() -> bool:
            return mirror.ended() or (mirror.heard.state is LaneState.RUNNING and self._known() and equal(mirror))

        until(over, 60, "an equal mirror or a named trouble")
        if mirror.ended():
            return mirror.error
        mirror.stop()
        assert mirror.difference() == (0, 0)
        return None

    def _known(self) -> bool:
        return {row.key.shard for row in self.mirror.rows()} == {name for name, _ in self.mirror.warehouse.nodes()}


def equal(mirror: Mirror) -> bool:
    return mirror.difference() == (0, 0)


def check(mirror: Mirror, kind: str, moment: str, unread: str, folder: Path) -> str:
    """Play it; a named error is named again at the next start, has written nothing wrong, and its remedy works."""
    guarded(mirror)
    situation = Situation(mirror, kind, moment, unread)
    error = situation.play()
    assert mirror.query(mirror.sink, "SELECT count(*) FROM mart.backwards") == [(0,)], "a key went back"
    wanted = expected(kind, moment, unread)
    if error is None:
        assert wanted == EQUAL
        return EQUAL
    assert isinstance(error, Trouble), repr(error)
    assert (error.name, wanted) == (TroubleName.TOPOLOGY_CHANGED, NAMED), error
    assert "slots reset" in error.hint and "--to snapshot" in error.hint
    again = mirror.start().wait_error(30)
    assert isinstance(again, Trouble) and again.name is TroubleName.TOPOLOGY_CHANGED, repr(again)
    mirror.at_sink("DROP TRIGGER forward ON mart.t")
    mirror.job = replace(mirror.job, on_existing="replace")
    assert Resetting(mirror, folder / "state").reset(SNAPSHOT).outcome == DONE
    mirror.start().wait_running()
    touch(mirror)
    mirror.wait_equal()
    mirror.stop()
    return f"{error}"


def guarded(mirror: Mirror) -> None:
    """The target notes every row that becomes older than it was: `v` of a key only grows at the source.

    A start refuses a target with triggers, so this one counts as the server's own.
    """
    mirror.at_sink(
        "CREATE SCHEMA mart",
        "CREATE TABLE mart.t (id bigint PRIMARY KEY, v integer)",
        "CREATE TABLE mart.backwards (id bigint, was integer, came integer)",
        "CREATE FUNCTION mart.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF NEW.v < OLD.v THEN INSERT INTO mart.backwards VALUES (NEW.id, OLD.v, NEW.v); END IF; RETURN NEW; END $$",
        "CREATE TRIGGER forward BEFORE UPDATE ON mart.t FOR EACH ROW EXECUTE FUNCTION mart.note()",
        "UPDATE pg_trigger SET tgisinternal = true WHERE tgname = 'forward'",
    )
