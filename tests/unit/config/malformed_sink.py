"""Sink parameters and channels that must be rejected."""

from __future__ import annotations

from slotkeeper.core.config.keys_sink import NEWER_NAMES, SINK_OPTIONS
from tests.unit.config.cases import Case
from tests.unit.config.malformed import CHANNEL_END, JOB, OPTIONS
from tests.unit.config.samples import VALID, added, changed

MERGING = VALID.replace(f"[{JOB}]\n", f'[{JOB}]\non_existing = "merge"\n')


def _options(name: str, lines: str, *says: str) -> Case:
    return Case(name, added(OPTIONS, lines), says)


def _merging(name: str, lines: str, *says: str) -> Case:
    return Case(name, MERGING.replace(f"[{OPTIONS}]\n", f"[{OPTIONS}]\n{lines}\n"), says)


_MEANINGLESS = [
    _options(f"no meaning: {key.name}", f"{key.name} = 1", f"{key.name} does not apply here: {key.because}", "remove")
    for key in SINK_OPTIONS.values()
    if key.because
]

_NEWER = [
    _options(f"2.x name: {name}", f'"{name}" = 1', f"{name} in [{OPTIONS}] is a key of connector 2.x", instead)
    for name, instead in NEWER_NAMES.items()
]

SINK_CASES = [
    *_MEANINGLESS,
    *_NEWER,
    _options(
        "2.x name with its dots as tables", 'dws.client.write.mode = "auto"', "dws.client.write.mode", "write_mode"
    ),
    _options("unknown 2.x name", '"dws.client.x" = 1', "dws.client.x", "the 1.x name"),
    _options("bad rows skipped", 'on_bad_row = "skip"', "on_bad_row must be", '"quarantine"'),
    _options("no room", 'on_bad_row = "quarantine"\nquarantine_limit = 0', "quarantine_limit must be from 1"),
    _options("room for none", "quarantine_limit = 5", "no effect with on_bad_row", 'set on_bad_row = "quarantine"'),
    _options(
        "held, and rows kept",
        'on_bad_row = "quarantine"\nconflict_strategy = "ignore"',
        'on_bad_row = "quarantine" with conflict_strategy = "ignore"',
        "set only one",
    ),
    _options(
        "held, and nulls ignored",
        'on_bad_row = "quarantine"\nignore_null_when_update = true',
        "with ignore_null_when_update: a later change does not write every column",
    ),
    _options(
        "held, and updates as deletes",
        'on_bad_row = "quarantine"\nignore_update_before = false',
        "with ignore_update_before = false",
    ),
    _merging(
        "held, and only updated",
        'on_bad_row = "quarantine"\nwrite_mode = "update"',
        'with write_mode = "update": a later change does not create the row',
    ),
    _options("write mode unknown", 'write_mode = "insert"', "write_mode must be", '"copy_merge"', '"update_auto"'),
    _options("write mode in capitals", 'write_mode = "UPSERT"', "write_mode must be", '"upsert"'),
    _options("strategy unknown", 'conflict_strategy = "overwrite"', "conflict_strategy must be", '"replace"'),
    _options("two connections", "connection_size = 2", "connection_size must be 1", "changes to each key"),
    _options("no connection", "connection_size = 0", "connection_size must be 1"),
    _options("connection size true", "connection_size = true", "connection_size must be 1"),
    _options("no age", "connection_max_use_time_seconds = 0", "must be from 1 to 31536000"),
    _options(
        "two ages",
        "connection_max_use_time_seconds = 5\nconnection_max_use_time_threshold = 5",
        "two keys for one setting",
        "set only one",
    ),
    _options("no copy size", "copy_write_batch_size = 0", "must be from 1"),
    _options(
        "copy size without a choice",
        'write_mode = "upsert"\ncopy_write_batch_size = 100',
        'copy_write_batch_size has no effect with write_mode = "upsert"',
        "auto and update_auto",
    ),
    _options(
        "nulls ignored under replace",
        'conflict_strategy = "replace"\nignore_null_when_update = true',
        'ignore_null_when_update needs conflict_strategy = "update"',
    ),
    _options("update only over nothing", 'write_mode = "update"', 'set on_existing = "merge"'),
    _merging(
        "update only that ignores",
        'write_mode = "copy_update"\nconflict_strategy = "ignore"',
        'write_mode = "copy_update" and conflict_strategy = "ignore" write nothing',
    ),
    _merging(
        "update only that deletes",
        'write_mode = "update_auto"\nignore_update_before = false',
        "delete each changed row and do not rewrite it",
    ),
    Case(
        "update only into a new table",
        MERGING.replace(f"[{OPTIONS}]\n", f'[{OPTIONS}]\nwrite_mode = "update"\n').replace(
            CHANNEL_END, CHANNEL_END + "\ncreate_target = true"
        ),
        ("a new target has none", "remove create_target"),
    ),
    Case(
        "old images wanted that the source leaves out",
        added(OPTIONS, "ignore_update_before = false")
        .replace("binlog = true\n", "binlog = true\nbinlog_ignore_update_before = true\n")
        .replace(CHANNEL_END, CHANNEL_END + "\nkeys_never_change = true"),
        ("ignore_update_before = false has no effect", "set only one of them"),
    ),
]


