"""Malformed configurations with the exact lines that they are refused with; the file's folder is left out."""

from __future__ import annotations

from tests.unit.config.cases import case as _case
from tests.unit.config.samples import added, changed

JOB = "jobs.orders_rt"
BINLOG = f"{JOB}.binlog"

EXACT = [
    _case(
        "start a number",
        added(JOB, "start = 5"),
        "slotkeeper: config.toml:18: jobs.orders_rt.start must be text in quotes",
    ),
    _case(
        "start empty", added(JOB, 'start = ""'), "slotkeeper: config.toml:18: jobs.orders_rt.start must not be empty"
    ),
    _case(
        "start without an offset",
        added(JOB, 'start = "2026-01-01 00:00:00"'),
        "slotkeeper: config.toml:18: jobs.orders_rt.start must be a time with its offset, such "
        "as 2024-11-14 15:48:40+08:00",
    ),
    _case(
        "start on no day",
        added(JOB, 'start = "2026-02-30 00:00:00+00:00"'),
        "slotkeeper: config.toml:18: jobs.orders_rt.start must be a time that exists, such as "
        "2024-11-14 15:48:40+08:00",
    ),
    _case(
        "start a bare day",
        added(JOB, 'start = "2026-02-28"'),
        'slotkeeper: config.toml:18: jobs.orders_rt.start must be "initial", "latest", a time '
        'with its offset ("2024-11-14 15:48:40+08:00"), or points ("dn_1=10516, ...")',
    ),
    _case(
        "start a TOML time",
        added(JOB, "start = 2026-01-01T00:00:00Z"),
        "slotkeeper: config.toml:18: jobs.orders_rt.start must be text in quotes",
    ),
    _case(
        "start in capitals",
        added(JOB, 'start = "LATEST"'),
        'slotkeeper: config.toml:18: jobs.orders_rt.start must be "initial", "latest", a time '
        'with its offset ("2024-11-14 15:48:40+08:00"), or points ("dn_1=10516, ...")',
    ),
    _case(
        "points without a number",
        added(JOB, 'start = "dn_1=x"'),
        'slotkeeper: config.toml:18: jobs.orders_rt.start must name points as "dn_1=10516, dn_2=10517"',
    ),
    _case(
        "points negative",
        added(JOB, 'start = "dn_1=-5"'),
        'slotkeeper: config.toml:18: jobs.orders_rt.start must name points as "dn_1=10516, dn_2=10517"',
    ),
    _case(
        "points twice",
        added(JOB, 'start = "dn_1=1, dn_1=2"'),
        "slotkeeper: config.toml:18: jobs.orders_rt.start must name each DN once",
    ),
    _case(
        "points with a gap",
        added(JOB, 'start = "dn_1=1, , dn_2=2"'),
        'slotkeeper: config.toml:18: jobs.orders_rt.start must name points as "dn_1=10516, dn_2=10517"',
    ),
    _case(
        "points as a table",
        added(JOB, "start = {dn_1 = 5}"),
        "slotkeeper: config.toml:18: jobs.orders_rt.start must be text in quotes",
    ),
    _case(
        "start without a binlog",
        changed("binlog = true", "binlog = false").replace('slot = "orders_slot"', 'start = "latest"'),
        "slotkeeper: config.toml:20: jobs.orders_rt.start is not initial, but binlog is false: one full copy",
        "  set binlog = true in [jobs.orders_rt.binlog]",
    ),
    _case(
        "start time nonsense",
        added(BINLOG, 'binlog_start_time = "yesterday"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_start_time must be a time such "
        'as "2024-11-14 15:48:40" (UTC) or "2024-11-14 15:48:40+08:00"',
    ),
    _case(
        "start time empty",
        added(BINLOG, 'binlog_start_time = ""'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_start_time must not be empty",
    ),
    _case(
        "start time on no day",
        added(BINLOG, 'binlog_start_time = "2026-13-01 00:00:00"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_start_time must be a time such "
        'as "2024-11-14 15:48:40" (UTC) or "2024-11-14 15:48:40+08:00"',
    ),
    _case(
        "start time a number",
        added(BINLOG, "binlog_start_time = 5"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_start_time must be text in quotes",
    ),
    _case(
        "start and start time",
        added(JOB, 'start = "latest"').replace(
            "binlog = true", 'binlog = true\nbinlog_start_time = "2026-01-01 00:00:00"'
        ),
        "slotkeeper: config.toml:29: [jobs.orders_rt] sets start and binlog.binlog_start_time, two keys for one thing",
        "  keep start",
    ),
    _case(
        "start time without a binlog",
        changed("binlog = true", 'binlog_start_time = "2026-01-01 00:00:00"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.start is not initial, but binlog is false: one full copy",
        "  set binlog = true in [jobs.orders_rt.binlog]",
    ),
    _case(
        "pool of one",
        added(BINLOG, "connection_pool_size = 1"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.connection_pool_size must be from 2 to 1000",
    ),
    _case(
        "pool of none",
        added(BINLOG, "connection_pool_size = 0"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.connection_pool_size must be from 2 to 1000",
    ),
    _case(
        "pool as text",
        added(BINLOG, 'connection_pool_size = "5"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.connection_pool_size must be a whole number from 2 to 1000",
    ),
    _case(
        "pool too large",
        added(BINLOG, "connection_pool_size = 1001"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.connection_pool_size must be from 2 to 1000",
    ),
    _case(
        "old images without the promise",
        added(BINLOG, "binlog_ignore_update_before = true"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_ignore_update_before drops the "
        "old key of a changed one, so that its row would stay",
        "  set keys_never_change = true in the channel, where that is certain",
    ),
    _case(
        "old images as text",
        added(BINLOG, 'binlog_ignore_update_before = "yes"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_ignore_update_before must be true or false",
    ),
    _case(
        "promise as text",
        changed('into = "mart.orders"', 'into = "mart.orders"\nkeys_never_change = "yes"'),
        "slotkeeper: config.toml:25: jobs.orders_rt.channels[0].keys_never_change must be true or false",
    ),
    _case(
        "promise misspelt",
        changed('into = "mart.orders"', 'into = "mart.orders"\nkey_never_change = true'),
        "slotkeeper: config.toml:25: unknown key key_never_change in "
        "[jobs.orders_rt.channels[0]]; did you mean keys_never_change?",
    ),
    _case(
        "no meaning: binlog_queue_size",
        added(BINLOG, "binlog_queue_size = 5"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_queue_size has no meaning "
        "here: rows pass through a pipe of fixed size",
        "  remove the key",
    ),
    _case(
        "no meaning: connection_size",
        added(BINLOG, "connection_size = 2"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.connection_size has no meaning here: "
        "the tasks of Spark are the readers",
        "  remove the key",
    ),
    _case(
        "no meaning: connection_pool_name",
        added(BINLOG, 'connection_pool_name = "p"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.connection_pool_name has no meaning "
        "here: sessions are named slotkeeper/<job>/<epoch>",
        "  remove the key",
    ),
    _case(
        "no meaning: connection_pool_timeout",
        added(BINLOG, 'connection_pool_timeout = "5s"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.connection_pool_timeout has no "
        "meaning here: a task waits for a place of Spark",
        "  remove the key",
    ),
    _case(
        "no meaning: connection_max_use_count",
        added(BINLOG, "connection_max_use_count = 9"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.connection_max_use_count has no "
        "meaning here: a session lives as long as its job's epoch",
        "  remove the key",
    ),
    _case(
        "no meaning: need_connection_pool_monitor",
        added(BINLOG, "need_connection_pool_monitor = true"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.need_connection_pool_monitor has no "
        "meaning here: each task has a session of its own",
        "  remove the key",
    ),
    _case(
        "no meaning: connection_pool_monitor_period",
        added(BINLOG, 'connection_pool_monitor_period = "5s"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.connection_pool_monitor_period has no "
        "meaning here: each task has a session of its own",
        "  remove the key",
    ),
    _case(
        "no meaning: connection_time_out",
        added(BINLOG, 'connection_time_out = "5s"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.connection_time_out has no meaning "
        "here: it is the source's connect_timeout",
        "  remove the key",
    ),
    _case(
        "camelCase connectionPoolSize",
        added(BINLOG, "connectionPoolSize = 5"),
        "slotkeeper: config.toml:27: unknown key connectionPoolSize in [jobs.orders_rt.binlog]; "
        "it is spelled connection_pool_size here",
    ),
    _case(
        "camelCase binlogIgnoreUpdateBefore",
        added(BINLOG, "binlogIgnoreUpdateBefore = true"),
        "slotkeeper: config.toml:27: unknown key binlogIgnoreUpdateBefore in "
        "[jobs.orders_rt.binlog]; it is spelled binlog_ignore_update_before here",
    ),
    _case(
        "camelCase binlogStartTime",
        added(BINLOG, 'binlogStartTime = "x"'),
        "slotkeeper: config.toml:27: unknown key binlogStartTime in [jobs.orders_rt.binlog]; it "
        "is spelled binlog_start_time here",
    ),
    _case(
        "camelCase binlogQueueSize",
        added(BINLOG, "binlogQueueSize = 0"),
        "slotkeeper: config.toml:27: unknown key binlogQueueSize in [jobs.orders_rt.binlog]; it "
        "is spelled binlog_queue_size here",
    ),
    _case(
        "camelCase binlogSyncPointSize",
        added(BINLOG, "binlogSyncPointSize = 5"),
        "slotkeeper: config.toml:27: unknown key binlogSyncPointSize in [jobs.orders_rt.binlog]; "
        "it is spelled binlog_sync_point_size here",
    ),
    _case(
        "camelCase newSystemValue",
        added(BINLOG, "newSystemValue = true"),
        "slotkeeper: config.toml:27: unknown key newSystemValue in [jobs.orders_rt.binlog]; it "
        "is spelled new_system_value here",
    ),
    _case(
        "camelCase needRedistribution",
        added(BINLOG, "needRedistribution = true"),
        "slotkeeper: config.toml:27: unknown key needRedistribution in [jobs.orders_rt.binlog]; "
        "it is spelled need_redistribution here",
    ),
    _case(
        "camelCase checkNodeChangeInterval",
        added(BINLOG, "checkNodeChangeInterval = 5"),
        "slotkeeper: config.toml:27: unknown key checkNodeChangeInterval in "
        "[jobs.orders_rt.binlog]; it is spelled check_node_change_interval here",
    ),
    _case(
        "camelCase fullSyncBinlogReadTimeout",
        added(BINLOG, "fullSyncBinlogReadTimeout = 5"),
        "slotkeeper: config.toml:27: unknown key fullSyncBinlogReadTimeout in "
        "[jobs.orders_rt.binlog]; it is spelled full_sync_binlog_read_timeout here",
    ),
    _case(
        "batch of none",
        added(BINLOG, "binlog_batch_read_size = 0"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_batch_read_size must be from 1 to 10000000",
    ),
    _case(
        "batch too large",
        added(BINLOG, "binlog_batch_read_size = 10000001"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_batch_read_size must be from 1 to 10000000",
    ),
    _case(
        "batch a truth",
        added(BINLOG, "binlog_batch_read_size = true"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_batch_read_size must be a "
        "whole number from 1 to 10000000",
    ),
    _case(
        "full batch of none",
        added(BINLOG, "full_sync_binlog_batch_read_size = 0"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.full_sync_binlog_batch_read_size must be from 1 to 10000000",
    ),
    _case(
        "full batch as text",
        added(BINLOG, 'full_sync_binlog_batch_read_size = "many"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.full_sync_binlog_batch_read_size must "
        "be a whole number from 1 to 10000000",
    ),
    _case(
        "read timeout 0",
        added(BINLOG, "binlog_read_timeout = 0"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_read_timeout must be from 1ms to 7d",
    ),
    _case(
        "read timeout too long",
        added(BINLOG, 'binlog_read_timeout = "8d"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_read_timeout must be from 1ms to 7d",
    ),
    _case(
        "full read timeout 0",
        added(BINLOG, "full_sync_binlog_read_timeout = 0"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.full_sync_binlog_read_timeout must be from 1ms to 7d",
    ),
    _case(
        "full read timeout a list",
        added(BINLOG, "full_sync_binlog_read_timeout = [1]"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.full_sync_binlog_read_timeout must be "
        'a duration such as "500ms", "5s" or "10m", or a number of milliseconds',
    ),
    _case(
        "sleep 0",
        added(BINLOG, "binlog_sleep_time = 0"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_sleep_time must be from 1ms to 1d",
    ),
    _case(
        "longest sleep nonsense",
        added(BINLOG, 'binlog_max_sleep_time = "1h30m"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_max_sleep_time must be a "
        'duration such as "500ms", "5s" or "10m", or a number of milliseconds',
    ),
    _case(
        "retries negative",
        added(BINLOG, "binlog_max_retry_times = -1"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_max_retry_times must be from 0 to 1000",
    ),
    _case(
        "retries a fraction",
        added(BINLOG, "binlog_max_retry_times = 1.5"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_max_retry_times must be a "
        "whole number from 0 to 1000",
    ),
    _case(
        "retry interval too long",
        added(BINLOG, 'binlog_retry_interval = "2h"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_retry_interval must be from 0ms to 1h",
    ),
    _case(
        "names as a number",
        added(BINLOG, "new_system_value = 1"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.new_system_value must be true or false",
    ),
    _case(
        "socket timeout too long",
        added(BINLOG, 'connection_socket_timeout = "2w"'),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.connection_socket_timeout has an "
        "unknown unit: use one of ms, s, m, min, h, d",
    ),
    _case(
        "width too large",
        added(BINLOG, "binlog_sync_point_size = 1000000001"),
        "slotkeeper: config.toml:27: jobs.orders_rt.binlog.binlog_sync_point_size must be from 1 to 1000000000",
    ),
    _case(
        "slot name with a dot",
        added(BINLOG, 'binlog_slot_name = "a.b"'),
        "slotkeeper: config.toml:27: [jobs.orders_rt] sets slot and binlog.binlog_slot_name, two keys for one thing",
        "  keep slot",
    ),
    _case(
        "source with a second dot",
        changed('"ods.orders"', '"ods.order.lines"'),
        "slotkeeper: config.toml:23: jobs.orders_rt.channels[0].from must be schema.table, "
        "with exactly one dot: the table's own name cannot hold one",
    ),
    _case(
        "source too long",
        changed('"ods.orders"', '"ods.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"'),
        "slotkeeper: config.toml:23: jobs.orders_rt.channels[0].from must have names of at most 63 bytes",
    ),
    _case(
        "source a number",
        changed('"ods.orders"', "5"),
        "slotkeeper: config.toml:23: jobs.orders_rt.channels[0].from must be text in quotes",
    ),
    _case(
        "target without a table",
        changed('"mart.orders"', '"mart."'),
        "slotkeeper: config.toml:24: jobs.orders_rt.channels[0].into must be schema.table",
    ),
    _case(
        "target with a quote",
        changed('"mart.orders"', "'mart.\"Orders\"'"),
        "slotkeeper: config.toml:24: jobs.orders_rt.channels[0].into must be schema.table "
        "without quotes: each name is taken as it is written",
    ),
    _case(
        "create_target as text",
        changed('into = "mart.orders"', 'into = "mart.orders"\ncreate_target = "yes"'),
        "slotkeeper: config.toml:25: jobs.orders_rt.channels[0].create_target must be true or false",
    ),
    _case(
        "channel camelCase",
        changed('into = "mart.orders"', 'into = "mart.orders"\ncreateTarget = true'),
        "slotkeeper: config.toml:25: unknown key createTarget in [jobs.orders_rt.channels[0]]; "
        "it is spelled create_target here",
    ),
    _case(
        "from misspelt",
        changed('from = "ods.orders"', 'form = "ods.orders"'),
        "slotkeeper: config.toml:23: unknown key form in [jobs.orders_rt.channels[0]]; did you mean from?",
    ),
]
