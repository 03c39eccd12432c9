"""The keys of `[jobs.X.sync]`: parameters of Doris Binlog Load under their own names.

Names, defaults and meanings are those of Doris, "Binlog Load", "FE configuration". They hold for
sources with a binlog of their own that is followed in ranges of transactions (mysql).
"""

from __future__ import annotations

from slotkeeper.core.config import values
from slotkeeper.core.config.keys import Key, Section, section

_TESTED = "tests/unit/config/test_mysql_keys.py"
_OF_BYTES = "tests/unit/sources/mysql/test_thresholds.py"
MIB = 1 << 20
_BYTES = values.whole(1, 1 << 40)

SYNC: Section = section(
    Key(
        "sync_commit_interval_second",
        "how long a step reads on before it is committed; set it or sink_options.auto_flush_max_interval",
        values.whole(1, 86_400),
        10,
        "s",
        "sync_commit_interval_second",
        _TESTED,
    ),
    Key(
        "min_sync_commit_size",
        "rows with which a step is committed; one that is at the binlog's end never waits for more; set it or"
        " sink_options.auto_flush_batch_size",
        values.whole(1, 10_000_000),
        10_000,
        "rows",
        "min_sync_commit_size",
        _TESTED,
    ),
    Key(
        "min_bytes_sync_commit",
        "bytes of events with which a range ends, and a step where it has enough rows",
        _BYTES,
        15 * MIB,
        "bytes",
        "min_bytes_sync_commit",
        _OF_BYTES,
    ),
    Key(
        "max_bytes_sync_commit",
        "bytes of events that a step has at most; a transaction is never split: a larger one is a step alone; at least"
        " min_bytes_sync_commit",
        _BYTES,
        64 * MIB,
        "bytes",
        "max_bytes_sync_commit",
        _OF_BYTES,
    ),
    Key(
        "stream_read_timeout",
        "how long the binlog's stream may stay silent before the source ends it and reconnects; a server that is well"
        " sends a heartbeat every second",
        values.duration(5_000, 3_600_000),
        "30s",
        "ms",
        tested=_OF_BYTES,
    ),
    Key(
        "max_sync_task_threads_num",
        "threads that load, of all jobs",
        default=10,
        documented="max_sync_task_threads_num",
        tested="",
        because="tasks run at a time are Spark's: set master in [jobs.X.spark]",
    ),
)
