"""All keys that a configuration can contain: each class is a table, and its attributes are the table's keys.

These classes are the model: the checker, `config show`, `docs/parameters.md` and the test of `config.example.toml` all
read them, so that no key can exist in only one of them. A default that a domain dataclass defines is not repeated here.
The vendor's parameters that Slotkeeper does not implement are also listed, so that they are rejected with an error that
names them instead of being ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from slotkeeper.core.config import values
from slotkeeper.core.config.values import Reader
from slotkeeper.core.domain.copy_limit import LEAST_BYTES, LEAST_ROWS
from slotkeeper.core.domain.endpoint import MODES, SAFEST
from slotkeeper.core.domain.spec import (
    CASCADES,
    METHODS,
    ON_SCHEMA_CHANGE,
    STOP,
    ChannelSpec,
    JobSpec,
    RetryOptions,
    RoundOptions,
    SparkOptions,
    ViewSpec,
)
from slotkeeper.core.judgement.facts import LIMITS, MIB, AlertOptions, Limits
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources


class _Required:
    """The type of `REQUIRED`, the placeholder default of a key that must be set."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()
CAMEL, SAME = "camelCase", "snake_case"
"""Formats of the vendor's names: camelCase, or unchanged snake_case."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table; the docstring below a key is its description in `docs/parameters.md`."""

    read: Reader | None = None
    default: object = None
    """The default as written in a file, REQUIRED, or None if an unset key has no effect."""
    unit: str = ""
    documented: str = ""
    """The vendor's name."""
    private: bool = False
    """Whether the value is excluded from all messages."""
    because: str = ""
    """The error text with the reason why the key is rejected; empty for a supported key."""
    name: str = ""
    table: type = object
    """The class that defines this key; `section` sets `name` and `table`."""


Section = Mapping[str, Key]


def defaults(kind: type) -> dict[str, object]:
    """Return the defaults of a dataclass, by field name."""
    return {field.name: field.default for field in fields(kind) if field.default is not MISSING}


def section(*tables: type, of: Mapping[str, object] = MappingProxyType({})) -> dict[str, Key]:
    """Return the keys of tables by name, in the documented order; if two keys have the same name, the first is used.

    `of` contains the defaults of keys that do not define one; an empty default counts as not set.
    """
    found: dict[str, Key] = {}
    for table in tables:
        for attribute, key in vars(table).items():
            if isinstance(key, Key):
                name = attribute.removesuffix("_")  # `from` is a Python keyword
                default = of.get(name) if key.default is None else key.default
                documented = {CAMEL: camel(name), SAME: name}.get(key.documented, key.documented)
                default = None if default in ("", ()) else default
                found.setdefault(name, replace(key, name=name, table=table, default=default, documented=documented))
    return found


def no_meaning(because: str, default: object = None, unit: str = "", documented: str = CAMEL) -> Key:
    """Return the key of an unsupported vendor parameter, which is rejected with an error that gives the reason."""
    return Key(None, default, unit, documented, because=because)


def vendor(read: Reader, unit: str = "", default: object = None) -> Key:
    """Return the key of a vendor parameter, under its own name in snake_case."""
    return Key(read, default, unit, CAMEL)


def snake(name: str) -> str:
    """Return a camelCase name in snake_case.

    >>> snake("binlogBatchReadSize"), snake("sink.parallelism")
    ('binlog_batch_read_size', 'sink_parallelism')
    """
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).replace(".", "_").lower()


def camel(name: str) -> str:
    """Return a snake_case name in camelCase.

    >>> camel("binlog_batch_read_size")
    'binlogBatchReadSize'
    """
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


_TEXT = values.text(4_096)
_PORT = values.whole(1, 65_535)
_NAME = values.text(values.NAME_MAX)
_TIME = values.duration(1_000, 52 * values.WEEK)


class _Place:
    host = Key(values.host, REQUIRED)
    """host name, address, or directory of a Unix socket"""
    port = Key(_PORT, REQUIRED)
    """TCP port (DWS listens on 8000, Hologres on 80)"""
    database = Key(values.text(63), REQUIRED)
    """database to connect to"""