def _channel(name: str, lines: str, *says: str) -> Case:
    return Case(name, changed(CHANNEL_END, f"{CHANNEL_END}\n{lines}"), says)


CHANNEL_CASES = [
    _channel("columns a list", 'columns = ["id"]', "columns must be a table"),
    _channel("no column", "columns = {}", "columns must name at least one column"),
    _channel("column a number", "columns = { id = 1 }", "columns must be a table"),
    _channel("one target twice", 'columns = { id = "a", v = "a" }', "map two columns to one"),
    _channel("long column", f'columns = {{ id = "{"x" * 64}" }}', "at most 63 bytes"),
    _channel("empty column", 'columns = { id = "" }', "must not be empty"),
    _channel("column with a line end", 'columns = { id = "a\\nb" }', "control characters"),
    _channel("where a number", "where = 5", "where must be text"),
    _channel("where empty", 'where = " "', "where must not be empty"),
    _channel("where of two statements", 'where = "true; DROP TABLE x"', "one condition", "no ;"),
    _channel("where with a comment", 'where = "true -- x"', "no comment"),
    _channel("where with a block comment", 'where = "true /* x */"', "no comment"),
    _channel("where that closes", 'where = "a) OR (b"', "parentheses"),
    _channel("where that stays open", 'where = "(a"', "parentheses"),
    _channel("where with an open quote", 'where = "a = \'x"', "quote"),
    _channel("where with a question", 'where = "id IN (SELECT 1)"', "the row's own columns", "select"),
    _channel("where with a clock", 'where = "at > now()"', "the row's own columns", "now"),
    _channel("where with a date", 'where = "at > CURRENT_DATE"', "the row's own columns", "current_date"),
    _channel("where with another string", """where = "a = E'x'\"""", "plain strings"),
    _channel("where with a time that moves", """where = "at > 'now'\"""", "current time", "::text"),
    _channel("where with an effect", """where = "setval('s', 1) > 0\"""", "without setval", "can call"),
    _channel("where with a table", 'where = "id IN (TABLE x)"', "the row's own columns", "table"),
    _channel("where with chance", 'where = "random() < 0.5"', "the row's own columns", "random"),
    Case(
        "target in quotes",
        changed('into = "mart.orders"', "into = 'mart.\"Orders\"'"),
        ("exactly as written", "quotes"),
    ),
    Case(
        "target schema in quotes", changed('into = "mart.orders"', "into = '\"Mart\".orders'"), ("exactly as written",)
    ),
    Case("target without schema", changed('into = "mart.orders"', 'into = "orders"'), ("schema.table",)),
    Case("target without table", changed('into = "mart.orders"', 'into = "mart."'), ("schema.table",)),
    Case("target too long", changed('into = "mart.orders"', f'into = "mart.{"x" * 64}"'), ("at most 63 bytes",)),
    Case("target with a line end", changed('into = "mart.orders"', 'into = "mart.a\\nb"'), ("control characters",)),
]
