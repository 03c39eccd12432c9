"""Mirrors a table row by row: the program of GaussDB(DWS) that reads with BinlogReader and writes with DwsClient.

Usage: python row_by_row.py slotkeeper.toml JOB. The job supplies the source table, the slot, the sink and the existing
target, whose columns have the source's names. Stop it with Ctrl-C: the next run continues at the slot. A server
without slots (MySQL) is refused: see shard_by_shard.py for marks.
"""

from __future__ import annotations

import sys
import threading

from slotkeeper.library import EventType, Reader, RecordSink, SlotkeeperError, load, passes


def mirror(config: str, name: str, stop: threading.Event) -> None:
    """Mirror until `stop` is set; raises the first error that does not pass by itself."""
    loaded = load(config)
    job = loaded.jobs[name]
    with Reader(job) as reader:
        reader.start()
        key, columns = reader.table.key, [column.name for column in reader.table.columns]
        target = RecordSink(loaded, job.sink.name, name).table(job.channel.target, key, columns)
        while not stop.is_set():
            try:
                for batch in reader.read():
                    for record in batch.records:
                        if record.kind in (EventType.INSERT, EventType.AFTER):
                            target.upsert(record.values)
                        else:  # a deleted row, or the row before an update, whose key can differ
                            target.delete({column: record.values[column] for column in key})
                    target.advance()
                    target.flush()
                    reader.register(batch)  # only now can the warehouse delete these records
            except SlotkeeperError as error:
                print(error, error.hint, file=sys.stderr)
                if not passes(error):
                    raise
            stop.wait(0.5)


if __name__ == "__main__":
    mirror(sys.argv[1], sys.argv[2], threading.Event())
