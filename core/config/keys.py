"""Every key that a configuration may hold: name, reader, default, meaning and the vendor's own name.

This table is the model: the checker, `config show`, `docs/parameters.md` and the test of `config.example.toml` all
read it, so that a key cannot exist in one of them only. Parameters that are documented by the vendor and not built
are here too, marked `later`: they are refused by name, never accepted in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slotkeeper.core.config import values
from slotkeeper.core.config.values import Reader
from slotkeeper.core.domain.endpoint import MODES, SAFEST
from slotkeeper.core.domain.spec import CASCADES, ON_SCHEMA_CHANGE, STOP
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources


class _Required:
    """Marks a key without a default."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()
MODEL = "tests/unit/config"
"""Where is tested how a key is read, and its limits."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table."""

    name: str
    meaning: str
    read: Reader | None = None
    default: object = None
    """As it is written in a file, REQUIRED, or None where nothing applies when it is not set."""
    unit: str = ""
    documented: str = ""
    """The vendor's name."""
    tested: str = MODEL
    """Where its effect is tested."""
    private: bool = False
    """Keep its value out of every message."""
    because: str = ""
    """Why it has no meaning here; such a key is rejected with this reason."""

    @property
    def refused(self) -> bool:
        """Whether the key may not be set at all."""
        return bool(self.because)


Section = Mapping[str, Key]


def section(*keys: Key) -> Section:
    """Keys by name, in the order in which they are documented."""
    return {key.name: key for key in keys}


def no_meaning(documented: str, default: object, unit: str, meaning: str, because: str) -> Key:
    """A parameter of the vendor that has nothing to act on here; refused by name with the reason."""
    name = snake(documented)
    return Key(name, meaning, default=default, unit=unit, documented=documented, tested="", because=because)


def vendor(documented: str, meaning: str, read: Reader, default: object, tested: str, unit: str = "") -> Key:
    """A parameter of the vendor, under its own name in snake_case."""
    return Key(snake(documented), meaning, read, default, unit, documented, tested)


def snake(name: str) -> str:
    """The snake_case spelling of a camelCase name.

    >>> snake("binlogBatchReadSize"), snake("sink.parallelism")
    ('binlog_batch_read_size', 'sink_parallelism')
    """
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).replace(".", "_").lower()


_SHAPES = "tests/fault/test_schema_changes.py::test_a_job_that_may_alters_its_target_and_copies_again"
_CHANNEL = "tests/integration/test_channels.py::"
_RETRY = "tests/unit/test_retry.py"
_TLS = "tests/integration/test_tls.py"
_DORIS = "tests/unit/config/test_doris_keys.py"
_DORIS_TLS = "tests/integration/test_doris_tls.py"
_LIMITS = "tests/unit/alerts/test_limits.py"
_GAP = "tests/unit/alerts/test_rules.py"
_ALERT_COMMAND = "tests/integration/test_alert_command.py"
_CLUSTER = "tests/spark/test_clusters.py::test_a_standalone_cluster_mirrors_through_the_kill_of_an_executor"

_SERVER = (
    Key("host", "host name, address, or folder of a Unix socket", values.host, REQUIRED),
    Key("port", "TCP port (a DWS listens on 8000, a Hologres on 80)", values.whole(1, 65_535), REQUIRED),
    Key("database", "database to connect to", values.text(63), REQUIRED),
    Key("user", "role to log in as", values.text(63), REQUIRED),
    Key(
        "password_file",
        "file that holds the password; relative to this file's folder; one newline at its end is dropped",
        values.text(4096),
    ),
    Key("password_env", "environment variable that holds the password", values.env_name),
    Key(
        "password_command",
        "command that prints the password; run without a shell, at most 10 s",
        values.text(4096),
        private=True,
    ),
    Key(
        "sslmode",
        f"how far TLS is insisted on: {', '.join(MODES[:-1])} or {SAFEST}, the one that is safe; not set: require,"
        " for a host that is this machine prefer; a job of PROD needs it written where it is not the safe one",
        values.choice(*MODES),
        tested=_TLS,
    ),
    Key(
        "sslrootcert",
        "file with the certificate of the authority that the server's is of; relative to this file's folder",
        values.authority,
        tested=_TLS,
    ),
    Key("sslcert", "file with a client's certificate, on each host that connects", values.text(4096), tested=_TLS),
    Key("sslkey", "file with its key, of mode 0600", values.text(4096), tested=_TLS),
    Key("sslpassword_file", "file that holds the password of an encrypted key", values.text(4096), tested=_TLS),
    Key("sslpassword_env", "environment variable that holds it", values.env_name),
    Key("sslpassword_command", "command that prints it; run as password_command", values.text(4096), private=True),
    Key("connect_timeout", "limit of one try to connect", values.duration(2_000, 300_000), "10s", "ms"),
)


