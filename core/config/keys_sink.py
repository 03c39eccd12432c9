"""The keys of `[jobs.X.sink_options]`: the parameters of the vendor's sink connector, 1.x names in snake_case.

Defaults and units are the connector's ("Result table", dws-connector-flink; dws-client for `copy_write_batch_size`'s
meaning); `on_bad_row`, `quarantine_limit` and `optimistic_step` are ours.
"""

from __future__ import annotations

from slotkeeper.core.config import values
from slotkeeper.core.config.keys import Key, Section, no_meaning, section, vendor
from slotkeeper.core.domain.spec import CONFLICT_STRATEGIES, ON_BAD_ROW, UPDATE_MODES, UPSERT_MODES

_EFFECT = "tests/integration/test_sink_options.py::"
_QUARANTINE = "tests/integration/test_quarantine.py::"
_FLUSH = "tests/unit/engine/test_flush.py::"

SINK_OPTIONS: Section = section(
    vendor(
        "autoFlushBatchSize",
        "rows after which a step commits",
        values.whole(1, 10_000_000),
        5_000,
        _FLUSH + "test_auto_flush_batch_size_ends_a_step",
        "rows",
    ),
    vendor(
        "autoFlushMaxInterval",
        "time after which a step commits",
        values.duration(1, values.DAY),
        5_000,
        _FLUSH + "test_auto_flush_max_interval_ends_a_step",
        "ms",
    ),
    vendor(
        "maxFlushRetryTimes",
        "tries of a quick series at the sink in total; wait n is 1 s x n",
        values.whole(1, 1_000),
        3,
        "tests/unit/test_retry.py::test_max_flush_retry_times_bounds_the_quick_series",
    ),
    vendor(
        "writeMode",
        "auto, upsert, copy_upsert, copy_merge: insert or update; update, copy_update, update_auto: only update what is"
        " there; upsert and update keep one plan, copy_* are planned for each step, copy_merge uses MERGE",
        values.choice(*UPSERT_MODES, *UPDATE_MODES),
        "auto",
        _EFFECT + "test_write_mode",
    ),
    vendor(
        "conflictStrategy",
        "on a key that exists: update sets the mirrored columns, replace makes all others NULL, ignore keeps the row",
        values.choice(*CONFLICT_STRATEGIES),
        "update",
        _EFFECT + "test_conflict_strategy",
    ),
    vendor(
        "copyWriteBatchSize",
        "rows from which a step counts as large: below, auto is upsert and update_auto is update; from it on, auto is"
        " copy_upsert and update_auto is copy_update",
        values.whole(1, 10_000_000),
        5_000,
        _EFFECT + "test_copy_write_batch_size",
        "rows",
    ),
    vendor(
        "ignoreUpdateBefore",
        "true: drop a B whose U has the same key; false: it is a delete by key; a B with another key always is",
        values.boolean,
        True,
        _EFFECT + "test_ignore_update_before",
    ),
    vendor("ignoreDelete", "drop deletes", values.boolean, False, _EFFECT + "test_ignore_delete"),
    vendor(
        "ignoreNullWhenUpdate",
        'leave columns of an existing row alone whose new value is NULL; only with conflict_strategy = "update"',
        values.boolean,
        False,
        _EFFECT + "test_ignore_null_when_update",
    ),
    vendor(
        "connectionSize",
        "writers of one lane: 1, which keeps the order of writes; lanes write beside each other anyway",
        values.only(1, "a lane has one writer, or changes of one key could pass each other"),
        1,
        _EFFECT + "test_connection_size",
    ),
    vendor(
        "connectionMaxUseTimeSeconds",
        "age at which a worker's connection to the sink is closed and opened anew",
        values.whole(1, 31_536_000),
        3_600,
        _EFFECT + "test_connection_max_use_time_seconds",
        "s",
    ),
    vendor(
        "connectionMaxUseTimeThreshold",
        "the same under its name from connector 2.1.0.2 on; set one of them",
        values.whole(1, 31_536_000),
        None,
        _EFFECT + "test_connection_max_use_time_threshold",
        "s",
    ),
    Key(
        "on_bad_row",
        "ours: what becomes of a row that the target refuses (SQLSTATE classes 22 and 23, or a name in a value that the"
        " sink lacks): stop ends the job as FAILED; quarantine keeps the row apart and goes on with the others",
        values.choice(*ON_BAD_ROW),
        "stop",
        tested=_QUARANTINE + "test_on_bad_row_decides_whether_one_bad_row_ends_it_all",
    ),
    Key(
        "quarantine_limit",
        "ours: rows of a table that may be in quarantine at once; with one more the job ends as FAILED,"
        " QUARANTINE FULL",
        values.whole(1, 100_000),
        100,
        "rows",
        tested=_QUARANTINE + "test_quarantine_limit_rolls_the_step_back_and_says_what_the_last_one_was",
    ),
    Key(
        "optimistic_step",
        'ours: with write_mode = "auto", try a step of at least 2,000 events, a quarter of them inserts, without'
        " sorting it: inserts go by COPY into the target; checks find out where that is not its net effect, and it is"
        " taken again in the general way",
        values.boolean,
        True,
        tested=_EFFECT + "test_optimistic_step",
    ),
    no_meaning(
        "connectionMaxIdleMs",
        60_000,
        "ms",
        "idle time after which a connection is closed",
        "a lane's session stays while its worker lives, and ends with it",
    ),
    no_meaning(
        "metadataCacheSeconds",
        180,
        "s",
        "how long columns are remembered",
        "the table's columns are compared in every look, not remembered",
    ),
    no_meaning("copyMode", "CSV", "", "format of COPY", "rows travel as COPY text, which carries every character"),
    no_meaning(
        "createTempTableMode",
        "AS",
        "",
        "how the temporary table is made",
        "the staging table has numbered columns and no key, made in one way",
    ),
    no_meaning(
        "numberAsEpochMsForDatetime",
        False,
        "",
        "read numbers as milliseconds of a date",
        "values are mirrored as they are, never converted",
    ),
    no_meaning(
        "stringToDatetimeFormat",
        None,
        "",
        "format of strings that become dates",
        "values are mirrored as they are, never converted",
    ),
    no_meaning(
        "sink.parallelism",
        None,
        "",
        "writers at once",
        "each DN is a lane; [jobs.X.spark] master says how many at once",
    ),
    no_meaning("printDataPk", False, "", "log the keys of rows", "values of rows, keys among them, are never logged"),
    no_meaning(
        "logSwitch", False, "", "log of the client", "there is no vendor's client; a job's own log is always written"
    ),
    no_meaning("logTable", None, "", "table whose rows are logged", "values of rows are never logged"),
    no_meaning(
        "caseSensitive", False, "", "whether case counts in names", "names are taken as they are written, in quotes"
    ),
    no_meaning("uniqueKeys", None, "", "columns of the key", "the key is the image of the source's primary key"),
    no_meaning(
        "compareField",
        None,
        "",
        "column that says which row is newer",
        "the binlog's own order says which change is newer",
    ),
)

