"""Handles a stream of changes as Spark does, without Spark: offsets, a commit log, parts that are read one by one.

`python -m tests.support.frames CONFIG` is one life of a query in a separate process: it starts, reports that, and waits
to be killed; it stops nothing.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from slotkeeper.core.dataframe.reader.options import asked
from slotkeeper.core.dataframe.reader.parts import Offset, Part
from slotkeeper.core.dataframe.reader.query import Query
from slotkeeper.core.dataframe.reader.read import read
from slotkeeper.core.dataframe.reader.schema import layout
from slotkeeper.core.engine.worker.step import Probe, nothing
from slotkeeper.core.sources import registry
from slotkeeper.core.wiring.worker import changelog_of, changelog_session
from tests.support.mirror import Mirror
from tests.support.polling import config, job
from tests.support.waiting import until

JOB = "frames"
Row = dict[str, Any]


def configured(mirror: Mirror, folder: Path, slot: str = "frames_slot", table: str = "") -> Path:
    """A configuration with the job of a DataFrame over the mirror's source and sink."""
    folder.mkdir(exist_ok=True)
    table = table or mirror.table
    return config(folder, mirror.job.source, mirror.job.sink, job(JOB, slot, table, "mart.unused"))


class Program:
    """One checkpoint and the rows that a sink has received; a new `Query` for each start, as after a crash of the
    driver."""

    def __init__(self, path: Path, probe: Probe = nothing, **options: str) -> None:
        form = {} if options.get("read") == "rows" else {"changelog": "raw"}
        self.options = {"config": str(path), "job": JOB, **form, **options}
        self.asked = asked(self.options)
        with closing(changelog_session(self.asked.job, 0, "schema")) as session:
            log = changelog_of(session, self.asked.job).source
            self.layout = layout(log, self.asked.columns, self.asked.as_text, self.asked.changelog)
        self.probe = probe
        self.offsets: dict[str, Any] | None = None
        """The end of a batch that is in the offset log, and possibly not in the commit log."""
        self.commits: dict[str, Any] | None = None
        """The end of the newest batch in the commit log."""
        self.rows: list[Row] = []
        self.query = self._new()

    def _new(self) -> Query:
        return Query(self.asked, self.layout, probe=self.probe)

    def crash(self) -> None:
        self.query.close()
        self.query = self._new()

    def offset(self, kept: Mapping[str, Any]) -> Offset:
        return Offset.read(kept, registry.open(self.asked.job.source_kind).positions)

    def batch(self, width: int | None = None) -> int:
        """One trigger: construct, run and log a batch as Spark does; returns its number of rows, -1 for no batch."""
        start = self.offset(self.commits) if self.commits else self.query.initial()
        if self.offsets == self.commits:
            end = self.query.latest(start, width or self.asked.points_per_trigger)
            if end.json == start.json:
                return -1
            self.offsets = end.json
        assert self.offsets is not None
        got = self.got(self.query.parts(start, self.offset(self.offsets)))
        self.rows += got
        self.commits = self.offsets
        return len(got)

    def got(self, parts: Sequence[Part]) -> list[Row]:
        return [row for part in parts for batch in read(part) for row in batch.to_pylist()]

    def until_idle(self, width: int | None = None) -> None:
        """Trigger until nothing new is found, followed by an idle trigger."""
        while self.batch(width) >= 0:
            pass

    @property
    def events(self) -> list[Row]:
        return [row for row in self.rows if row["slotkeeper_change"] != "S"]

    def booked(self) -> dict[str, int]:
        return dict(Counter(row["slotkeeper_dn"] for row in self.events))

    def doubled(self) -> int:
        """The number of changes that were received more than once."""
        places = [(row["slotkeeper_dn"], row["slotkeeper_point"], row["slotkeeper_sequence"]) for row in self.events]
        return len(places) - len(set(places))

    def table(self) -> dict[tuple[Any, ...], Row]:
        """Return the contents of an empty table after the rows: copied rows first, then each change in its order."""
        found: dict[tuple[Any, ...], Row] = {}
        for row in sorted(self.rows, key=lambda one: (one["slotkeeper_point"], one["slotkeeper_sequence"])):
            key = tuple(row[name] for name in self.layout.key)
            if row["slotkeeper_change"] in ("B", "d"):
                found.pop(key, None)
            else:
                found[key] = {name: value for name, value in row.items() if not name.startswith("slotkeeper_")}
        return found


def slot_places(mirror: Mirror, slot: str = "frames_slot") -> dict[str, set[int]]:
    """The source's state of the slot, by DN: both points."""
    statement = (
        f"SELECT n.node_name, s.sync_point FROM dws.slot s JOIN dws.node n ON n.ord = s.dn WHERE s.slot_name = '{slot}'"
    )
    found: dict[str, set[int]] = {}
    for name, point in mirror.query(mirror.warehouse.connect, statement):
        found.setdefault(str(name), set()).add(int(point))
    return found


def begun(mirror: Mirror) -> bool:
    """Whether a query's start has completed, according to the store: later changes are read even with `latest`.

    A slot is there before that: at `latest` it is moved once more, when nothing is open any more that was then.
    """
    ((there,),) = mirror.query(mirror.sink, "SELECT to_regclass('slotkeeper_progress') IS NOT NULL")
    statement = "SELECT count(*) > 0 AND count(*) = count(noted_end) FROM slotkeeper_progress"
    return bool(there and mirror.query(mirror.sink, statement)[0][0])


def wait_begun(query: Any, mirror: Mirror) -> None:
    """Wait until the query's start has completed; if the query has ended, fail with its error."""

    def through() -> bool:
        assert query.exception() is None, query.exception()
        return begun(mirror)

    until(through, 60, "the query to begin")


def main(config: str) -> None:
    """Begin at the newest position, and run until stdin ends."""
    program = Program(Path(config), start="latest", poll_interval="0ms")
    program.query.initial()
    print("begun", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