CANAL: tuple[tuple[str, str, str], ...] = (
    ("canal.server.ip", "host of the canal server", "there is no canal: host is the MySQL server's"),
    ("canal.server.port", "port of the canal server", "there is no canal: port is the MySQL server's"),
    ("canal.destination", "canal's name of the source", "the job's slot is the name of its positions"),
    ("canal.username", "login at canal", "user is the login at the MySQL server"),
    ("canal.password", "its password", "secrets only by reference: password_file, password_env, password_command"),
    ("canal.batchSize", "most entries of a batch (8192)", "ranges end with transactions: see [jobs.X.sync]"),
    ("canal.debug", "print every row", "`slotkeeper slots peek` shows rows of the binlog, masked where it is PROD"),
    ("canal.ip", "host of the canal server", "there is no canal"),
    ("canal.port", "port of the canal server", "there is no canal"),
    ("canal.instance.mysql.slaveId", "canal's server_id", "a reader's server_id is made of source, slot and table"),
    ("canal.instance.master.address", "the MySQL server", "host and port name it"),
    ("canal.instance.dbUsername", "login at the MySQL server", "user is that login"),
    ("canal.instance.dbPassword", "its password", "secrets only by reference: password_file, password_env"),
    (
        "canal.instance.memory.buffer.size",
        "events that canal keeps (16384)",
        "no buffer bounds a transaction: what waits beyond 8 MiB waits in a file",
    ),
    ("canal.instance.memory.buffer.memunit", "bytes of an event in it (1024)", "the same"),
)
"""(name, meaning, what stands in its place here) of the keys of canal, through which Doris Binlog Load reads a MySQL.

Names and meanings are those of Doris, "Binlog Load", "CANAL configuration".
"""


@dataclass(frozen=True, slots=True)
class KindKeys:
    """The keys that say where a kind of server is, and what they are of an `Endpoint`."""

    keys: Section
    endpoint: Callable[[Mapping[str, Any]], dict[str, Any]]


def _server(given: Mapping[str, Any]) -> dict[str, Any]:
    names = ("host", "port", "database", "user")
    return {name: given[name] for name in names} | {"connect_timeout_ms": given["connect_timeout"]}


def _mysql(given: Mapping[str, Any]) -> dict[str, Any]:
    names = ("host", "port", "user")
    return {name: given[name] for name in names} | {"database": "", "connect_timeout_ms": given["connect_timeout"]}


SERVER = KindKeys(section(*_SERVER), _server)
MYSQL = KindKeys(
    section(
        Key("host", "host name or address", values.host, REQUIRED),
        Key("port", "its port", values.whole(1, 65_535), 3306),
        *(one for one in _SERVER if one.name not in ("host", "port", "database")),
        *(Key(snake(name), meaning, documented=name, tested="", because=because) for name, meaning, because in CANAL),
    ),
    _mysql,
)
_PASSWORD = tuple(one for one in _SERVER if one.name.startswith("password_"))
_CONNECT = next(one for one in _SERVER if one.name == "connect_timeout")


