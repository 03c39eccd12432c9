"""A target with a folder of changes, a checkpoint and a writer's options, for streams of Spark that write there."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from slotkeeper.demo.postgres import Server
from tests.support.dataframes import ChangeFiles, configuration
from tests.support.histories import history
from tests.support.oracle import Accepts, Event, Image, Key, Oracle, Rules

FORMAT = "slotkeeper_postgres"
_NAMES = ("h", "k", "a", "b", "tags", "j")


def cut(draw: random.Random, events: list[Event], parts: int) -> list[list[Event]]:
    """Events in so many parts, some of which may be empty; no update is cut in two, as no transaction is."""
    whole = [n for n in range(len(events) + 1) if not n or events[n - 1].kind != "B"]
    at = sorted(draw.choices(whole, k=parts - 1))
    return [events[begin:end] for begin, end in zip([0, *at], [*at, len(events)], strict=True)]


class StreamRig:
    """A target, a folder of changes, a checkpoint, and the options of the writer."""

    def __init__(
        self, server: Server, database: str, folder: Path, name: str, seed: int, histories: int = 30, cuts: int = 3
    ) -> None:
        self.config = configuration(folder / "slotkeeper.toml", server, database)
        self.files = ChangeFiles(folder / "changes")
        self.checkpoint = folder / "checkpoint"
        self.table = f"mart.{name}"
        self.watch = server.connect(database)
        with self.watch.cursor() as cursor:
            cursor.execute("CREATE SCHEMA IF NOT EXISTS mart")
            cursor.execute(
                f"CREATE TABLE {self.table} (h integer, k integer, a integer, b text, tags integer[], j json,"
                " PRIMARY KEY (h, k))"
            )
        draw = random.Random(seed)
        self.batches: list[list[Event]] = [[] for _ in range(cuts)]
        for one in range(histories):
            for place, part in enumerate(cut(draw, history(draw, one).events, cuts)):
                self.batches[place] += part

    def forget_commit(self, batch: int) -> None:
        """Leave Spark's log of a batch as it is where the driver dies behind the sink's COMMIT."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        for sums in (self.checkpoint / "commits").glob(".*.crc"):
            sums.unlink()

    def options(self, **more: str) -> dict[str, str]:
        return {"config": str(self.config), "sink": "mart", "table": self.table, **more}

    def oracle(self, batches: int, accepts: Accepts | None = None) -> dict[Key, Image]:
        made = Oracle(Rules(accepts=accepts), {})
        made.apply(event for batch in self.batches[:batches] for event in batch)
        return dict(made.rows)

    def rows(self) -> dict[Key, Image]:
        found = self.asked(f"SELECT h, k, a, b, tags::text, j::text FROM {self.table}")
        return {(row[0], row[1]): dict(zip(_NAMES, row, strict=True)) for row in found}

    def versions(self) -> set[tuple[Any, ...]]:
        return set(self.asked(f"SELECT ctid::text, xmin::text FROM {self.table}"))

    def fence(self) -> tuple[str, int, int]:
        """(query, batch, rows) of the target's fence; an empty one before the first batch."""
        if self.asked("SELECT to_regclass('public.slotkeeper_streams') IS NULL") == [(True,)]:
            return "", -1, 0
        found = self.asked(f"SELECT query, batch, rows FROM slotkeeper_streams WHERE target = '{self.table}'")
        return found[0] if found else ("", -1, 0)

    def asked(self, statement: str) -> list[tuple[Any, ...]]:
        with self.watch.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def write(self, rows: Any, checkpoint: Path | None = None, **more: str) -> Any:
        """Write what there is now, and wait for its end."""
        query = (
            rows.writeStream.format(FORMAT)
            .options(**self.options(**more))
            .option("checkpointLocation", str(checkpoint or self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query
