"""A table of orders that changes at random, as a changelog in files, for the programs of docs/dataframes.md.

What stands in for a reader of a binlog is a source of Spark's own (`dataframes.py`): slots, DNs and the types of a
warehouse are not shown.
"""

from __future__ import annotations

import json
import os
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

from slotkeeper.core.dataframe import changelog

Rows = dict[int, tuple[Any, ...]]


class Orders:
    """A table of orders that changes at random, as a changelog in files; `rows` are what it has."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.rows: Rows = {}
        self._draw = random.Random(seed)
        self._point = self._files = 0
        folder.mkdir()

    def change(self, times: int) -> None:
        """One more file of so many changes."""
        self._files += 1
        lines: list[dict[str, Any]] = []
        for _ in range(times):
            lines += self._one()
        half = self.folder / ".half"
        half.write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")
        os.utime(half, (1_700_000_000 + self._files,) * 2)
        half.rename(self.folder / f"{self._files:04d}.json")

    def _one(self) -> list[dict[str, Any]]:
        self._point += 1
        id_ = self._draw.randrange(40)
        image = (id_, str(Decimal(self._draw.randrange(-300, 900)) / 100), self._draw.choice(["a", None, "ü"]))
        before = self.rows.get(id_)
        if before is None:
            self.rows[id_] = image
            return [self._row("I", 0, image)]
        if self._draw.random() < 0.3:
            del self.rows[id_]
            return [self._row("d", 0, (id_, None, None))]
        self.rows[id_] = image
        return [self._row("B", 0, (id_, None, None)), self._row("U", 1, image)]

    def _row(self, kind: str, sequence: int, image: tuple[Any, ...]) -> dict[str, Any]:
        ours = (kind, f"dn_{image[0] % 3}", self._point, sequence)
        return dict(zip([name for name, _ in changelog.COLUMNS], ours, strict=True)) | dict(
            zip(("id", "amount", "note"), image, strict=True)
        )

    def changes(self, spark: Any) -> Any:
        from pyspark.sql import functions as f

        ours = ", ".join(f"{name} {type_}" for name, type_ in changelog.COLUMNS)
        read = spark.readStream.schema(f"{ours}, id int, amount decimal(12, 2), note string")
        found = read.option("maxFilesPerTrigger", 1).json(str(self.folder))
        return found.withColumn("id", f.col("id").alias("id", metadata={changelog.KEY_PLACE: 1}))
