"""Configurations that must be rejected: a name, the text, and the required parts of the one message."""

from __future__ import annotations

from tests.unit.config.cases import Case
from tests.unit.config.cases import case as _case
from tests.unit.config.samples import SECOND_JOB, SECRET, VALID, added, changed

SOURCE, SINK, JOB = "sources.dws1", "sinks.mart", "jobs.orders_rt"
BINLOG, OPTIONS, RETRY, SPARK = f"{JOB}.binlog", f"{JOB}.sink_options", f"{JOB}.retry", f"{JOB}.spark"
CHANNEL_END = 'into = "mart.orders"'


SPELLING = [
    _case("not TOML", "[sources\n", "config.toml:1:9", "not valid TOML"),
    _case("key twice", added("logging", 'level = "INFO"\nlevel = "INFO"'), "config.toml:37", "not valid TOML"),
    _case("key and table of one name", VALID + "[jobs.orders_rt.sink]\n", "not valid TOML", "sink_options"),
    _case("too deep", "a = " + "[" * 20_000, "nested too deeply"),
    _case("unknown table", VALID + "[surces.x]\n", "config.toml:38", "unknown key surces", "sources"),
    _case("unknown key at the top", 'jbos = "x"\n' + VALID, "config.toml:1", "unknown key jbos", "jobs"),
    _case("alerts no table", 'alerts = "page"\n' + VALID, "alerts must be a table"),
    _case("sources no table", "sources = 5\n", "sources must be a table"),
    _case("a list of sources", "[[sources]]\nx = 1\n", "sources must be a table"),
    _case("source no table", "[sources]\ndws1 = 1\n", "config.toml:2", "sources.dws1 must be a table"),
    _case("logging no table", 'logging = "INFO"\n', "logging must be a table"),
    _case(
        "misspelt key",
        changed("port = 8000", "prot = 8000"),
        "config.toml:4",
        f"[{SOURCE}]",
        "prot",
        "did you mean port",
    ),
    _case("misspelt sink key", changed('kind = "postgres"', 'knd = "postgres"'), "config.toml:11", "did you mean kind"),
    _case("misspelt job key", added(JOB, "wiat = 5"), "config.toml:18", "did you mean wait"),
    _case("far key", added(JOB, "zzz = 5"), "unknown key zzz", "known: source"),
    _case("console key", VALID + "[console]\nrefresh = 1\n", "unknown key refresh in [console]"),
    _case("hostile key", added(JOB, '"a\\u001b]0;x\\u0007" = 5'), "unknown key a\\x1b]0;x\\x07"),
    _case("bad section name", VALID + "[sinks.'a b']\n", "name of [sinks.a b]"),
    _case("two underscores", VALID + "[sinks.a__b]\n", "name of [sinks.a__b]"),
    _case("long job name", VALID + f"[jobs.{'x' * 41}]\n", "at most 40"),
]

CAMEL_AND_LATER = [
    _case("camelCase", added(BINLOG, "binlogSleepTime = 5"), "binlogSleepTime", "write it as binlog_sleep_time"),
    _case("camelCase later", added(BINLOG, "binlogParallelNum = 5"), "write it as binlog_parallel_num"),
    _case("camelCase sink", added(OPTIONS, "autoFlushBatchSize = 5"), "write it as auto_flush_batch_size"),
    _case("dotted Flink option", added(OPTIONS, '"sink.parallelism" = 5'), "write it as sink_parallelism"),
    _case("binlog key in the job", added(JOB, "binlog_sleep_time = 5"), "belongs in [jobs.orders_rt.binlog]"),
    _case("sink key in the job", added(JOB, "ignore_delete = true"), "belongs in [jobs.orders_rt.sink_options]"),
    _case("options under sink", changed('sink = "mart"', "sink = {ignore_delete = true}"), "sink_options"),
    _case(
        "a table read twice",
        VALID + '[[jobs.orders_rt.channels]]\nfrom="ods.orders"\ninto="c.d"\n',
        "jobs.orders_rt.channels[1] reads ods.orders, which jobs.orders_rt.channels[0] already reads",
        "its own slot",
    ),
    _case(
        "a target written twice",
        VALID + '[[jobs.orders_rt.channels]]\nfrom="a.b"\ninto="mart.orders"\n',
        "jobs.orders_rt.channels[1] writes to mart.orders, which jobs.orders_rt.channels[0] already writes to",
        "its own target",
    ),
    _case(
        "a second channel without into",
        VALID + '[[jobs.orders_rt.channels]]\nfrom="a.b"\n',
        "jobs.orders_rt.channels[1]",
        "into",
    ),
    _case(
        "a second channel's target of another job",
        VALID + SECOND_JOB + '[[jobs.second.channels]]\nfrom="a.b"\ninto="mart.orders"\n',
        "[jobs.second] writes to mart.orders, which job orders_rt already writes to",
    ),
    _case("slot twice", added(BINLOG, 'binlog_slot_name = "x"'), "slot and binlog.binlog_slot_name"),
    _case(
        "start twice",
        changed('slot = "orders_slot"', 'start = "initial"').replace("binlog = true", 'binlog_start_time = "x"'),
        "start and binlog.binlog_start_time",
    ),
]