class _Login:
    user = Key(values.text(63), REQUIRED)
    """role to log in as"""
    password_file = Key(_TEXT)
    """file with the password; relative to the configuration file's folder; one trailing newline is removed"""
    password_env = Key(values.env_name)
    """environment variable with the password"""
    password_command = Key(_TEXT, private=True)
    """command that prints the password; run without a shell, with a time limit of 10 s"""


class _Tls:
    sslmode = Key(values.choice(*MODES))
    """TLS mode: disable, allow, prefer, require, verify-ca, or verify-full (the safe mode); the default is require, or
    prefer if the server is on this host; must be set for a PROD job if the default is not the safe mode"""
    sslrootcert = Key(values.authority)
    """file with the certificate of the server's certificate authority; relative to the configuration file's folder"""
    sslcert = Key(_TEXT)
    """file with the client certificate, on each host that connects"""
    sslkey = Key(_TEXT)
    """file with the private key of the client certificate; its mode must be 0600"""
    sslpassword_file = Key(_TEXT)
    """file with the password of an encrypted private key"""
    sslpassword_env = Key(values.env_name)
    """environment variable with the password of an encrypted private key"""
    sslpassword_command = Key(_TEXT, private=True)
    """command that prints the password of an encrypted private key; run like password_command"""


class _Connecting:
    connect_timeout = Key(values.duration(2_000, 300_000), "10s", "ms")
    """time limit of one connection attempt"""


class _Mysql:
    host = Key(values.host, REQUIRED)
    """host name or address"""
    port = Key(_PORT, 3_306)
    """TCP port"""
    hosts = Key(values.hosts)
    """servers, as "host" or "host:port", that are tried in this order, instead of `host` and `port`: a job continues at
    another server without a copy if that server's binlog contains the job's GTIDs. A replica needs
    log_replica_updates"""


CANAL: tuple[tuple[str, str, str], ...] = (
    ("canal.server.ip", "host of the canal server", "no canal is used: host is that of the MySQL server"),
    ("canal.server.port", "port of the canal server", "no canal is used: port is that of the MySQL server"),
    ("canal.destination", "canal's name for the source", "the job's slot names its positions"),
    ("canal.username", "canal's user name", "user is the user name on the MySQL server"),
    ("canal.password", "canal's password", "secrets only by reference: password_file, password_env, password_command"),
    ("canal.batchSize", "maximum entries per batch (8192)", "ranges end at transaction ends: see [jobs.X.sync]"),
    ("canal.debug", "print every row", "`slotkeeper slots peek` shows rows of the binlog, masked for a PROD source"),
    ("canal.ip", "host of the canal server", "no canal is used"),
    ("canal.port", "port of the canal server", "no canal is used"),
    (
        "canal.instance.mysql.slaveId",
        "canal's server_id",
        "a reader's server_id is derived from source, slot and table",
    ),
    ("canal.instance.master.address", "address of the MySQL server", "set host and port instead"),
    ("canal.instance.dbUsername", "user name on the MySQL server", "set user instead"),
    (
        "canal.instance.dbPassword",
        "password on the MySQL server",
        "secrets only by reference: password_file, password_env",
    ),
    (
        "canal.instance.memory.buffer.size",
        "events that canal buffers (16384)",
        "no buffer limits a transaction: its events beyond 8 MiB go to a file",
    ),
    ("canal.instance.memory.buffer.memunit", "bytes per event in that buffer (1024)", "no buffer limits a transaction"),
)
"""Name, meaning and equivalent for each key of canal, through which Doris Binlog Load reads a MySQL server.

Names and meanings are from Doris, "Binlog Load", "CANAL configuration".
"""


class _Doris:
    host = Key(values.host, REQUIRED)
    """host name or address of the FE"""
    port = Key(_PORT, 9_030)
    """port of the FE for queries (query_port)"""
    http_port = Key(_PORT, 8_030)
    """port of the FE for loads (http_port)"""


class _DorisLine:
    backends = Key(values.hosts)
    """further hosts, as "host" or "host:port", to which the FE can redirect a load together with the password; the FE's
    own host is always allowed. The default port is the HttpPort of SHOW BACKENDS, or 8040 if this login cannot see it
    """
    sslmode = Key(values.choice("disable", "require", "verify-ca", SAFEST), SAFEST)
    """TLS mode for loads and queries: disable, require, verify-ca or verify-full"""
    sslrootcert = Key(values.authority)
    """file with the certificate of the authority of FE and BE; the default is the system's authorities;
    relative to the configuration file's folder"""
    compression = Key(values.choice("none", "gzip"), "none")
    """compression of loads: none or gzip; BEs accept gzip for JSON since version 3.0.5"""


