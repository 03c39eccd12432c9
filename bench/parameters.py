"""The page `docs/parameters.md`, generated from the model so that it always agrees with the program."""

from __future__ import annotations

from collections.abc import Mapping

from bench.columns import wrapped
from slotkeeper.core.codec import attribute_texts
from slotkeeper.core.config import keys
from slotkeeper.core.config.keys import REQUIRED, Key, Section
from slotkeeper.core.config.keys_sink import NEWER_NAMES, SINK_OPTIONS
from slotkeeper.core.config.keys_source import BINLOG, HOLOGRES, OWN, SYNC
from slotkeeper.core.config.values import show_duration

TABLES: tuple[tuple[str, Section], ...] = (
    ("[sources.X]", keys.SOURCE),
    ("[sinks.X]", keys.SINK),
    ("[jobs.X]", keys.JOB),
    ("[[jobs.X.channels]]", keys.CHANNEL),
    ("[jobs.X.binlog]", BINLOG),
    ("[jobs.X.sink_options]", SINK_OPTIONS),
    ("[jobs.X.sync]", SYNC),
    ("[[jobs.X.views]]", keys.VIEW),
    ("[jobs.X.rounds]", keys.ROUNDS),
    ("[jobs.X.retry]", keys.RETRY),
    ("[jobs.X.spark]", keys.SPARK),
    ("[logging]", keys.LOGGING),
    ("[state]", keys.STATE),
    ("[console]", keys.CONSOLE),
    ("[alerts]", keys.ALERTS),
    ("[access]", keys.ACCESS),
    ("[[access.rules]]", keys.RULE),
    ("[hosts]", keys.HOSTS),
)
"""Every table of a configuration, in the order of the page and of `config.example.toml`."""

_EFFECTS = "tests/integration/test_binlog_parameters.py"
_CHANNEL = "tests/integration/test_channels.py::"
_RETRY = "tests/unit/test_retry.py"
_FLUSH = "tests/unit/engine/test_flush.py::"
_QUARANTINE = "tests/contract/test_quarantine.py::"
_OF_TEST = {
    "tests/integration/test_tls.py": "sslmode sslrootcert sslcert sslkey sslpassword_file",
    "tests/integration/test_dws_sink.py::test_kind_dws_mirrors_without_what_dws_refuses": "kind",
    "tests/integration/test_starts.py": "start binlog_start_time",
    "tests/fault/test_schema_changes.py::test_a_job_that_may_alters_its_target_and_copies_again": "on_schema_change",
    _CHANNEL + "test_columns_are_mapped_and_others_left_alone": "from columns",
    _CHANNEL + "test_into_takes_names_as_they_are_written": "into",
    _CHANNEL + "test_create_target_makes_the_mapped_columns": "create_target",
    _CHANNEL + "test_where_is_asked_of_the_row_as_it_is": "where",
    f"{_EFFECTS}::test_a_changed_key_would_leave_its_old_row_behind": "keys_never_change",
    "tests/fault/test_many_into_one.py::test_a_constant_makes_a_part_of_the_target": "constant",
    "tests/fault/test_soft_delete.py::test_deleted_rows_are_marked_through_kills_and_a_new_snapshot": (
        "soft_delete synced_at"
    ),
    "tests/fault/test_computed_columns.py"
    "::test_computed_columns_have_the_answers_of_a_server_and_raw_values_are_nowhere": "compute salt_file",
    "tests/unit/config/test_added_columns.py::test_the_columns_of_a_channel_are_read_and_shown": "salt_env",
    "tests/fault/test_copy_limit.py": "copy_rows_per_second copy_bytes_per_second",
    "tests/contract/test_mysql_inventory.py"
    "::test_a_foreign_key_with_cascades_is_refused_by_name_unless_it_is_allowed": "cascades",
    "tests/integration/test_views.py": "sql key lookup method delta_rows_max",
    "tests/fault/test_views.py": "min_interval",
    "tests/integration/test_patterns.py"
    "::test_a_table_with_its_own_channel_is_that_channel_s_and_exclusions_are_left_out": "except",
    _RETRY: "wait_initial wait_max wait_jitter give_up_after binlog_max_retry_times binlog_retry_interval",
    "tests/spark/test_clusters.py::test_a_standalone_cluster_mirrors_through_the_kill_of_an_executor": (
        "master secret_file python"
    ),
    "tests/unit/alerts/test_limits.py": (
        "lag_warning lag_critical stuck_critical silent_warning silent_critical crashes disk_free verify_age"
    ),
    "tests/unit/alerts/test_rules.py": "gap",
    "tests/integration/test_alert_command.py": "command command_timeout",
    "tests/integration/test_alerting.py": "metrics_file",
    "tests/unit/launch/test_access.py": "read_only second_account rules users groups jobs allow",
    _EFFECTS: (
        "binlog binlog_slot_name binlog_batch_read_size full_sync_binlog_batch_read_size binlog_read_timeout"
        " full_sync_binlog_read_timeout binlog_sleep_time binlog_max_sleep_time new_system_value"
        " connection_socket_timeout binlog_sync_point_size connection_pool_size binlog_ignore_update_before"
    ),
    "tests/fault/test_fairness.py": "binlog_parallel_num",
    "tests/fault/test_topology_rules.py": "need_redistribution check_node_change_interval",
    "tests/integration/test_hologres_by_stream.py": "read_by enable_compression",
    "tests/integration/test_hologres_parameters.py": " ".join(OWN.keys() - {"read_by", "enable_compression"}),
    "tests/unit/config/test_mysql_keys.py": "sync_commit_interval_second min_sync_commit_size",
    "tests/unit/sources/mysql/test_thresholds.py": "min_bytes_sync_commit max_bytes_sync_commit stream_read_timeout",
    _FLUSH + "test_auto_flush_batch_size_ends_a_step": "auto_flush_batch_size",
    _FLUSH + "test_auto_flush_max_interval_ends_a_step": "auto_flush_max_interval",
    f"{_RETRY}::test_max_flush_retry_times_bounds_the_quick_series": "max_flush_retry_times",
    _QUARANTINE + "test_on_bad_row_decides_whether_one_bad_row_ends_it_all": "on_bad_row",
    _QUARANTINE + "test_quarantine_limit_rolls_the_step_back_and_says_what_the_last_one_was": "quarantine_limit",
}
TESTED: Mapping[str, str] = {
    **{name: f"tests/contract/test_sink_options.py::test_{name}" for name in SINK_OPTIONS},
    **{name: test for test, names in _OF_TEST.items() for name in names.split()},
}
"""The test of each key's effect, by the key's name; `READING` tests how every key is parsed, and its limits."""
READING = "tests/unit/config"