def _doris(given: Mapping[str, Any]) -> dict[str, Any]:
    names = ("host", "port", "http_port", "user", "compression")
    where = f"{given['host']}:{given['http_port']}"
    more = {"database": where, "backends": given["backends"] or (), "connect_timeout_ms": given["connect_timeout"]}
    return {name: given[name] for name in names} | more


DORIS = KindKeys(
    section(
        Key("host", "host name or address of the FE", values.host, REQUIRED, tested=_DORIS),
        Key("port", "its port for queries (query_port)", values.whole(1, 65_535), 9030, tested=_DORIS),
        Key("http_port", "its port for loads (http_port)", values.whole(1, 65_535), 8030, tested=_DORIS),
        Key("user", "user to log in as", values.text(63), REQUIRED),
        *_PASSWORD,
        Key(
            "backends",
            'further hosts to which the FE may send a load, and so the password, as "host" or "host:port"; '
            "the FE's own host always may. Without a port: the HttpPort of SHOW BACKENDS; 8040 where this login may "
            "not see it",
            values.hosts,
            tested=_DORIS,
        ),
        Key(
            "sslmode",
            "how far TLS is insisted on, for loads and queries alike: disable, require, verify-ca or verify-full",
            values.choice("disable", "require", "verify-ca", SAFEST),
            SAFEST,
            tested=_DORIS_TLS,
        ),
        Key(
            "sslrootcert",
            "file with the certificate of the authority that those of FE and BE are of; not set: the system's"
            " authorities; relative to this file's folder",
            values.authority,
            tested=_DORIS_TLS,
        ),
        Key(
            "compression",
            "how loads are packed: none, or gzip, which a BE takes for JSON from 3.0.5 on",
            values.choice("none", "gzip"),
            "none",
            tested=_DORIS,
        ),
        _CONNECT,
    ),
    _doris,
)
SERVERS = {"server": SERVER, "mysql": MYSQL, "doris": DORIS}
"""What says where a server is, by the name that the traits of its kind have (`server_keys`)."""

SOURCE = section(
    Key(
        "dialect",
        "what kind of source: dws, mysql, hologres, or hologres_slot, which is one whose server keeps the position of a"
        " slot, as versions before 2.1 do where they stream",
        values.one_of(sources.KINDS),
        REQUIRED,
    ),
    *_SERVER,
    Key("environment", "a label that screens show, such as PROD", values.text(16)),
)

SINK = section(
    Key(
        "kind",
        "what kind of sink: postgres; dws, whose statements are tried on PostgreSQL only; doris or hologres, which are"
        " tried on a stand-in only",
        values.one_of(sinks.KINDS),
        REQUIRED,
        tested="tests/integration/test_dws_sink.py::test_kind_dws_mirrors_without_what_a_dws_refuses",
    ),
    *_SERVER,
    Key(
        "progress_schema",
        "schema of slotkeeper_progress, slotkeeper_chunks and slotkeeper_quarantine",
        values.identifier,
        "public",
    ),
    Key(
        "progress_store",
        "name of the [sinks.X] that keeps the progress rows of one that keeps none itself: a doris or a hologres needs"
        " one",
        values.text(values.NAME_MAX),
    ),
)


def at(section: Section, server: KindKeys) -> Section:
    """The keys of a `[sources.X]` or `[sinks.X]` that says by these where it is."""
    if server is SERVER:
        return section
    return {name: key for name, key in section.items() if name not in SERVER.keys} | dict(server.keys)


JOB = section(
    Key("source", "name of a [sources.X]", values.text(values.NAME_MAX), REQUIRED),
    Key("sink", "name of a [sinks.X]", values.text(values.NAME_MAX), REQUIRED),
    Key("slot", "slot of the source table; default: the job's name", values.slot),
    Key(
        "start",
        "where a new job starts: `initial` (a copy), `latest`, `earliest` (of a hologres), a time with its offset, or a"
        " point for each DN",
        values.start,
        "initial",
        tested="tests/integration/test_starts.py",
    ),
    Key(
        "on_existing",
        "what a copy does with a target that is not empty",
        values.choice("refuse", "replace", "merge"),
        "refuse",
    ),
    Key(
        "on_schema_change",
        "a source table with other columns: `stop` names the statements for the target and the reset; `resnapshot` runs"
        " them and copies the table again",
        values.choice(*ON_SCHEMA_CHANGE),
        STOP,
        tested=_SHAPES,
    ),
    Key(
        "wait",
        "limit of the wait for transactions that were open when the slot was created",
        values.duration(0, values.DAY),
        "10m",
        "ms",
    ),
)

