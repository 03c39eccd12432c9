"""Malformed configurations with the exact lines of the error message; the file's folder is left out."""

from __future__ import annotations

from tests.unit.config.cases import Case
from tests.unit.config.cases import case as _case
from tests.unit.config.samples import added, changed

JOB = "jobs.orders_rt"
BINLOG = f"{JOB}.binlog"
CHANNEL = f"{JOB}.channels[0]"
NO_START = (
    'must be "initial", "latest", "earliest", a time with its offset ("2024-11-14 15:48:40+08:00"), or points'
    ' ("dn_1=10516, ...", "all=10516")'
)


def _at(line: int, name: str, text: str, says: str, *hint: str) -> Case:
    return _case(name, text, f"slotkeeper: config.toml:{line}: {says}", *hint)


def _key(line: str) -> str:
    return line.split()[0]


STARTS = [
    ("start a number", "start = 5", "must be text in quotes"),
    ("start empty", 'start = ""', "must not be empty"),
    (
        "start without an offset",
        'start = "2026-01-01 00:00:00"',
        "must be a time with its offset, such as 2024-11-14 15:48:40+08:00",
    ),
    (
        "start on no day",
        'start = "2026-02-30 00:00:00+00:00"',
        "must be a time that exists, such as 2024-11-14 15:48:40+08:00",
    ),
    ("start a bare day", 'start = "2026-02-28"', NO_START),
    ("start a TOML time", "start = 2026-01-01T00:00:00Z", "must be text in quotes"),
    ("start in capitals", 'start = "LATEST"', NO_START),
    ("points without a number", 'start = "dn_1=x"', 'must name points as "dn_1=10516, dn_2=10517"'),
    ("points negative", 'start = "dn_1=-5"', 'must name points as "dn_1=10516, dn_2=10517"'),
    ("points twice", 'start = "dn_1=1, dn_1=2"', "must name each DN once"),
    ("points with a gap", 'start = "dn_1=1, , dn_2=2"', 'must name points as "dn_1=10516, dn_2=10517"'),
    ("points as a table", "start = {dn_1 = 5}", "must be text in quotes"),
]
"""Name, line of the job, and the error about `start`."""

VALUES = [
    (
        "start time nonsense",
        'binlog_start_time = "yesterday"',
        'must be a time such as "2024-11-14 15:48:40" (UTC) or "2024-11-14 15:48:40+08:00"',
    ),
    ("start time empty", 'binlog_start_time = ""', "must not be empty"),
    (
        "start time on no day",
        'binlog_start_time = "2026-13-01 00:00:00"',
        'must be a time such as "2024-11-14 15:48:40" (UTC) or "2024-11-14 15:48:40+08:00"',
    ),
    ("start time a number", "binlog_start_time = 5", "must be text in quotes"),
    ("pool of one", "connection_pool_size = 1", "must be from 2 to 1000"),
    ("pool of none", "connection_pool_size = 0", "must be from 2 to 1000"),
    ("pool as text", 'connection_pool_size = "5"', "must be a whole number from 2 to 1000"),
    ("pool too large", "connection_pool_size = 1001", "must be from 2 to 1000"),
    ("old images as text", 'binlog_ignore_update_before = "yes"', "must be true or false"),
    ("batch of none", "binlog_batch_read_size = 0", "must be from 1 to 10000000"),
    ("batch too large", "binlog_batch_read_size = 10000001", "must be from 1 to 10000000"),
    ("batch a truth", "binlog_batch_read_size = true", "must be a whole number from 1 to 10000000"),
    ("full batch of none", "full_sync_binlog_batch_read_size = 0", "must be from 1 to 10000000"),
    ("full batch as text", 'full_sync_binlog_batch_read_size = "many"', "must be a whole number from 1 to 10000000"),
    ("read timeout 0", "binlog_read_timeout = 0", "must be from 1ms to 7d"),
    ("read timeout too long", 'binlog_read_timeout = "8d"', "must be from 1ms to 7d"),
    ("full read timeout 0", "full_sync_binlog_read_timeout = 0", "must be from 1ms to 7d"),
    (
        "full read timeout a list",
        "full_sync_binlog_read_timeout = [1]",
        'must be a duration such as "500ms", "5s" or "10m", or a number of milliseconds',
    ),
    ("sleep 0", "binlog_sleep_time = 0", "must be from 1ms to 1d"),
    (
        "longest sleep nonsense",
        'binlog_max_sleep_time = "1h30m"',
        'must be a duration such as "500ms", "5s" or "10m", or a number of milliseconds',
    ),
    ("retries negative", "binlog_max_retry_times = -1", "must be from 0 to 1000"),
    ("retries a fraction", "binlog_max_retry_times = 1.5", "must be a whole number from 0 to 1000"),
    ("retry interval too long", 'binlog_retry_interval = "2h"', "must be from 0ms to 1h"),
    ("names as a number", "new_system_value = 1", "must be true or false"),
    (
        "socket timeout too long",
        'connection_socket_timeout = "2w"',
        "has an unknown unit: use one of ms, s, m, min, h, d",
    ),
    ("width too large", "binlog_sync_point_size = 1000000001", "must be from 1 to 1000000000"),
]
"""Name, line of [jobs.X.binlog], and the error about its key."""

