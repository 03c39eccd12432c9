"""PostgreSQL's logical replication: plain, and in the fastest form found (two row-filtered subscriptions, binary).

Timed: from `ALTER SUBSCRIPTION ... ENABLE` until the round's last rows are visible. A subscription applies in commit
order with one worker. Two subscriptions halve the rows with a filter on the key; like Slotkeeper between DNs, they do
not preserve the order between the halves.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.peers.peer import LIMIT, POLL, Caught, line
from bench.rig import MARKERS, PUBLICATIONS, PUBLISHER, Rig, run
from slotkeeper.demo.orders import TABLE


@dataclass(frozen=True, slots=True)
class LogicalReplication:
    """Subscriptions to these publications; implements `bench.peers.peer.Peer`."""

    name: str
    label: str
    wanted: float
    publications: tuple[str, ...]
    binary: bool = False

    def reserve(self, rig: Rig, round_: int) -> None:
        """Create the slots at the publisher: changes from here on are retained in the WAL."""
        for slot in self._slots(round_):
            run(rig.source, PUBLISHER, f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")

    def catch_up(self, rig: Rig, database: str, round_: int) -> Caught:
        """Subscribe, then enable and wait; only the latter is timed."""
        for publication, slot in zip(self.publications, self._slots(round_), strict=True):
            run(
                rig.sink,
                database,
                f"CREATE SUBSCRIPTION {slot} CONNECTION '{line(rig.source, PUBLISHER)}' PUBLICATION {publication} WITH"
                f" (enabled = false, create_slot = false, copy_data = false, slot_name = '{slot}',"
                f" binary = {str(self.binary).lower()})",
            )
        connection = rig.sink.connect(database)
        keys = ", ".join(map(str, MARKERS))
        with connection.cursor() as cursor:
            began = time.monotonic()
            for slot in self._slots(round_):
                cursor.execute(f"ALTER SUBSCRIPTION {slot} ENABLE")
            while True:
                cursor.execute(f"SELECT count(*) FROM {TABLE} WHERE cust IN ({keys}) AND order_no = {round_}")
                if cursor.fetchall()[0][0] == len(MARKERS):
                    break
                if time.monotonic() - began > LIMIT:
                    raise TimeoutError(f"{self.label} has not caught up within {LIMIT:.0f} s")
                time.sleep(POLL)
        seconds = time.monotonic() - began
        connection.close()
        return Caught(seconds, 0.0)

    def release(self, rig: Rig, database: str, round_: int) -> None:
        """Drop the subscriptions and, with them, their slots."""
        for slot in self._slots(round_):
            run(rig.sink, database, f"ALTER SUBSCRIPTION {slot} DISABLE")
            run(rig.sink, database, f"DROP SUBSCRIPTION {slot}")

    def _slots(self, round_: int) -> list[str]:
        return [f"{self.name}_{round_}_{publication}" for publication in self.publications]


PLAIN = LogicalReplication("logical_replication", "logical replication", 1.25, PUBLICATIONS[:1])
STRONGEST = LogicalReplication(
    "logical_replication_strongest", "logical replication, two filtered, binary", 1.0, PUBLICATIONS[1:], binary=True
)