VALUES = [
    _case("port text", changed("port = 8000", 'port = "8000"'), "config.toml:4", "port", "whole number"),
    _case("port bool", changed("port = 8000", "port = true"), "port", "whole number"),
    _case("port float", changed("port = 8000", "port = 8000.0"), "port", "whole number"),
    _case("port 0", changed("port = 8000", "port = 0"), "port", "from 1 to 65535"),
    _case("port too large", changed("port = 8000", "port = 65536"), "port", "from 1 to 65535"),
    _case("port huge", changed("port = 8000", "port = 9" + "0" * 30), "port", "from 1 to 65535"),
    _case("host number", changed('"127.0.0.1"', "5"), "host", "text in quotes"),
    _case("host empty", changed('"127.0.0.1"', '""'), "host", "empty"),
    _case("host URL", changed('"127.0.0.1"', f'"postgres://etl:{SECRET}@h1"'), "host", "not a URL"),
    _case("host control", changed('"127.0.0.1"', '"h\\u0000"'), "host", "control"),
    _case("user a date", changed('user = "etl"', "user = 2026-01-01"), "user", "text in quotes"),
    _case("lacks keys", changed('host = "127.0.0.1"\nport = 8000\n', ""), "config.toml:1", "lacks host, port"),
    _case("sslmode", added(SOURCE, 'sslmode = "maybe"'), "sslmode", '"verify-full"'),
    _case("bad unit", added(BINLOG, 'binlog_sleep_time = "5 parsecs"'), "unknown unit", "ms, s, m"),
    _case("no number", added(BINLOG, 'binlog_sleep_time = "soon"'), "duration"),
    _case("negative time", added(BINLOG, "binlog_sleep_time = -1"), "duration"),
    _case("float time", added(BINLOG, "binlog_sleep_time = 1.5"), "duration"),
    _case("half a millisecond", added(BINLOG, 'binlog_sleep_time = "0.5ms"'), "whole number of milliseconds"),
    _case("time too long", added(JOB, 'wait = "2d"'), "wait", "from 0ms to 1d"),
    _case("size 0", added(BINLOG, "binlog_sync_point_size = 0"), "binlog_sync_point_size", "from 1"),
    _case("bool text", changed("binlog = true", 'binlog = "true"'), "binlog", "true or false"),
    _case("bool number", added(OPTIONS, "ignore_delete = 1"), "ignore_delete", "true or false"),
    _case("flush tries 0", added(OPTIONS, "max_flush_retry_times = 0"), "max_flush_retry_times", "from 1"),
    _case("memory small", added(SPARK, 'driver_memory = "256m"'), "driver_memory", '"512m"'),
    _case("memory unit", added(SPARK, 'driver_memory = "1 potato"'), "driver_memory", "size such as"),
    _case(
        "setting refused",
        added(SPARK, 'settings = {"spark.authenticate.secret" = "x"}'),
        "unknown key spark.authenticate",
    ),
    _case("yarn", added(SPARK, 'master = "yarn"'), "spark.master is not supported on yarn", "local-cluster[2,1,1024]"),
    _case(
        "no TLS to Kubernetes",
        added(SPARK, 'master = "k8s://http://h:6443"'),
        "needs the address of the Kubernetes API",
    ),
    _case(
        "no secret in pods", added(SPARK, 'master = "k8s://https://h:6443"'), "secret_file is not set", "mount a Secret"
    ),
    _case(
        "no image",
        added(SPARK, 'master = "k8s://https://h:6443"\nsecret_file = "/s"'),
        "no spark.kubernetes.container.image",
    ),
    _case(
        "token", added(SPARK, 'settings = {"spark.kubernetes.authenticate.oauthToken" = "x"}'), "unknown key spark.kub"
    ),
    _case("no master", added(SPARK, 'master = "h:7077"'), "spark.master must be a Spark master such as local[4]"),
    _case(
        "master without a port", added(SPARK, 'master = "spark://h"'), "needs a host and a port", "spark://host:7077"
    ),
    _case("no worker", added(SPARK, 'master = "local-cluster[0,1,1024]"'), "at least one worker with one core"),
    _case("small workers", added(SPARK, 'master = "local-cluster[2,1,256]"'), "at least 512 MiB for each worker"),
    _case(
        "executor larger than its worker",
        added(SPARK, 'master = "local-cluster[2,1,1024]"\nsettings = {"spark.executor.memory" = "2g"}'),
        "spark.executor.memory exceeds the memory of a worker of local-cluster[2,1,1024]",
    ),
    _case("cluster without its secret", added(SPARK, 'master = "spark://h:7077"'), "its secret is not set"),
    _case(
        "two secrets of a cluster",
        added(SPARK, 'master = "spark://h:7077"\nsecret_file = "s"\nsecret_env = "S"'),
        "secret_file and secret_env",
        "set only one of them",
    ),
    _case("secret where none is asked for", added(SPARK, 'secret_file = "s"'), "secret_file applies only to a master"),
    _case(
        "pages of a cluster", added(SPARK, 'master = "spark://h:7077"\nsecret_file = "s"\nspark_ui = true'), "no login"
    ),
    _case("another python here", added(SPARK, 'python = "/usr/bin/python3"'), "python applies only to a master"),
    _case("cluster's secret itself", added(SPARK, 'secret = "hush"'), "secrets only by reference", "use secret_file"),
    _case("setting of yarn", added(SPARK, 'settings = {"spark.yarn.queue" = "q"}'), "unknown key spark.yarn.queue"),
    _case("setting a list", added(SPARK, 'settings = {"spark.executor.cores" = [1]}'), "spark.executor.cores", "text"),
    _case(
        "event log in /tmp", added(SPARK, 'settings = {"spark.eventLog.enabled" = true}'), "needs spark.eventLog.dir"
    ),
    _case("settings text", added(SPARK, 'settings = "x"'), "settings must be a table"),
    _case("on_existing", added(JOB, 'on_existing = "drop"'), "on_existing", '"merge"'),
    _case("schema change", added(JOB, 'on_schema_change = "alter"'), "on_schema_change", '"apply" or "resnapshot"'),
    _case(
        "schema change of a channel",
        changed(CHANNEL_END, f'{CHANNEL_END}\non_schema_change = "ignore"'),
        "channels[0].on_schema_change",
        "needs a source whose log contains changes of columns",
        'set "stop" or "resnapshot"',
    ),
    _case(
        "resnapshot over a target with rows",
        added(JOB, 'on_schema_change = "resnapshot"'),
        "config.toml:18",
        'on_existing = "refuse" rejects',
        'set on_existing = "replace"',
    ),
    _case(
        "resnapshot of a channel without a copy",
        changed(CHANNEL_END, f'{CHANNEL_END}\non_schema_change = "resnapshot"').replace(
            'sink = "mart"\n', 'sink = "mart"\non_existing = "replace"\nstart = "latest"\n'
        ),
        "jobs.orders_rt.channels[0].on_schema_change",
        'start = "latest" makes no copy',
    ),
    _case(
        "resnapshot without a binlog",
        added(JOB, 'on_schema_change = "resnapshot"\non_existing = "replace"').replace("binlog = true", ""),
        "has no effect with binlog = false",
    ),
    _case("start nonsense", added(JOB, 'start = "inital"'), "start", '"initial"'),
    _case("log level", added("logging", 'level = "INFO"'), "logging.level does not apply here: messages", "remove"),
    _case("progress schema", added(SINK, 'progress_schema = "a.b"'), "progress_schema", "dots"),
    _case("wait_max below", added(RETRY, 'wait_max = "10ms"'), "config.toml:32", "wait_max is below wait_initial"),
    _case(
        "a node check without redistribution",
        added(BINLOG, 'need_redistribution = false\ncheck_node_change_interval = "5s"'),
        "check_node_change_interval has no effect with need_redistribution = false",
    ),
    _case("max sleep below", added(BINLOG, 'binlog_sleep_time = "1h"'), "binlog_max_sleep_time is below"),
]