_OF_ENDPOINT = ("host", "port", "hosts", "database", "user", "http_port", "backends", "compression")
"""Keys that are copied unchanged to the fields of an `Endpoint`."""


def _place(given: Mapping[str, Any]) -> dict[str, Any]:
    as_given = {name: given[name] for name in _OF_ENDPOINT if given.get(name) is not None}
    return {"database": "", "connect_timeout_ms": given["connect_timeout"], **as_given}


@dataclass(frozen=True, slots=True)
class KindKeys:
    """The address keys of a kind of server, and the function that converts their values to fields of an `Endpoint`."""

    keys: Section
    endpoint: Callable[[Mapping[str, Any]], dict[str, Any]] = _place


SERVER = KindKeys(section(_Place, _Login, _Tls, _Connecting))
_NO_CANAL = {snake(name): Key(documented=name, because=because, name=snake(name)) for name, _, because in CANAL}
MYSQL = KindKeys({**section(_Mysql, _Login, _Tls, _Connecting), **_NO_CANAL})
DORIS = KindKeys(
    section(_Doris, _Login, _DorisLine, _Connecting),
    lambda given: _place(given) | {"database": f"{given['host']}:{given['http_port']}"},
)
SERVERS = {"server": SERVER, "mysql": MYSQL, "doris": DORIS}
"""The address keys, by the name in the traits of a kind (`server_keys`)."""


class _Source:
    dialect = Key(values.one_of(sources.KINDS), REQUIRED)
    """kind of source: dws, mysql, hologres, or hologres_slot (a Hologres server that stores slot positions itself, as
    versions before 2.1 do for streams)"""


class _Label:
    environment = Key(values.text(16))
    """label shown on screens, such as PROD"""


class _Sink:
    kind = Key(values.one_of(sinks.KINDS), REQUIRED)
    """kind of sink: postgres; dws (statements tested only on PostgreSQL); doris or hologres (tested on a stand-in)"""


class _Progress:
    progress_schema = Key(values.identifier)
    """schema of the tables slotkeeper_progress, slotkeeper_chunks and slotkeeper_quarantine"""
    progress_store = Key(_NAME)
    """name of the [sinks.X] that stores the progress rows for this sink; required for doris and hologres, which cannot
    store them"""


SOURCE = {**section(_Source), **SERVER.keys, **section(_Label)}
SINK = {**section(_Sink), **SERVER.keys, **section(_Progress, of=defaults(JobSpec))}


def at(section: Section, server: KindKeys) -> Section:
    """Return the keys of a `[sources.X]` or `[sinks.X]` with these address keys."""
    if server is SERVER:
        return section
    return {name: key for name, key in section.items() if name not in SERVER.keys} | dict(server.keys)


class _Job:
    source = Key(_NAME, REQUIRED)
    """name of a [sources.X]"""
    sink = Key(_NAME, REQUIRED)
    """name of a [sinks.X]"""
    slot = Key(values.slot)
    """slot of the source table; default: the job's name"""
    start = Key(values.start)
    """where a new job starts: `initial` (a copy), `latest`, `earliest` (for hologres), a time with a UTC offset, or a
    position for each DN"""
    on_existing = Key(values.choice("refuse", "replace", "merge"))
    """how a copy treats a target that is not empty"""
    on_schema_change = Key(values.choice(*ON_SCHEMA_CHANGE), STOP)
    """action if the source table's mirrored columns change: `stop` shows the statements for the target and the reset;
    `resnapshot` runs them and copies the table again; for a `mysql` source also `ignore`, which mirrors no added
    column, and `apply`, which alters the target at the position of the change, without a copy"""
    wait = Key(values.duration(0, values.DAY), "10m", "ms")
    """maximum wait for transactions that were open when the slot was created"""
    copy_rows_per_second = Key(values.whole(LEAST_ROWS, 1_000_000_000), unit="rows")
    """maximum rows per second that the job's copies read, all tasks together; no limit by default; `slotkeeper jobs
    limit` changes it while a copy runs"""
    copy_bytes_per_second = Key(values.size(LEAST_BYTES, 1 << 40), unit="bytes")
    """maximum bytes per second, such as "10MiB", that the job's copies read, as text; no limit by default; `slotkeeper
    jobs limit` changes it while a copy runs"""


