"""The keys of `[jobs.X.sink_options]` and their conflicts; the keys have the 1.x names of the vendor's sink connector.

Names are in snake_case. Defaults and units are those of the connector ("Result table", dws-connector-flink; dws-client
for the meaning of `copy_write_batch_size`). `on_bad_row`, `quarantine_limit` and `optimistic_step` are Slotkeeper's
own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from slotkeeper.core.config import values
from slotkeeper.core.config.keys import Key, defaults, no_meaning, section, vendor
from slotkeeper.core.domain.spec import CONFLICT_STRATEGIES, ON_BAD_ROW, UPDATE_MODES, UPSERT_MODES, SinkOptions


class _SinkOptions:
    auto_flush_batch_size = vendor(values.whole(1, 10_000_000), "rows")
    """number of rows after which a step commits"""
    auto_flush_max_interval = vendor(values.duration(1, values.DAY), "ms")
    """time after which a step commits"""
    max_flush_retry_times = vendor(values.whole(1, 1_000))
    """number of attempts in a series of quick retries of a write; the n-th wait lasts n seconds"""
    write_mode = vendor(values.choice(*UPSERT_MODES, *UPDATE_MODES))
    """auto, upsert, copy_upsert, copy_merge: insert or update; update, copy_update, update_auto: only update existing
    rows; upsert and update reuse one query plan, copy_* are planned for each step, copy_merge uses MERGE"""
    conflict_strategy = vendor(values.choice(*CONFLICT_STRATEGIES))
    """action if the key exists: update sets the mirrored columns, replace also sets all other columns to NULL, ignore
    keeps the row unchanged"""
    copy_write_batch_size = vendor(values.whole(1, 10_000_000), "rows")
    """minimum number of rows of a large step: for smaller steps, auto means upsert and update_auto means update; for
    large steps, auto means copy_upsert and update_auto means copy_update"""
    ignore_update_before = vendor(values.boolean)
    """true: drop a B row whose U row has the same key; false: apply it as a delete by key; a B row with a different key
    is always a delete"""
    ignore_delete = vendor(values.boolean)
    """drop deletes"""
    ignore_null_when_update = vendor(values.boolean)
    """only with conflict_strategy = "update": keep a column of an existing row if its new value is NULL"""
    connection_size = vendor(values.only(1, "a lane has one writer, so that the changes to each key stay in order"))
    """number of writers per lane; must be 1, which preserves the order of writes; lanes write in parallel"""
    connection_max_use_time_seconds = vendor(values.whole(1, 31_536_000), "s")
    """age at which a worker's connection to the sink is closed and reopened"""
    connection_max_use_time_threshold = vendor(values.whole(1, 31_536_000), "s")
    """alternative name of connection_max_use_time_seconds (connector 2.1.0.2 and later); set only one of the two"""
    on_bad_row = Key(values.choice(*ON_BAD_ROW))
    """Slotkeeper's own: action for a row that the target rejects (SQLSTATE classes 22 and 23, or a value with a name
    that does not exist in the sink): stop ends the job as FAILED; quarantine stores the row separately and continues
    with the other rows"""
    quarantine_limit = Key(values.whole(1, 100_000), unit="rows")
    """Slotkeeper's own: maximum number of quarantined rows per table; if it is exceeded, the job ends as FAILED with
    QUARANTINE FULL"""
    optimistic_step = Key(values.boolean)
    """Slotkeeper's own: with write_mode = "auto", first write a step of at least 2,000 events, a quarter of them
    inserts, without sorting it: inserts are written to the target with COPY. If checks find that the result differs
    from the step's net effect, the step is repeated in the usual way"""
    connection_max_idle_ms = no_meaning("a lane's session stays open while its worker runs", 60_000, "ms")
    """idle time after which a connection is closed"""
    metadata_cache_seconds = no_meaning("the table's columns are compared in every check, not cached", 180, "s")
    """time for which columns are cached"""
    copy_mode = no_meaning("rows are sent as COPY text, which can represent every character", "CSV")
    """COPY format"""
    create_temp_table_mode = no_meaning("the staging table always has numbered columns and no key", "AS")
    """method of creating the temporary table"""
    number_as_epoch_ms_for_datetime = no_meaning('write compute = { column = "from_epoch_ms(column)" }', False)
    """read numbers as epoch milliseconds for date columns"""
    string_to_datetime_format = no_meaning("write compute = { column = \"from_text(column, 'FORMAT')\" }")
    """format of strings that are converted to dates"""
    sink_parallelism = no_meaning(
        "each DN is a lane; [jobs.X.spark] master sets how many run at once", documented="sink.parallelism"
    )
    """number of parallel writers"""
    print_data_pk = no_meaning("values of rows are never logged, except the key of a row that stops a job", False)
    """log the keys of rows"""
    log_switch = no_meaning("no vendor client is used; the job's log is always written", False)
    """logging of the client"""
    log_table = no_meaning("values of rows are never logged")
    """table whose rows are logged"""
    case_sensitive = no_meaning("names are used exactly as written, in quotes", False)
    """whether names are case-sensitive"""
    unique_keys = no_meaning("the key is the source's primary key, the only columns of a delete's record")
    """columns of the key"""
    compare_field = no_meaning("the order of the binlog determines which change is newer")
    """column that determines which row is newer"""


SINK_OPTIONS = section(_SinkOptions, of=defaults(SinkOptions))


