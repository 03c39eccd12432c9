"""The keys of `[jobs.X.binlog]`: the vendor's binlog parameters under their own names in snake_case.

Defaults, units and meanings are those of "Real-Time Binlog Consumption by Flink", table 1 (19 parameters), and of
the connector's further pool options.
"""

from __future__ import annotations

from slotkeeper.core.config import values
from slotkeeper.core.config.keys import Section, no_meaning, section, vendor

_EFFECTS = "tests/integration/test_binlog_parameters.py"
_RETRY = "tests/unit/test_retry.py"
_NODES = "tests/fault/test_topology_rules.py"
_ROWS = values.whole(1, 10_000_000)
_WAIT = values.duration(1, values.DAY)
_LIMIT = values.duration(1, values.WEEK)

BINLOG: Section = section(
    vendor("binlog", "read the binlog; false is one full copy", values.boolean, False, _EFFECTS),
    vendor(
        "binlogSlotName",
        "slot of the source table; the same as the job's slot, set one of them",
        values.slot,
        None,
        _EFFECTS,
    ),
    vendor("binlogBatchReadSize", "binlog rows read in a batch", _ROWS, 5_000, _EFFECTS, "rows"),
    vendor("fullSyncBinlogBatchReadSize", "rows of a chunk of the full copy", _ROWS, 50_000, _EFFECTS, "rows"),
    vendor("binlogReadTimeout", "limit of one incremental read", _LIMIT, 600_000, _EFFECTS, "ms"),
    vendor(
        "fullSyncBinlogReadTimeout",
        "limit of one read of the full copy; at the sink of a chunk and of the exchange (at least 30m)",
        _LIMIT,
        1_800_000,
        _EFFECTS,
        "ms",
    ),
    vendor("binlogSleepTime", "sleep after an empty read, x empty reads", _WAIT, 500, _EFFECTS, "ms"),
    vendor("binlogMaxSleepTime", "longest such sleep", _WAIT, 10_000, _EFFECTS, "ms"),
    vendor("binlogMaxRetryTimes", "quick retries after an error at the source", values.whole(0, 1_000), 1, _RETRY),
    vendor(
        "binlogRetryInterval",
        "quick retry n waits this x n + Random(100) ms",
        values.duration(0, 3_600_000),
        100,
        _RETRY,
        "ms",
    ),
    vendor(
        "newSystemValue",
        "use the new names of the system columns; false for older kernels",
        values.boolean,
        True,
        _EFFECTS,
    ),
    vendor(
        "connectionSocketTimeout",
        "client limit of a connection's answers; 0: none",
        values.duration(0, values.WEEK),
        0,
        _EFFECTS,
        "ms",
    ),
    vendor(
        "binlogSyncPointSize",
        "sync points of one incremental range (DWS 9.1.0.200 and later)",
        values.whole(1, 1_000_000_000),
        5_000,
        _EFFECTS,
        "sync points",
    ),
    vendor(
        "binlogParallelNum",
        "lanes of one task that are read at once, where there are fewer places than DNs; they share the pool",
        values.whole(1, 64),
        3,
        "tests/fault/test_fairness.py",
    ),
    vendor(
        "connectionPoolSize",
        "source connections that tasks read through at once, whatever the number of Spark's places; the driver holds "
        "[some more](delivery.md), which do not grow with tables",
        values.whole(2, 1_000),
        5,
        _EFFECTS,
    ),
    vendor(
        "needRedistribution",
        "adopt a changed set of DNs where that is safe; false for kernels that do not redistribute with a binlog",
        values.boolean,
        True,
        _NODES,
    ),
    vendor(
        "checkNodeChangeInterval",
        "interval of looking for changed DNs; only with need_redistribution",
        values.duration(100, values.DAY),
        10_000,
        _NODES,
        "ms",
    ),
    vendor(
        "binlogIgnoreUpdateBefore",
        "leave B rows at the server, deletes carry the key only (DWS 9.1.0.200 and later); needs `keys_never_change`",
        values.boolean,
        False,
        _EFFECTS,
    ),
    vendor(
        "binlogStartTime",
        "time from which to read, `yyyy-MM-dd hh:mm:ss` in UTC or with an offset; the same as the job's `start`, set "
        "one of them; needs enable_binlog_timestamp (DWS 9.1.0.200 and later)",
        values.start_time,
        None,
        "tests/integration/test_starts.py",
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