class _Channel:
    from_ = Key(values.table, REQUIRED)
    """source table, as schema.table; names are used exactly as written and cannot contain periods or double quotes;
    with `*`, `?` or `[...]`, a shell pattern: the block applies to every matching table, including tables that are
    created while the job runs ([several tables by one block](tables.md))"""
    except_ = Key(values.table_patterns)
    """list of patterns, as schema.table: tables to exclude from the pattern in `from`"""
    into = Key(values.target, REQUIRED)
    """target table, as schema.table; names are used exactly as written, and the first dot separates them; the names
    `slotkeeper_...` and `...__slotkeeper_copy` are reserved; for a pattern, `{table}` and `{schema}` are replaced by
    the names of the source table"""
    create_target = Key(values.boolean)
    """create the target table if it does not exist when a copy starts, with the mirrored columns and their types (for a
    domain, its base type), the collations that exist in the sink, NOT NULL, and the key, but without identity columns,
    generated columns, defaults or other constraints"""
    columns = Key(values.mapping)
    """pairs of source column = target column; only these columns are mirrored, and they must include the key columns;
    by default, all columns are mirrored under the same names"""
    where = Key(values.row_filter)
    """row filter: a condition on the source's columns, evaluated for each row after a change"""
    keys_never_change = Key(values.boolean)
    """declares that primary keys are never updated; required by `binlog_ignore_update_before`"""
    on_schema_change = Key(values.choice(*ON_SCHEMA_CHANGE))
    """overrides the job's on_schema_change for this table"""
    constant = Key(values.constant)
    """a column of the target's key and the value that it has in all rows of this channel, such as
    { column = "shop_id", value = "eu_1" }; several channels can write to one target if each has its own value; only
    from `mysql` into `postgres` or `doris`"""
    soft_delete = Key(values.soft_delete)
    """mark a row that the source deletes instead of removing it: { deleted_at = "deleted_at", op = "op" } names the
    columns with the time of the delete and with the last operation, I, U or D ([expressions](expressions.md)); only
    into `postgres`"""
    compute = Key(values.compute)
    """columns that a worker computes, as { name = "expression" }, such as { cents = "price * 100" }; a name of a
    mirrored column replaces it, so that its own value is never written ([expressions](expressions.md))"""
    salt_file = Key(_TEXT)
    """file with the text that expressions use as `salt()`; relative to the configuration file's folder"""
    salt_env = Key(values.env_name)
    """environment variable with the text that expressions use as `salt()`"""
    synced_at = Key(values.column)
    """column with the time at which the row was last read from the source; only into `postgres` and `dws`"""
    cascades = Key(values.choice(*CASCADES))
    """only for a `mysql` source, where foreign keys with CASCADE, SET NULL or SET DEFAULT change the table's rows
    without row events: `refuse` stops the job if there is such a key, `allow` accepts that these rows are wrong in the
    target"""


class _View:
    into = Key(values.target, REQUIRED)
    """table of the view's rows, as schema.table; Slotkeeper creates it ([views](views.md))"""
    sql = Key(values.statement, REQUIRED)
    """a SELECT over the job's targets, other views and lookup tables, each named as schema.table"""
    key = Key(values.names)
    """output columns that identify a row; not needed with GROUP BY, whose key is the grouped columns"""
    lookup = Key(values.tables)
    """tables of the sink that the job does not mirror; they are read when a row of a mirrored table changes"""
    method = Key(values.choice(*METHODS))
    """how changes are applied: `recompute` the affected keys, or `delta`, which adds them to sums; `auto` uses `delta`
    where it is possible"""