NAMES = [
    _case("slot with a blank", changed('"orders_slot"', '"a b"'), "slot", "letters, digits"),
    _case("slot with a quote", changed('"orders_slot"', '"a\';--"'), "slot", "letters, digits"),
    _case("slot too long", changed('"orders_slot"', f'"{"a" * 64}"'), "slot", "at most 63"),
    _case(
        "job name is not a slot",
        VALID.replace("orders_rt", "orders-rt").replace('slot = "orders_slot"\n', ""),
        "name is not a valid slot name",
    ),
    _case("no schema", changed('"ods.orders"', '"orders"'), "from", "schema.table"),
    _case("dot in the table", changed('"ods.orders"', '"ods.or.ders"'), "from", "exactly one dot"),
    _case("quote in the table", changed('"ods.orders"', "'ods.\"orders\"'"), "from", "without double quotes"),
    _case("empty table", changed('"ods.orders"', '"ods."'), "from", "schema.table"),
    _case(
        "no channel",
        changed('[[jobs.orders_rt.channels]]\nfrom = "ods.orders"\ninto = "mart.orders"\n', ""),
        "no channel",
    ),
    _case("channels a table", changed("[[jobs.orders_rt.channels]]", "[jobs.orders_rt.channels]"), "list of tables"),
    _case("channel no table", 'jobs.x = {source="a", sink="b", channels=[1]}\n', "not the name of a [sources.X]"),
    _case(
        "unknown source",
        changed('source = "dws1"', 'source = "dws2"'),
        "config.toml:18",
        "not the name of a [sources.X]",
        "dws1",
    ),
    _case(
        "unknown sink",
        changed('sink = "mart"', 'sink = "smart"'),
        "config.toml:19",
        "not the name of a [sinks.X]",
        "mart",
    ),
    _case(
        "slot shared",
        VALID + SECOND_JOB.replace('sink = "mart"', 'sink = "mart"\nslot = "orders_slot"'),
        "job orders_rt already uses",
    ),
    _case("target shared", VALID + SECOND_JOB.replace("mart.second", "mart.orders"), "job orders_rt already writes to"),
    _case(
        "onto itself",
        VALID.replace('"127.0.0.1"', '"LOCALHOST"')
        .replace("5432", "8000")
        .replace('"mart"', '"gaussdb"')
        .replace("mart.orders", "ods.orders")
        .replace('sink = "gaussdb"', 'sink = "mart"'),
        "onto itself",
    ),
]

