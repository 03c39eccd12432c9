"""The keys of `[jobs.X.sink]`: the parameters of the vendor's sink connector, 1.x names in snake_case.

Defaults and units are the connector's. Next door: `keys` for all other tables.
"""

from __future__ import annotations

from core.config import values
from core.config.keys import Key, Section, later, section

_MODEL = "tests/unit/config"

SINK_OPTIONS: Section = section(
    Key(
        "auto_flush_batch_size",
        "rows after which a step commits",
        values.whole(1, 10_000_000),
        5_000,
        "rows",
        "autoFlushBatchSize",
        _MODEL,
    ),
    Key(
        "auto_flush_max_interval",
        "time after which a step commits",
        values.duration(1, values.DAY),
        5_000,
        "ms",
        "autoFlushMaxInterval",
        _MODEL,
    ),
    Key(
        "max_flush_retry_times",
        "tries of a quick series at the sink in total; wait n is 1 s x n",
        values.whole(1, 1_000),
        3,
        "",
        "maxFlushRetryTimes",
        "tests/unit/test_retry.py",
    ),
    Key(
        "ignore_update_before",
        "drop a B whose U has the same key; a B with another key is always a delete",
        values.boolean,
        True,
        "",
        "ignoreUpdateBefore",
        _MODEL,
    ),
    Key("ignore_delete", "drop deletes", values.boolean, False, "", "ignoreDelete", _MODEL),
    later("connectionSize", 1, "", "concurrent writers; 1 keeps the order of writes"),
    later("connectionMaxUseTimeSeconds", 3_600, "s", "age at which a connection is closed"),
    later("connectionMaxUseTimeThreshold", 3_600, "s", "the same, from connector 2.1.0.2"),
    later("connectionMaxIdleMs", 60_000, "ms", "idle time after which a connection is closed"),
    later("conflictStrategy", "update", "", "update, replace or ignore on a key that exists"),
    later("writeMode", "auto", "", "how rows are written"),
    later("copyWriteBatchSize", 5_000, "rows", "rows from which COPY is used in auto mode"),
    later("ignoreNullWhenUpdate", False, "", "leave columns alone whose new value is NULL"),
    later("metadataCacheSeconds", 180, "s", "how long table definitions are remembered"),
    later("copyMode", "CSV", "", "format of COPY"),
    later("createTempTableMode", "AS", "", "how the temporary table is made"),
    later("numberAsEpochMsForDatetime", False, "", "numbers into time columns as epoch milliseconds"),
    later("stringToDatetimeFormat", None, "", "format of text that goes into time columns"),
    later("sink.parallelism", None, "", "parallel writers (a Flink option)"),
    later("printDataPk", False, "", "log the keys received"),
    later("logSwitch", False, "", "logging of the vendor's client"),
    later("logTable", None, "", "table whose rows the vendor's client logs"),
    later("caseSensitive", False, "", "identifiers keep their case"),
    later("uniqueKeys", None, "", "key columns (here: the target's primary key)"),
    later("compareField", None, "", "columns that say which row is newer"),
)