WITHOUT_MEANING = [
    ("binlog_queue_size = 5", "rows pass through a pipe of fixed size"),
    ("connection_size = 2", "Spark tasks read the binlog"),
    ('connection_pool_name = "p"', "sessions are named slotkeeper/<job>/<epoch>"),
    ('connection_pool_timeout = "5s"', "a task waits for a Spark slot"),
    ("connection_max_use_count = 9", "a session lasts as long as its job's epoch"),
    ("need_connection_pool_monitor = true", "each task has its own session"),
    ('connection_pool_monitor_period = "5s"', "each task has its own session"),
    ('connection_time_out = "5s"', "set the source's connect_timeout instead"),
]
CAMEL_CASE = [
    ("connectionPoolSize = 5", "connection_pool_size"),
    ("binlogIgnoreUpdateBefore = true", "binlog_ignore_update_before"),
    ('binlogStartTime = "x"', "binlog_start_time"),
    ("binlogQueueSize = 0", "binlog_queue_size"),
    ("binlogSyncPointSize = 5", "binlog_sync_point_size"),
    ("newSystemValue = true", "new_system_value"),
    ("needRedistribution = true", "need_redistribution"),
    ("checkNodeChangeInterval = 5", "check_node_change_interval"),
    ("fullSyncBinlogReadTimeout = 5", "full_sync_binlog_read_timeout"),
]

EXACT = [
    *(_at(18, name, added(JOB, line), f"{JOB}.start {says}") for name, line, says in STARTS),
    *(_at(27, name, added(BINLOG, line), f"{BINLOG}.{_key(line)} {says}") for name, line, says in VALUES),
    *(
        _at(
            27,
            f"no meaning: {_key(line)}",
            added(BINLOG, line),
            f"{BINLOG}.{_key(line)} does not apply here: {says}",
            "  remove the key",
        )
        for line, says in WITHOUT_MEANING
    ),
    *(
        _at(
            27,
            f"camelCase {_key(line)}",
            added(BINLOG, line),
            f"unknown key {_key(line)} in [{BINLOG}]; write it as {spelled}",
        )
        for line, spelled in CAMEL_CASE
    ),
    _at(
        20,
        "start without a binlog",
        changed("binlog = true", "binlog = false").replace('slot = "orders_slot"', 'start = "latest"'),
        f'{JOB}.start must be "initial" if binlog is false (one full copy)',
        "  set binlog = true in [jobs.orders_rt.binlog]",
    ),
    _at(
        29,
        "start and start time",
        added(JOB, 'start = "latest"').replace(
            "binlog = true", 'binlog = true\nbinlog_start_time = "2026-01-01 00:00:00"'
        ),
        f"[{JOB}] sets start and binlog.binlog_start_time, two keys for one setting",
        "  keep start",
    ),
    _at(
        27,
        "start time without a binlog",
        changed("binlog = true", 'binlog_start_time = "2026-01-01 00:00:00"'),
        f'{JOB}.start must be "initial" if binlog is false (one full copy)',
        "  set binlog = true in [jobs.orders_rt.binlog]",
    ),
    _at(
        27,
        "old images without the promise",
        added(BINLOG, "binlog_ignore_update_before = true"),
        f"{BINLOG}.binlog_ignore_update_before omits the old key when a key changes, so the old row would remain",
        "  if no key ever changes, set keys_never_change = true in the channel",
    ),
    _at(
        25,
        "promise as text",
        changed('into = "mart.orders"', 'into = "mart.orders"\nkeys_never_change = "yes"'),
        f"{CHANNEL}.keys_never_change must be true or false",
    ),
    _at(
        25,
        "promise misspelt",
        changed('into = "mart.orders"', 'into = "mart.orders"\nkey_never_change = true'),
        f"unknown key key_never_change in [{CHANNEL}]; did you mean keys_never_change?",
    ),
    _at(
        27,
        "slot name with a dot",
        added(BINLOG, 'binlog_slot_name = "a.b"'),
        f"[{JOB}] sets slot and binlog.binlog_slot_name, two keys for one setting",
        "  keep slot",
    ),
    _at(
        23,
        "source with a second dot",
        changed('"ods.orders"', '"ods.order.lines"'),
        f"{CHANNEL}.from must be schema.table, with exactly one dot: a table name cannot contain one",
    ),
    _at(
        23,
        "source too long",
        changed('"ods.orders"', '"ods.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"'),
        f"{CHANNEL}.from must have names of at most 63 bytes",
    ),
    _at(23, "source a number", changed('"ods.orders"', "5"), f"{CHANNEL}.from must be text in quotes"),
    _at(24, "target without a table", changed('"mart.orders"', '"mart."'), f"{CHANNEL}.into must be schema.table"),
    _at(
        24,
        "target with a quote",
        changed('"mart.orders"', "'mart.\"Orders\"'"),
        f"{CHANNEL}.into must be schema.table without quotes: each name is used exactly as written",
    ),
    _at(
        25,
        "create_target as text",
        changed('into = "mart.orders"', 'into = "mart.orders"\ncreate_target = "yes"'),
        f"{CHANNEL}.create_target must be true or false",
    ),
    _at(
        25,
        "channel camelCase",
        changed('into = "mart.orders"', 'into = "mart.orders"\ncreateTarget = true'),
        f"unknown key createTarget in [{CHANNEL}]; write it as create_target",
    ),
    _at(
        23,
        "from misspelt",
        changed('from = "ods.orders"', 'form = "ods.orders"'),
        f"unknown key form in [{CHANNEL}]; did you mean from?",
    ),
]