SECRETS = [
    _case(
        "literal password", added(SOURCE, f'password = "{SECRET}"'), "password in [sources.dws1]", "only by reference"
    ),
    _case("literal passwd", added(SINK, f'passwd = "{SECRET}"'), "passwd in [sinks.mart]", "only by reference"),
    _case("literal secret", added(JOB, f'secret = "{SECRET}"'), "only by reference"),
    _case("url", added(SOURCE, f'url = "postgres://etl:{SECRET}@h"'), "unknown key url"),
    _case("empty reference", changed('"DWS1_PASSWORD"', '""'), "password_env", "environment variable"),
    _case("secret as variable name", changed('"DWS1_PASSWORD"', f'"{SECRET}"'), "password_env", "environment variable"),
    _case("empty file", added(SINK, 'password_file = " "'), "password_file", "empty"),
    _case("two references", added(SOURCE, f'password_command = "echo {SECRET}"'), "password_env and password_command"),
    _case("command a list", added(SINK, f'password_command = ["echo", "{SECRET}"]'), "password_command", "text"),
    _case("port a secret", changed("port = 8000", f'port = "{SECRET}"'), "port", "whole number"),
    _case("secret in bad TOML", added(SOURCE, f'password = "{SECRET}'), "not valid TOML"),
]

ENVIRONMENT = [
    _case(
        "variable: bad port",
        VALID,
        "SLOTKEEPER_SOURCES__DWS1__PORT",
        "whole number",
        SLOTKEEPER_SOURCES__DWS1__PORT="x",
    ),
    _case("variable: no such source", VALID, "no [sources.nope]", SLOTKEEPER_SOURCES__NOPE__HOST="x"),
    _case("variable: unknown key", VALID, "unknown key hots", "host", SLOTKEEPER_SOURCES__DWS1__HOTS="x"),
    _case("variable: unknown table", VALID, "SLOTKEEPER_SORUCES__DWS1__HOST", SLOTKEEPER_SORUCES__DWS1__HOST="x"),
    _case("variable: literal password", VALID, "only by reference", SLOTKEEPER_SINKS__MART__PASSWORD=SECRET),
    _case("variable: channels", VALID, "not a key of", SLOTKEEPER_JOBS__ORDERS_RT__CHANNELS__INTO="x"),
    _case("variable: too short", VALID, "not a key of", SLOTKEEPER_JOBS__ORDERS_RT="x"),
]

CASES: list[Case] = [*SPELLING, *CAMEL_AND_LATER, *VALUES, *NAMES, *SECRETS, *ENVIRONMENT]
