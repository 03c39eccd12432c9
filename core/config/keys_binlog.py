"""The keys of `[jobs.X.binlog]`: the vendor's binlog parameters under their own names in snake_case.

Defaults, units and meanings are those of "Real-Time Binlog Consumption by Flink", table 1 (19 parameters), and of
the connector's further pool options. Next door: `keys` for all other tables.
"""

from __future__ import annotations

from core.config import values
from core.config.keys import Key, Section, no_meaning, section

_EFFECTS = "tests/integration/test_binlog_parameters.py"
_RETRY = "tests/unit/test_retry.py"
_NODES = "tests/fault/test_topology_rules.py"
_ROWS = values.whole(1, 10_000_000)
_WAIT = values.duration(1, values.DAY)
_LIMIT = values.duration(1, values.WEEK)

BINLOG: Section = section(
    Key("binlog", "read the binlog; false is one full copy", values.boolean, False, "", "binlog", _EFFECTS),
    Key(
        "binlog_slot_name",
        "slot of the source table; the same as the job's slot, set one of them",
        values.slot,
        documented="binlogSlotName",
        tested=_EFFECTS,
    ),
    Key("binlog_batch_read_size", "binlog rows read in a batch", _ROWS, 5_000, "rows", "binlogBatchReadSize", _EFFECTS),
    Key(
        "full_sync_binlog_batch_read_size",
        "rows of a chunk of the full copy",
        _ROWS,
        50_000,
        "rows",
        "fullSyncBinlogBatchReadSize",
        _EFFECTS,
    ),
    Key("binlog_read_timeout", "limit of one incremental read", _LIMIT, 600_000, "ms", "binlogReadTimeout", _EFFECTS),
    Key(
        "full_sync_binlog_read_timeout",
        "limit of one read of the full copy; at the sink of a chunk and of the exchange (at least 30m)",
        _LIMIT,
        1_800_000,
        "ms",
        "fullSyncBinlogReadTimeout",
        _EFFECTS,
    ),
    Key("binlog_sleep_time", "sleep after an empty read, x empty reads", _WAIT, 500, "ms", "binlogSleepTime", _EFFECTS),
    Key("binlog_max_sleep_time", "longest such sleep", _WAIT, 10_000, "ms", "binlogMaxSleepTime", _EFFECTS),
    Key(
        "binlog_max_retry_times",
        "quick retries after an error at the source",
        values.whole(0, 1_000),
        1,
        "",
        "binlogMaxRetryTimes",
        _RETRY,
    ),
    Key(
        "binlog_retry_interval",
        "quick retry n waits this x n + Random(100) ms",
        values.duration(0, 3_600_000),
        100,
        "ms",
        "binlogRetryInterval",
        _RETRY,
    ),
    Key(
        "new_system_value",
        "use the new names of the system columns; false for older kernels",
        values.boolean,
        True,
        "",
        "newSystemValue",
        _EFFECTS,
    ),
    Key(
        "connection_socket_timeout",
        "client limit of a connection's answers; 0: none",
        values.duration(0, values.WEEK),
        0,
        "ms",
        "connectionSocketTimeout",
        _EFFECTS,
    ),
    Key(
        "binlog_sync_point_size",
        "sync points of one incremental range (DWS 9.1.0.200 and later)",
        values.whole(1, 1_000_000_000),
        5_000,
        "sync points",
        "binlogSyncPointSize",
        _EFFECTS,
    ),
    Key(
        "binlog_parallel_num",
        "lanes of one task that are read at once, where there are fewer places than DNs; they share the pool",
        values.whole(1, 64),
        3,
        "",
        "binlogParallelNum",
        "tests/fault/test_fairness.py",
    ),
    Key(
        "connection_pool_size",
        "source connections that tasks read through at once, whatever the number of Spark's places; the driver holds "
        "[some more](delivery.md), which do not grow with tables",
        values.whole(2, 1_000),
        5,
        "",
        "connectionPoolSize",
        _EFFECTS,
    ),
    Key(
        "need_redistribution",
        "adopt a changed set of DNs where that is safe; false for kernels that do not redistribute with a binlog",
        values.boolean,
        True,
        "",
        "needRedistribution",
        _NODES,
    ),
    Key(
        "check_node_change_interval",
        "interval of looking for changed DNs; only with need_redistribution",
        values.duration(100, values.DAY),
        10_000,
        "ms",
        "checkNodeChangeInterval",
        _NODES,
    ),
    Key(
        "binlog_ignore_update_before",
        "leave B rows at the server, deletes carry the key only (DWS 9.1.0.200 and later); needs `keys_never_change`",
        values.boolean,
        False,
        "",
        "binlogIgnoreUpdateBefore",
        _EFFECTS,
    ),
    Key(
        "binlog_start_time",
        "time from which to read, `yyyy-MM-dd hh:mm:ss` in UTC or with an offset; the same as the job's `start`, set "
        "one of them; needs enable_binlog_timestamp (DWS 9.1.0.200 and later)",
        values.start_time,
        documented="binlogStartTime",
        tested="tests/integration/test_starts.py",
    ),
    no_meaning("binlogQueueSize", 0, "rows", "limit of the reader's queue", "rows pass through a pipe of fixed size"),
    no_meaning("connectionSize", 1, "", "threads of the read pool", "the tasks of Spark are the readers"),
    no_meaning("connectionPoolName", None, "", "name of the pool", "sessions are named slotkeeper/<job>/<epoch>"),
    no_meaning(
        "connectionPoolTimeout", None, "ms", "limit of the wait for a connection", "a task waits for a place of Spark"
    ),
    no_meaning("connectionMaxUseCount", None, "", "uses of a connection", "a session lives as long as its job's epoch"),
    no_meaning("needConnectionPoolMonitor", None, "", "monitor the pool", "each task has a session of its own"),
    no_meaning(
        "connectionPoolMonitorPeriod", None, "ms", "interval of that monitor", "each task has a session of its own"
    ),
    no_meaning("connectionTimeOut", None, "ms", "limit of one try to connect", "it is the source's connect_timeout"),
)