_INTRODUCTION = """\
# Parameters

This page lists every configuration key with its default, its unit, its meaning, and the test of its
effect. It is generated from the model (`core/config/keys.py`, `keys_source.py`, `keys_sink.py`), and a
test checks that both agree.

- Durations: `"500ms"`, `"5s"`, `"10m"`, `"1h"`, `"1d"`. A number without a unit is in the unit given
  in the table, which is the vendor's.
- Memory sizes: `"512MiB"`, `"512m"`, `"1g"`. A number without a unit is in MiB.
- *Documented name* is the vendor's name. Write the key as given here: the camelCase name is rejected
  with an error that gives the right name.
- *Test*: `tests/unit/config` tests how a key is parsed, and its limits. Any other file tests the effect
  of the key.
- *Does not apply here*: the key is recognized, but it is rejected with an error that names it, even with
  its default value.
- Environment variables override the file (`SLOTKEEPER_SOURCES__DWS1__HOST`,
  `SLOTKEEPER_JOBS__ORDERS_RT__BINLOG__BINLOG_SLEEP_TIME`, `SLOTKEEPER_STATE__DIR`), and command-line
  options override both. `slotkeeper config show --origin` shows the origin of each value.
- If the tables of a job contain an error, only that job is rejected; the other jobs in the file
  continue. `slotkeeper config check` names every rejected job and exits with 2, as does any command on
  such a job. `jobs list`, `status` and `doctor` show the error.
- The parameters of the sink are in `[jobs.X.sink_options]`, because the key `sink` in `[jobs.X]` is the
  name of the sink.
"""