CHANNEL = section(
    Key(
        "from",
        "source table, schema.table; any name without a period or a double quote, as it is written",
        values.table,
        REQUIRED,
        tested=_CHANNEL + "test_columns_are_mapped_and_others_left_alone",
    ),
    Key(
        "into",
        "target table, schema.table; names are taken as they are written, the first dot parts them; "
        "none of `slotkeeper_...` or `...__slotkeeper_copy`",
        values.target,
        REQUIRED,
        tested=_CHANNEL + "test_into_takes_names_as_they_are_written",
    ),
    Key(
        "create_target",
        "make the target table where a copy begins and finds none: the mirrored columns with their types (a domain's"
        " base), the collations that the sink knows, NOT NULL, and the key; no identities, generated columns, defaults"
        " or other constraints",
        values.boolean,
        False,
        tested=_CHANNEL + "test_create_target_makes_the_mapped_columns",
    ),
    Key(
        "columns",
        "source column = target column; only these are mirrored, the key's among them; not set: all, by name",
        values.mapping,
        tested=_CHANNEL + "test_columns_are_mapped_and_others_left_alone",
    ),
    Key(
        "where",
        "row filter: a condition over the source's columns, asked of each row as it is after a change",
        values.row_filter,
        tested=_CHANNEL + "test_where_is_asked_of_the_row_as_it_is",
    ),
    Key(
        "keys_never_change",
        "promise that no primary key is ever updated; `binlog_ignore_update_before` needs it",
        values.boolean,
        False,
        tested="tests/integration/test_binlog_parameters.py::test_a_changed_key_would_leave_its_old_row_behind",
    ),
    Key(
        "on_schema_change",
        "the same as the job's, for this table; not set: the job's",
        values.choice(*ON_SCHEMA_CHANGE),
        tested=_SHAPES,
    ),
    Key(
        "cascades",
        "of a `mysql` source: a foreign key of the table with CASCADE, SET NULL or SET DEFAULT changes its rows without"
        " row events; `refuse` stops there, `allow` leaves such rows wrong at the target",
        values.choice(*CASCADES),
        CASCADES[0],
        tested="tests/integration/test_mysql_inventory.py"
        "::test_a_foreign_key_with_cascades_is_refused_by_name_unless_it_is_allowed",
    ),
)

RETRY = section(
    Key("wait_initial", "first long wait", values.duration(1, values.DAY), "1s", "ms", tested=_RETRY),
    Key("wait_max", "longest wait", values.duration(1, values.DAY), "30s", "ms", tested=_RETRY),
    Key(
        "wait_jitter",
        "random part added to each long wait",
        values.duration(0, values.DAY),
        "1s",
        "ms",
        tested=_RETRY,
    ),
    Key(
        "give_up_after",
        "FAILED after this long without a success; not set: never, for causes that pass by themselves",
        values.duration(1_000, 52 * values.WEEK),
        unit="ms",
        tested=_RETRY,
    ),
)

SPARK = section(
    Key(
        "master",
        "where tasks run: `local[N]` (places), `local-cluster[workers,cores,MiB]` or `spark://host:port`",
        values.master,
        "local[4]",
        tested=_CLUSTER,
    ),
    Key(
        "secret_file",
        "file that holds a standalone cluster's `spark.authenticate.secret`; relative to this file's folder",
        values.text(4096),
        tested=_CLUSTER,
    ),
    Key("secret_env", "environment variable that holds that secret", values.env_name),
    Key(
        "secret_command",
        "command that prints that secret; run without a shell, at most 10 s",
        values.text(4096),
        private=True,
    ),
    Key(
        "python",
        "Python on a standalone cluster's workers; not set: the path of the one that runs the job",
        values.text(4096),
        tested=_CLUSTER,
    ),
    Key("driver_memory", "memory of the Spark driver", values.memory(512, 1_048_576), "512m", "MiB"),
    Key("settings", "further Spark settings, only of the allowed names", default=None),
)