NEWER = "dws"
"""What the connector's names of 2.x begin with."""
NEWER_NAMES = {
    "dws.client.jdbc.url": "host, port and database of [sinks.X]",
    "dws.client.jdbc.username": "user of [sinks.X]",
    "dws.client.jdbc.password": "password_file, password_env or password_command of [sinks.X]",
    "dws.client.jdbc.max.use-time": "connection_max_use_time_seconds",
    "dws.client.jdbc.max.idle": "nothing: a lane's session stays while its worker lives",
    "dws.client.write.mode": "write_mode",
    "dws.client.write.auto-flush-size": "auto_flush_batch_size",
    "dws.client.write.auto-flush-max-interval": "auto_flush_max_interval",
    "dws.client.write.use-copy-size": "copy_write_batch_size",
    "dws.client.write.force-flush-size": "nothing: no rows wait in memory",
    "dws.client.write.thread-size": "connection_size",
    "dws.client.write.partition-policy": "nothing: each DN is a lane with one writer",
    "dws.client.write.partition-min": "nothing: each DN is a lane with one writer",
    "dws.client.write.partition-max": "nothing: each DN is a lane with one writer",
    "dws.client.write.buffer.all-max-bytes": "nothing: no rows wait in memory",
    "dws.client.write.buffer.table-max-bytes": "nothing: no rows wait in memory",
    "dws.client.write.buffer.partition-max-bytes": "nothing: no rows wait in memory",
    "dws.client.retry.max-times": "max_flush_retry_times",
    "dws.client.retry.sleep-base-time": "wait_initial in [jobs.X.retry]",
    "dws.client.retry.sleep-random-time": "wait_jitter in [jobs.X.retry]",
    "dws.client.timeout.task": "nothing: a step has the limits of its session at the sink",
    "dws.client.timeout.statement": "nothing: a step has the limits of its session at the sink",
}
"""The connector's 2.x names, read nowhere: the key that means each here, or nothing and why."""