class _Rounds:
    min_interval = Key(values.duration(10, values.DAY // 24), unit="ms")
    """pause between two rounds of the job's views"""
    delta_rows_max = Key(values.whole(1, 1_000_000_000))
    """maximum number of changes to one view that a round applies; if there are more, the view is built again"""


class _Retry:
    wait_initial = Key(values.duration(1, values.DAY), unit="ms")
    """length of the first long wait between retries"""
    wait_max = Key(values.duration(1, values.DAY), unit="ms")
    """maximum length of a long wait"""
    wait_jitter = Key(values.duration(0, values.DAY), unit="ms")
    """random part added to each long wait"""
    give_up_after = Key(_TIME, unit="ms")
    """the job becomes FAILED after this time without a success; if not set, temporary errors never make it FAILED"""


class _Spark:
    master = Key(values.master)
    """where tasks run: `local[N]` (N task slots), `local-cluster[workers,cores,MiB]` or `spark://host:port`"""
    secret_file = Key(_TEXT)
    """file with a cluster's `spark.authenticate.secret`; relative to the configuration file's folder"""
    secret_env = Key(values.env_name)
    """environment variable with a cluster's `spark.authenticate.secret`"""
    secret_command = Key(_TEXT, private=True)
    """command that prints a cluster's `spark.authenticate.secret`; run like password_command"""
    python = Key(_TEXT)
    """path of Python on a standalone cluster's workers; the default is the path of the Python that runs the job"""
    driver_memory = Key(values.memory(512, 1_048_576), unit="MiB")
    """memory of the Spark driver"""
    spark_ui = Key(values.boolean)
    """Spark's web pages on this host's loopback address (`spark.ui.port`, 4040); only with a master on this host"""
    settings = Key()
    """further Spark settings; only certain names are allowed"""


JOB = section(_Job, of=defaults(JobSpec))
CHANNEL = section(_Channel, of={**defaults(ChannelSpec), "on_schema_change": None})
VIEW = section(_View, of=defaults(ViewSpec))
ROUNDS = section(_Rounds, of=defaults(RoundOptions))
RETRY, SPARK = section(_Retry, of=defaults(RetryOptions)), section(_Spark, of=defaults(SparkOptions))

SPARK_SETTINGS = {
    "spark.cores.max": "",
    "spark.driver.bindAddress": "",
    "spark.driver.blockManager.port": "",
    "spark.driver.host": "",
    "spark.driver.port": "",
    "spark.eventLog.dir": "an existing folder, as `file:///...`; Spark neither creates it nor starts without it",
    "spark.eventLog.enabled": "needs `spark.eventLog.dir`",
    "spark.executor.cores": "",
    "spark.executor.heartbeatInterval": "",
    "spark.executor.instances": "on Kubernetes; default 2",
    "spark.executor.memory": "",
    "spark.executor.memoryOverhead": "",
    "spark.kubernetes.driver.pod.name": "default: the pod in which the driver runs",
    "spark.kubernetes.namespace": "",
    "spark.network.timeout": "",
    "spark.rpc.askTimeout": "",
}
"""The allowed keys of `[jobs.X.spark] settings`, which set locations and sizes but no secrets, class paths or code.

Each key is mapped to a note for users, or to "". Spark 4.3 rejects a log folder that does not exist
(`EventLogFileWriter.requireLogBaseDirAsDirectory`).
"""
SPARK_GROUPS = {
    "spark.eventLog.*": "except a codec's class",
    "spark.kubernetes.allocation.*": "",
    "spark.kubernetes.authenticate.*": "except tokens: name a file with the token",
    "spark.kubernetes.container.*": "",
    "spark.kubernetes.executor.*": "except templates of pods, and classes",
    "spark.kubernetes.node.*": "",
    "spark.ssl.*": "except passwords: use a store without one, or `privateKey` and `certChain`",
    "spark.ui.*": "except `spark.ui.enabled` (`spark_ui = true`) and filters",
}
"""Further allowed names, by their beginning, each with its exceptions, which would contain secrets or name code."""
_NOT_ALLOWED = re.compile(r"password|codec|filters|\.ui\.enabled$|oauthToken$|template|featureSteps", re.IGNORECASE)


def is_allowed(name: str) -> bool:
    """Return whether `[jobs.X.spark] settings` can contain a Spark setting.

    >>> [is_allowed(f"spark.{name}") for name in ("cores.max", "ssl.ui.keyStore", "ssl.ui.keyPassword", "ui.filters")]
    [True, True, False, False]
    """
    grouped = any(name.startswith(group.removesuffix("*")) for group in SPARK_GROUPS)
    return name in SPARK_SETTINGS or (grouped and not _NOT_ALLOWED.search(name))


class _Logging:
    level = Key(because="messages in a job's log have no levels, and all of them are logged")
    """minimum severity of logged messages"""


class _State:
    dir = Key(_TEXT)
    """folder of the state store and the logs; default: the platform's state folder"""


class _Alerts:
    lag_warning = Key(_TIME, unit="ms")
    """warning: lag of the job's slowest DN"""
    lag_critical = Key(_TIME, unit="ms")
    """critical: lag of the job's slowest DN"""
    stuck_critical = Key(_TIME, unit="ms")
    """critical: time for which a job has been retrying because of a server, DN or lock"""
    silent_warning = Key(_TIME, unit="ms")
    """warning: time for which a running driver has not reported"""
    silent_critical = Key(_TIME, unit="ms")
    """critical: time for which a running driver has not reported"""
    crashes = Key(_TIME, unit="ms")
    """two crashes of a driver within this time are reported as a crash loop"""
    disk_free = Key(values.memory(1, 16_777_216), unit="MiB")
    """warning: minimum free space on the state folder's disk"""
    verify_age = Key(values.duration(60_000, 52 * values.WEEK), unit="ms")
    """warning: maximum age of the last `verify` of a running job; no limit by default"""
    gap = Key(values.duration(1_000, values.WEEK), unit="ms")
    """minimum time between two notifications of one alert"""
    command = Key(values.command, private=True)
    """command that receives each alert as JSON on its standard input ([alerts](alerts.md)); run without a shell"""
    command_timeout = Key(values.duration(1_000, values.DAY // 24), unit="ms")
    """time limit of the command, after which it and its child processes are killed"""
    metrics_file = Key(_TEXT)
    """file for metrics in OpenMetrics text format ([alerts](alerts.md)); relative to the configuration file's folder"""


class _Access:
    read_only = Key(values.boolean, False)
    """reject every verb that changes something, for every account"""
    second_account = Key(values.boolean, False)
    """require the approval of a second account (`slotkeeper slots approve`) for a reset that skips or replaces rows,
    and for the loss of a slot's unread rows"""
    rules = Key()
    """blocks `[[access.rules]]` that give rights to accounts ([access](access.md)); without a block, every account has
    every right"""


class _Rule:
    users = Key(values.words)
    """names of accounts"""
    groups = Key(values.words)
    """names of groups"""
    jobs = Key(values.words)
    """patterns of job names, such as `orders_*`; default: every job"""
    allow = Key(values.rights, REQUIRED)
    """rights: look, pause, start, reset, reveal, discard"""


class _Hosts:
    name = Key(values.text(64))
    """name of this host on all hosts that share its jobs; default: the host's own name; it must differ on each host"""
    interval = Key(values.duration(100, 60_000), unit="ms")
    """time between two heartbeats of `slotkeeper agent`; the same on all hosts"""
    take_over_after = Key(values.duration(500, values.DAY // 24), unit="ms")
    """time without a heartbeat after which another host takes a job over; the same on all hosts, and at least five
    times `interval`"""


LOGGING, STATE = section(_Logging), section(_State)
ACCESS, RULE = section(_Access), section(_Rule)
HOSTS = section(_Hosts, of={"interval": "2s", "take_over_after": "20s"})
"""The table `[hosts]`; without it, a job has one host."""
CONSOLE: Section = {}
"""The table `[console]` has no keys yet, but is allowed in the file."""
_SECONDS = {**defaults(Limits), **defaults(AlertOptions)}
_MS = {name: int(seconds * 1_000) for name, seconds in _SECONDS.items() if isinstance(seconds, float)}
ALERTS = section(_Alerts, of={**_MS, "disk_free": f"{LIMITS.disk_free // MIB}m"})

NAMED = ("sources", "sinks", "jobs")
PLAIN = ("logging", "state", "console", "alerts", "access", "hosts")
JOB_TABLES = ("binlog", "sink_options", "sync", "rounds", "retry", "spark")
"""The tables of a file: NAMED contain named entries, PLAIN contain keys, and JOB_TABLES are the subtables of a job."""