SPARK_SETTINGS = {
    "spark.cores.max": "",
    "spark.driver.bindAddress": "",
    "spark.driver.blockManager.port": "",
    "spark.driver.host": "",
    "spark.driver.port": "",
    "spark.eventLog.compress": "",
    "spark.eventLog.dir": "an existing folder, as `file:///...`; Spark does not create it or start without it",
    "spark.eventLog.enabled": "needs `spark.eventLog.dir`",
    "spark.executor.cores": "",
    "spark.executor.heartbeatInterval": "",
    "spark.executor.memory": "",
    "spark.network.timeout": "",
    "spark.rpc.askTimeout": "",
}
"""What `[jobs.X.spark] settings` may hold: where and how large, never secrets, class paths or code to run.

The value of a name is what its user has to know, or "". Spark 4.3 rejects a log folder that does not exist
(`EventLogFileWriter.requireLogBaseDirAsDirectory`).
"""

LOGGING = section(
    Key(
        "level",
        "least severe level that is logged",
        tested="",
        because="the lines of a job's log have no levels, and none of them is left out",
    ),
)

STATE = section(
    Key("dir", "folder of the state store and logs; default: the platform's state folder", values.text(4096)),
)

CONSOLE: Section = section()
"""Nothing can be set here yet; the table may stand in the file."""


def _limit(name: str, meaning: str, default: str | None, read: Reader | None = None, tested: str = _LIMITS) -> Key:
    return Key(name, meaning, read or values.duration(1_000, 52 * values.WEEK), default, "ms", tested=tested)


ALERTS = section(
    _limit("lag_warning", "a job whose furthest DN is so far behind its source is a warning", "30s"),
    _limit("lag_critical", "from so far on it is critical", "5m"),
    _limit("stuck_critical", "what is tried again for so long (a server, a DN, a lock) is critical", "5m"),
    _limit("silent_warning", "a driver that lives and reports nothing for so long is a warning", "30s"),
    _limit("silent_critical", "from so long on it is critical", "5m"),
    _limit("crashes", "for so long a driver's crash is told", "10m"),
    Key(
        "disk_free",
        "less room than this on the state folder's disk is a warning",
        values.memory(1, 16_777_216),
        "256m",
        "MiB",
        tested=_LIMITS,
    ),
    _limit(
        "verify_age",
        "a running job whose last `verify` is older is a warning; not set: its age is nobody's concern",
        None,
        values.duration(60_000, 52 * values.WEEK),
    ),
    _limit("gap", "least time between two tellings of one alert", "15m", values.duration(1_000, values.WEEK), _GAP),
    Key(
        "command",
        "command that gets each alert as JSON on its standard input ([alerts](alerts.md)); run without a shell",
        values.command,
        tested=_ALERT_COMMAND,
        private=True,
    ),
    Key(
        "command_timeout",
        "it is killed, with all that it started, after so long",
        values.duration(1_000, values.DAY // 24),
        "10s",
        "ms",
        tested=_ALERT_COMMAND,
    ),
    Key(
        "metrics_file",
        "file that gets the figures as OpenMetrics text ([alerts](alerts.md)); relative to this file's folder",
        values.text(4096),
        tested="tests/integration/test_alerting.py",
    ),
)

NAMED = ("sources", "sinks", "jobs")
PLAIN = ("logging", "state", "console", "alerts")
JOB_TABLES = ("binlog", "sink_options", "sync", "retry", "spark")
"""The tables of a file: those of which each has a name, the single ones, and those below a job's."""