_LINE = """
- An `sslmode` weaker than `verify-full` causes a warning if the server is on another host. In a job
  whose source is PROD, it is an error for each of the job's servers, unless `sslmode` is set explicitly.
  [Security](security.md) describes what each mode leaves unprotected.
- Only these keys determine the server and the security of the connection. `PG...` variables, service
  files, `.pgpass` and the files in `~/.postgresql` are ignored. The files named by these keys are read
  on the host that connects, which can be a Spark worker.
"""
_DORIS = "A sink of kind `doris` has `host`, `user`, the password keys, and these instead of the other keys:\n\n"
_HOLOGRES = (
    "### `[jobs.X.binlog]` of a hologres source\n",
    "A hologres source accepts these of the keys above: "
    + ", ".join(f"`{name}`" for name in HOLOGRES if name not in OWN)
    + ". It also accepts the keys of its own client and connector:\n",
)


def _more() -> Mapping[str, tuple[str, ...]]:
    """Return the paragraphs that follow a table of the page, by the table's title."""
    return {
        "[sinks.X]": (
            _DORIS
            + "".join(
                f"- `{name}`: {meaning(key)}"
                + ("\n" if key.default in (None, REQUIRED) else f" (default {key.default})\n")
                for name, key in keys.DORIS.keys.items()
                if not name.startswith("password_") and name not in ("host", "user", "connect_timeout")
            ),
        ),
        "[sources.X]": (
            _LINE.lstrip(),
            "A source of kind `mysql` has these keys except `database`; its default `port` is 3306. Instead of\n"
            '`host` and `port`, it can have `hosts`: a list of servers, as `"host"` or `"host:port"`, that are\n'
            "tried in this order ([another server](mysql.md#another-server)). The keys of canal, with which\n"
            "Doris Binlog Load reads MySQL, are rejected with an error that names them:\n\n"
            + "".join(f"- `{name}` ({meaning}): {because}\n" for name, meaning, because in keys.CANAL),
        ),
        "[jobs.X.sync]": (
            "These keys apply only to a source of kind `mysql`. Names and defaults are those of Doris Binlog\n"
            "Load, except `stream_read_timeout`, which is specific to Slotkeeper.\n",
        ),
        "[[jobs.X.channels]]": (
            "Write one of these for each source table. Each source table and each target can appear only once in\n"
            "a job. All channels of a job have the job's slot name, start and options.\n",
        ),
    }


def page() -> str:
    """Return the whole page."""
    parts, more = [_INTRODUCTION], _more()
    for title, section in TABLES:
        parts.append(f"## `{title}`\n")
        parts.append(_table(section) if section else "This table has no keys yet.\n")
        parts.extend(more.get(title, ()))
        if section is BINLOG:
            parts += [*_HOLOGRES, _table(OWN)]
    parts.append("## Names in version 2.x of the sink connector\n")
    parts.append("These names are rejected. Use these instead:\n")
    parts.append("".join(f"- `{name}`: {instead}\n" for name, instead in NEWER_NAMES.items()))
    parts.append("## Spark settings that are allowed in `[jobs.X.spark] settings`\n")
    noted = sorted({**keys.SPARK_SETTINGS, **keys.SPARK_GROUPS}.items())
    parts.append("".join(f"- `{name}`{': ' + note if note else ''}\n" for name, note in noted))
    return wrapped("\n".join(parts))


def _table(section: Section) -> str:
    lines = ["| key | documented name | default | unit | meaning | test |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [_row(key) for key in section.values()]
    return "\n".join(lines) + "\n"


def _row(key: Key) -> str:
    documented = f"`{key.documented}`" if key.documented else ""
    test = f"does not apply here: {key.because}" if key.because else f"`{its_test(key)}`"
    return f"| `{key.name}` | {documented} | {spelled_default(key)} | {key.unit} | {meaning(key)} | {test} |"


def meaning(key: Key) -> str:
    """Return the meaning of a key: the attribute docstring below its field."""
    texts = attribute_texts(key.table)
    return texts.get(key.name) or texts[f"{key.name}_"]


def its_test(key: Key) -> str:
    """Return the test of a key's effect, or of how it is parsed; empty for a key that cannot be set."""
    return "" if key.because else TESTED.get(key.name, READING)


def spelled_default(key: Key) -> str:
    """Return the default as written in the file; in the vendor's unit if the key is the vendor's."""
    if key.default is REQUIRED:
        return "required"
    if key.default is None:
        return "not set"
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    if isinstance(key.default, int) and key.default and key.unit == "ms":
        time = show_duration(key.default)
        return f"`{key.default}` ({time})" if key.documented else f'`"{time}"`'
    return f'`"{key.default}"`' if isinstance(key.default, str) else f"`{key.default}`"