class Conflict(NamedTuple):
    """A contradiction between two settings."""

    key: str
    """The key that the error names."""
    says: str
    """The error text after the name of the table."""
    hint: str


_Perhaps = tuple[bool, str, str, str]
"""Whether there is a conflict, followed by the fields of `Conflict`."""


def conflict(options: SinkOptions, sets: Collection[str], creates: bool, on_existing: str = "merge") -> Conflict | None:
    """Return the first conflict between options, or between an option and a target that is created or contains rows.

    `sets` contains the keys that are set in the file.
    """
    mode = f'write_mode = "{options.write_mode}"'
    two_ages = {"connection_max_use_time_seconds", "connection_max_use_time_threshold"} <= set(sets)
    found = (
        (
            two_ages,
            "connection_max_use_time_threshold",
            " sets connection_max_use_time_seconds and _threshold, two keys for one setting",
            "set only one of them",
        ),
        (
            "copy_write_batch_size" in sets and options.write_mode not in ("auto", "update_auto"),
            "copy_write_batch_size",
            f".copy_write_batch_size has no effect with {mode}",
            "only auto and update_auto use it",
        ),
        (
            options.ignore_null_when_update and options.conflict_strategy != "update",
            "ignore_null_when_update",
            '.ignore_null_when_update needs conflict_strategy = "update"',
            "the other strategies do not set single columns",
        ),
        *_of_update_only(options, mode, creates, on_existing),
        *_of_quarantine(options, mode, sets),
    )
    return next((Conflict(key, says, hint) for wrong, key, says, hint in found if wrong), None)


def _of_update_only(options: SinkOptions, mode: str, creates: bool, on_existing: str) -> Iterator[_Perhaps]:
    """Yield the conflicts of an update-only mode, which needs existing target rows and options that can change them."""
    for wrong, what, hint in (
        (
            options.conflict_strategy == "ignore",
            'and conflict_strategy = "ignore" write nothing',
            "use update or replace",
        ),
        (
            not options.ignore_update_before,
            "and ignore_update_before = false delete each changed row and do not rewrite it",
            "remove ignore_update_before",
        ),
        (on_existing != "merge", "only updates existing target rows", 'set on_existing = "merge"'),
        (creates, "only updates existing target rows, and a new target has none", "remove create_target"),
    ):
        yield options.updates_only and wrong, "write_mode", f": {mode} {what}", hint


def _of_quarantine(options: SinkOptions, mode: str, sets: Collection[str]) -> Iterator[_Perhaps]:
    """Yield the conflicts of quarantine: a later change replaces a quarantined row and must contain all its values."""
    alone = not options.quarantines and "quarantine_limit" in sets
    what = '.quarantine_limit has no effect with on_bad_row = "stop"'
    yield alone, "quarantine_limit", what, 'set on_bad_row = "quarantine"'
    hint = "a replayed row would differ from one that was applied in order; set only one of the two"
    for wrong, what in (
        (options.conflict_strategy == "ignore", 'conflict_strategy = "ignore": a later change does not write the row'),
        (options.ignore_null_when_update, "ignore_null_when_update: a later change does not write every column"),
        (options.updates_only, f"{mode}: a later change does not create the row"),
        (not options.ignore_update_before, "ignore_update_before = false: an update would be a delete and an insert"),
    ):
        yield options.quarantines and wrong, "on_bad_row", f'.on_bad_row = "quarantine" with {what}', hint


NEWER = "dws"
"""Prefix of the connector's 2.x names."""
NEWER_NAMES = {
    "dws.client.jdbc.url": "host, port and database of [sinks.X]",
    "dws.client.jdbc.username": "user of [sinks.X]",
    "dws.client.jdbc.password": "password_file, password_env or password_command of [sinks.X]",
    "dws.client.jdbc.max.use-time": "connection_max_use_time_seconds",
    "dws.client.jdbc.max.idle": "nothing: a lane's session stays open while its worker runs",
    "dws.client.write.mode": "write_mode",
    "dws.client.write.auto-flush-size": "auto_flush_batch_size",
    "dws.client.write.auto-flush-max-interval": "auto_flush_max_interval",
    "dws.client.write.use-copy-size": "copy_write_batch_size",
    "dws.client.write.force-flush-size": "nothing: rows are not buffered in memory",
    "dws.client.write.thread-size": "connection_size",
    "dws.client.write.partition-policy": "nothing: each DN is a lane with one writer",
    "dws.client.write.partition-min": "nothing: each DN is a lane with one writer",
    "dws.client.write.partition-max": "nothing: each DN is a lane with one writer",
    "dws.client.write.buffer.all-max-bytes": "nothing: rows are not buffered in memory",
    "dws.client.write.buffer.table-max-bytes": "nothing: rows are not buffered in memory",
    "dws.client.write.buffer.partition-max-bytes": "nothing: rows are not buffered in memory",
    "dws.client.retry.max-times": "max_flush_retry_times",
    "dws.client.retry.sleep-base-time": "wait_initial in [jobs.X.retry]",
    "dws.client.retry.sleep-random-time": "wait_jitter in [jobs.X.retry]",
    "dws.client.timeout.task": "nothing: a step has the limits of its session on the sink",
    "dws.client.timeout.statement": "nothing: a step has the limits of its session on the sink",
}
"""The connector's 2.x names, which are not accepted, each with the corresponding key here, or "nothing" and why."""
