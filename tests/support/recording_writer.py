"""A writer for Spark that writes nothing and records its calls, on which Slotkeeper's writer depends."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from slotkeeper.core.dataframe.writer.source import COMMITTING, QUERY_ID


@dataclass(frozen=True)
class Answer(WriterCommitMessage):  # type: ignore[misc]
    rows: int


class RecordingWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Each call writes a line to the file of the option `log`; the first commit of batch 1 then fails."""

    def __init__(self, log: str) -> None:
        self.log = log
        self._say("made", commits=COMMITTING in sys.modules)

    def _say(self, call: str, **what: Any) -> None:
        with Path(self.log).open("a") as out:
            out.write(json.dumps({"call": call, "process": os.getpid(), **what}) + "\n")

    def write(self, iterator: Iterator[Any]) -> Answer:
        rows = sum(batch.num_rows for batch in iterator)
        self._say("write", rows=rows, query=TaskContext.get().getLocalProperty(QUERY_ID))
        return Answer(rows)

    def commit(self, messages: list[Answer | None], batchId: int) -> None:
        first = batchId == 1 and '"batch": 1' not in Path(self.log).read_text("utf-8")
        self._say("commit", batch=batchId, rows=sum(one.rows for one in messages if one))
        if first:
            raise RuntimeError("the answer of a COMMIT was lost")

    def abort(self, messages: list[Answer | None], batchId: int) -> None:
        self._say("abort", batch=batchId, rows=sum(one.rows for one in messages if one))


class Recording(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return "recording"

    def streamWriter(self, schema: Any, overwrite: bool) -> RecordingWriter:
        return RecordingWriter(self.options["log"])


def lines(log: Path) -> list[dict[str, Any]]:
    """The recorded calls, in order."""
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]
