"""Prints a table's changes shard by shard: the program of Hologres that reads with a BinlogShardGroupReader.

Usage: python shard_by_shard.py slotkeeper.toml JOB MARKS.json. The place of each shard is kept in the file of marks, so
that the next run continues there. The same program reads MySQL, and GaussDB(DWS) with its slot.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from slotkeeper.library import Reader, SlotkeeperError, load, passes


def consume(config: str, name: str, file: Path, stop: threading.Event) -> None:
    """Print changes until `stop` is set; a change is printed again if the program ends before its mark is stored."""
    marks = json.loads(file.read_text()) if file.exists() else {}
    with Reader(load(config).jobs[name]) as reader:
        marks.update(reader.start(marks))
        store(file, marks)
        while not stop.is_set():
            try:
                for batch in reader.read():
                    for record in batch.records:
                        print(batch.shard.name, record.point, record.kind.value, record.typed, flush=True)
                    marks[batch.shard.name] = batch.mark
                    store(file, marks)
                    reader.register(batch)
            except SlotkeeperError as error:
                print(error, error.hint, file=sys.stderr)
                if not passes(error):
                    raise
            stop.wait(0.5)


def store(file: Path, marks: dict[str, str]) -> None:
    """Replace the file, which is never seen half written."""
    file.with_suffix(".new").write_text(json.dumps(marks))
    file.with_suffix(".new").replace(file)


if __name__ == "__main__":
    consume(sys.argv[1], sys.argv[2], Path(sys.argv[3]), threading.Event())
