"""The page `docs/import.md`: its text, and a table of statements in vendors' syntax with the translation of each.

The statements are the cases of `tests/unit/importing`, so the table shows what that test checks.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.columns import wrapped
from slotkeeper.core.importing import lists, written
from slotkeeper.core.importing.pasted import Fate, Pasted, secrets_in
from slotkeeper.core.importing.written import Given, Made, Server

PASSWORD = "cAnary/5e1a-pasted"
"""The password of each statement; no configuration and no message contains it."""
SINK = Server("postgres", "mart.example.org", 5432, "mart", "etl")
SOURCE = Server("", "source.example.org", 8000, "gaussdb", "etl")
STORE = Server("postgres", "mart.example.org", 5432, "mart", "etl")

_COLUMNS = "(id INT, region STRING, amount DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED)"
_LOGIN = f"'username' = 'etl', 'password' = '{PASSWORD}'"
_DWS = f"'connector' = 'dws', 'url' = 'jdbc:gaussdb://dws1:8000/gaussdb', {_LOGIN}"
_HOLO = f"'connector' = 'hologres', 'endpoint' = 'hg1:80', 'dbname' = 'shop', {_LOGIN}"
_CDC = f"'connector' = 'mysql-cdc', 'hostname' = 'db1', 'port' = '3306', {_LOGIN}, 'database-name' = 'shop'"
_JDBC = f"'connector' = 'jdbc', 'url' = 'jdbc:postgresql://mart1:5432/mart', {_LOGIN}, 'table-name' = 'mart.orders'"
_DORIS = f"'connector' = 'doris', 'fenodes' = 'fe1:8030', 'table.identifier' = 'mart.orders', {_LOGIN}"
_ALL = "INSERT INTO t SELECT * FROM s"


def _table(name: str, options: str, more: str = "", columns: str = _COLUMNS) -> str:
    return f"CREATE TABLE {name} {columns} WITH ({options}{', ' if more else ''}{more});\n"


def _from_dws(more: str = "", sink: str = "", query: str = _ALL, columns: str = _COLUMNS) -> str:
    """Return a pipeline from DWS to DWS; each part is on its own line."""
    source = _table("s", f"{_DWS}, 'tableName' = 'ods.orders', 'binlog' = 'true'", more, columns)
    return source + _table("t", f"{_DWS}, 'tableName' = 'mart.orders'", sink) + f"{query};\n"


def _from_holo(more: str = "", sink: str = _JDBC) -> str:
    options = f"{_HOLO}, 'tablename' = 'ods.orders', 'binlog' = 'true'"
    return _table("s", options, more) + _table("t", sink) + f"{_ALL};\n"


def _from_cdc(more: str = "", sink: str = _JDBC, table: str = "orders", query: str = _ALL) -> str:
    return _table("s", f"{_CDC}, 'table-name' = '{table}'", more) + _table("t", sink) + f"{query};\n"


_SYNC = f"""CREATE SYNC `mart`.`job` (FROM shop.orders INTO orders (id, region), FROM shop.lines INTO order_lines)
FROM BINLOG ("type" = "canal", "canal.server.ip" = "canal1", "canal.server.port" = "11111",
"canal.destination" = "shop", "canal.batchSize" = "8192", "canal.password" = "{PASSWORD}");
"""
_INSTANCE = f"""canal.instance.mysql.slaveId = 1234
canal.instance.master.address = db1:3306
canal.instance.dbUsername = canal
canal.instance.dbPassword = {PASSWORD}
canal.instance.gtidon = false
"""
_DEBEZIUM = (
    '{"name": "shop", "config": {"connector.class": "io.debezium.connector.mysql.MySqlConnector",\n'
    f'"database.hostname": "db1", "database.port": "3306", "database.user": "etl", "database.password": "{PASSWORD}",\n'
    '"database.server.id": "5400", "topic.prefix": "shop1", "table.include.list": "shop.orders,shop.lines"'
)
_KAFKA_SINK = (
    '{"name": "mart", "config": {"connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",\n'
    f'"connection.url": "jdbc:postgresql://mart1/mart", "connection.username": "etl",\n'
    f'"connection.password": "{PASSWORD}", "topics": "shop1.shop.orders,shop1.shop.lines",'
    ' "primary.key.mode": "record_key"'
)


@dataclass(frozen=True, slots=True)
class Case:
    """A text and its expected translation. `refused`: line, option or part, in the order of the configuration."""

    title: str
    text: str
    refused: tuple[tuple[int, str], ...] = ()
    takes: tuple[str, ...] = ()
    """Lines of the configuration, without their comments."""
    source: Server | None = None
    sink: Server | None = None
    store: Server | None = None

    def made(self) -> Made:
        """Return the configuration of this text."""
        found = lists.with_canal(Pasted().plus(lists.read(self.text)))
        return written.configuration(found, Given(self.source, self.sink, self.store, frozenset(secrets_in(self.text))))


CASES = (
    Case("Flink, `dws`: batches, timeouts and sleeps", _from_dws(
        "'binlogSlotName' = 'orders_rt', 'binlogBatchReadSize' = '2000', 'fullSyncBinlogBatchReadSize' = '10000',"
        "'binlogReadTimeout' = '60000', 'fullSyncBinlogReadTimeout' = '600000', 'binlogSleepTime' = '200',"
        "'binlogMaxSleepTime' = '4000'",
    ), takes=('binlog_slot_name = "orders_rt"', "binlog_batch_read_size = 2000", "binlog_max_sleep_time = 4000")),
    Case("Flink, `dws`: retries and connections", _from_dws(
        "'binlogMaxRetryTimes' = '3', 'binlogRetryInterval' = '200', 'binlogParallelNum' = '2',"
        "'connectionPoolSize' = '8', 'connectionSocketTimeout' = '30000'",
    ), takes=("binlog_max_retry_times = 3", "binlog_parallel_num = 2", "connection_pool_size = 8")),
    Case("Flink, `dws`: redistribution and kernels", _from_dws(
        "'needRedistribution' = 'true', 'checkNodeChangeInterval' = '20000', 'newSystemValue' = 'false',"
        "'binlogSyncPointSize' = '1000'",
    ), takes=("need_redistribution = true", "check_node_change_interval = 20000", "new_system_value = false")),
    Case("Flink, `dws`: a node check without redistribution", _from_dws(
        "'needRedistribution' = 'false', 'checkNodeChangeInterval' = '20000'",
    ), refused=((1, "checkNodeChangeInterval"),)),
    Case("Flink, `dws`: a start time with its offset", _from_dws(
        "'binlogStartTime' = '2024-11-14 15:48:40+08:00'",
    ), takes=('binlog_start_time = "2024-11-14 15:48:40+08:00"',)),
    Case("Flink, `dws`: a start time without an offset", _from_dws("'binlogStartTime' = '2024-11-14 15:48:40'"),
         refused=((1, "binlogStartTime"),)),
    Case("Flink, `dws`: no slot name", _from_dws(), takes=('binlog_slot_name = "s"',)),
    Case("Flink, `dws`: the read pool", _from_dws("'connectionSize' = '2', 'binlogQueueSize' = '1000'"),
         refused=((1, "connectionSize"), (1, "binlogQueueSize"))),
    Case("Flink, `dws` sink: steps and conflicts", _from_dws(sink=(
        "'autoFlushBatchSize' = '10000', 'autoFlushMaxInterval' = '3 s', 'maxFlushRetryTimes' = '5',"
        "'writeMode' = 'COPY_UPSERT', 'conflictStrategy' = 'replace', 'ignoreDelete' = 'true', 'connectionSize' = '1'"
    )), takes=("auto_flush_batch_size = 10000", 'auto_flush_max_interval = "3s"', 'write_mode = "copy_upsert"',
               'conflict_strategy = "replace"', "ignore_delete = true")),
    Case("Flink, `dws` sink: several writers", _from_dws(sink="'connectionSize' = '4'"),
         refused=((2, "connectionSize"),)),
    Case("Flink, `dws` sink: keys and formats of the client", _from_dws(sink=(
        "'uniqueKeys' = 'id', 'compareField' = 'ts', 'stringToDatetimeFormat' = 'yyyy', 'sink.parallelism' = '4'"
    )), refused=((2, "uniqueKeys"), (2, "compareField"), (2, "stringToDatetimeFormat"), (2, "sink.parallelism"))),
    Case("Flink, `dws` sink: names of version 2", _from_dws(sink=(
        "'dws.client.write.mode' = 'auto', 'dws.client.write.auto-flush-size' = '20000',"
        "'dws.client.retry.max-times' = '3', 'dws.client.retry.sleep-base-time' = '1s'"
    )), takes=('write_mode = "auto"', "auto_flush_batch_size = 20000", 'wait_initial = "1s"')),
    Case("Flink, `dws` sink: buffers of version 2", _from_dws(sink="'dws.client.write.force-flush-size' = '40000'"),
         refused=((2, "dws.client.write.force-flush-size"),)),
    Case("Flink, `dws`: columns by name and WHERE", _from_dws(
        query="INSERT INTO t SELECT id, region, amount FROM s WHERE region = 'EU' AND amount >= 10",
    ), takes=("where = \"\\\"region\\\" = 'EU' AND \\\"amount\\\" >= 10\"",)),
    Case("Flink, `dws`: an INSERT with a column list", _from_dws(
        query="INSERT INTO t (amount, id) SELECT amount, id FROM s",
    ), takes=('columns = { amount = "amount", id = "id" }',)),
    Case("Flink: an expression that no worker computes", _from_dws(
        query="INSERT INTO t SELECT id, REGEXP_REPLACE(region, 'a', 'b'), amount FROM s",
    ), refused=((3, "an expression in SELECT"),)),
    Case("Flink: expressions", _from_dws(
        query="INSERT INTO t SELECT id, LEFT(region, 2), CASE WHEN amount > 9 THEN amount ELSE 0 END FROM s",
    ), takes=(
        'columns = { id = "id" }',
        'compute = { region = "LEFT(region, 2)", amount = "CASE WHEN amount > 9 THEN amount ELSE 0 END" }',
    )),
    Case("Flink: expressions with another result in Flink", _from_dws(
        query="INSERT INTO t SELECT CAST(amount AS INT),\nSUBSTR(region, -4),\nUPPER(region) FROM s"
        " WHERE CAST(amount AS DECIMAL) > 1",
    ), refused=(*((n, "an expression in SELECT") for n in (3, 4, 5)), (3, "WHERE"))),
    Case("Flink: a JOIN with GROUP BY", _from_dws(
        query="INSERT INTO t SELECT a.id, a.region, SUM(b.amount) FROM s a JOIN s b ON a.id = b.id"
        " GROUP BY a.id, a.region",
    ), refused=((3, "JOIN or GROUP BY"),)),
    Case("Flink: DISTINCT and LIMIT", _from_dws(
        query="INSERT INTO t SELECT DISTINCT id, region, amount FROM s LIMIT 5",
    ), refused=((3, "DISTINCT"), (3, "LIMIT"))),
    Case("Flink: a condition that no row decides alone", _from_dws(
        query="INSERT INTO t SELECT * FROM s WHERE amount > RAND()",
    ), refused=((3, "WHERE"),)),
    Case("Flink: WATERMARK, which a channel does not need", _from_dws(
        columns="(id INT, region STRING, amount TIMESTAMP(3), WATERMARK FOR amount AS amount - INTERVAL '5' SECOND)",
    ), takes=('columns = { id = "id", region = "region", amount = "amount" }',)),
    Case("Flink: computed and metadata columns", _from_dws(
        columns="(id INT, twice AS id * 2, db STRING METADATA FROM 'database_name' VIRTUAL)",
    ), refused=((3, "a computed or metadata column"),)),
    Case("Flink: a hint with options", _from_dws(
        query="INSERT INTO t SELECT * FROM s /*+ OPTIONS('binlog' = 'false') */",
    ), refused=((3, "statement"),)),
    Case("Flink: a statement set and settings", (
        "SET 'pipeline.name' = 'orders_rt';\nSET 'parallelism.default' = '8';\n"
        "SET 'execution.checkpointing.interval' = '10s';\n"
        + _table("s", f"{_CDC}, 'table-name' = 'orders'") + _table("u", f"{_CDC}, 'table-name' = 'lines'")
        + _table("t", _JDBC) + _table("v", _JDBC.replace("mart.orders", "mart.lines"))
        + "EXECUTE STATEMENT SET BEGIN\nINSERT INTO t SELECT * FROM s;\nINSERT INTO v SELECT * FROM u;\nEND;\n"
    ), takes=("[jobs.orders_rt]", 'master = "local[8]"', 'into = "mart.lines"')),
    Case("Flink: settings that change results", "SET 'table.local-time-zone' = 'Asia/Shanghai';\n" + _from_dws(),
         refused=((1, "table.local-time-zone"),)),
    Case("Flink, `hologres`: the options of the seed", _from_holo(
        "'cdcMode' = 'true', 'binlogStartUpMode' = 'initial', 'sdkMode' = 'jdbc', 'binlogBatchReadSize' = '512',"
        "'binlogMaxRetryTimes' = '5', 'binlogRetryIntervalMs' = '1000'",
    ), takes=("cdc_mode = true", 'read_by = "stream"', "binlog_read_batch_size = 512", "retry_count = 6")),
    Case("Flink, `hologres`: images as rows", _from_holo("'binlogStartUpMode' = 'earliestOffset'"),
         refused=((1, "cdcMode"),)),
    Case("Flink, `hologres`: partitions and HoloHub", _from_holo(
        "'cdcMode' = 'true', 'binlogStartUpMode' = 'initial', 'partition-binlog.mode' = 'DYNAMIC',"
        "'sdkMode' = 'holohub'",
    ), refused=((1, "partition-binlog.mode"), (1, "sdkMode"))),
    Case("Flink, `hologres` sink", _from_cdc(sink=(
        f"{_HOLO}, 'tablename' = 'mart.orders', 'mutatetype' = 'insertorupdate', 'jdbcWriteBatchSize' = '512',"
        "'ignoreNullWhenUpdate' = 'true'"
    )), store=STORE,
         takes=('conflict_strategy = "update"', "auto_flush_batch_size = 512", 'progress_store = "progress"')),
    Case("Flink, `hologres` sink: created partitions", _from_cdc(sink=(
        f"{_HOLO}, 'tablename' = 'mart.orders', 'createparttable' = 'true'"
    )), store=STORE, refused=((2, "createparttable"),)),
    Case("Flink, `mysql-cdc`: copy, chunks and time limits", _from_cdc(
        "'server-id' = '5400-5404', 'scan.incremental.snapshot.chunk.size' = '20000', 'connect.timeout' = '20s',"
        "'connection.pool.size' = '10', 'heartbeat.interval' = '30s', 'server-time-zone' = 'UTC'",
    ), takes=("full_sync_binlog_batch_read_size = 20000", 'connect_timeout = "20s"', "connection_pool_size = 10")),
    Case("Flink, `mysql-cdc`: latest", _from_cdc("'scan.startup.mode' = 'latest-offset'"), takes=('start = "latest"',)),
    Case("Flink, `mysql-cdc`: a position", _from_cdc(
        "'scan.startup.mode' = 'specific-offset', 'scan.startup.specific-offset.file' = 'mysql-bin.000003',"
        "'scan.startup.specific-offset.pos' = '1234'",
    ), takes=('start = "binlog=3:1234"',)),
    Case("Flink, `mysql-cdc`: a time", _from_cdc(
        "'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '1667232000000'",
    ), takes=('start = "2022-10-31 16:00:00+00:00"',)),
    Case("Flink, `mysql-cdc`: a time without its mode", _from_cdc(
        "'scan.startup.timestamp-millis' = '1667232000000'",
    ), takes=('from = "shop.orders"',)),
    Case("Flink, `mysql-cdc`: TLS of the JDBC driver", _from_cdc(
        "'jdbc.properties.useSSL' = 'true', 'jdbc.properties.sslMode' = 'VERIFY_CA'",
    ), refused=((1, "jdbc.properties.useSSL"), (1, "sslrootcert")), takes=('sslmode = "verify-ca"',)),
    Case("Flink, `mysql-cdc`: GTIDs, and append-only", _from_cdc(
        "'scan.startup.mode' = 'earliest-offset', 'scan.read-changelog-as-append-only.enabled' = 'true'",
    ), refused=((1, "scan.startup.mode"), (1, "scan.read-changelog-as-append-only.enabled"))),
    Case("Flink, `mysql-cdc`: a pattern of tables", _from_cdc(table="order_.*"), refused=((1, "table"),)),
    *(Case(f"Flink, `mysql-cdc`: a pattern of tables, {one}", _from_cdc(table=one), refused=((1, "table"),))
      for one in ("orders_.+", "orders?", "orders{2}", "orders,lines")),
    Case("Flink, `mysql-cdc`: Debezium's own options", _from_cdc("'debezium.event.deserialization.x' = 'y'"),
         refused=((1, "debezium.event.deserialization.x"),)),
    Case("Flink, `jdbc` sink: batches", _from_cdc(sink=(
        f"{_JDBC}, 'driver' = 'org.postgresql.Driver', 'sink.buffer-flush.max-rows' = '1000',"
        "'sink.buffer-flush.interval' = '2s', 'sink.max-retries' = '5'"
    )), takes=("auto_flush_batch_size = 1000", 'auto_flush_max_interval = "2s"', "max_flush_retry_times = 5")),
    Case("Flink, `jdbc` sink: a password in the URL", _from_cdc(sink=(
        f"'connector' = 'jdbc', 'url' = 'jdbc:postgresql://mart1/mart?user=etl&password={PASSWORD}&sslmode=verify-full',"
        "'table-name' = 'orders'"
    )), refused=((2, "sslrootcert"),), takes=('user = "etl"', 'sslmode = "verify-full"', 'into = "public.orders"')),
    Case("Flink, `hologres`: TLS", _from_holo(
        "'cdcMode' = 'true', 'binlogStartUpMode' = 'initial', 'connection.ssl.mode' = 'verify-ca',"
        "'connection.ssl.root-cert.location' = '/etc/holo.crt'",
    ), takes=('sslmode = "verify-ca"', 'sslrootcert = "/etc/holo.crt"')),
    Case("Flink, `doris` sink", _from_cdc(sink=(
        f"{_DORIS}, 'jdbc-url' = 'jdbc:mysql://fe1:9031', 'sink.label-prefix' = 'x', 'sink.enable-2pc' = 'true',"
        "'sink.properties.format' = 'json', 'sink.buffer-flush.max-rows' = '50000', 'sink.enable-delete' = 'true'"
    )), store=STORE,
         takes=("port = 9031", "http_port = 8030", "auto_flush_batch_size = 50000", "ignore_delete = false")),
    Case("Flink, `doris` sink: partial columns", _from_cdc(
        sink=f"{_DORIS}, 'sink.properties.partial_columns' = 'true'",
    ), store=STORE, refused=((2, "sink.properties.partial_columns"),)),
    Case("Flink, `doris` sink without a store", _from_cdc(sink=_DORIS), refused=((2, "progress_store"),)),
    Case("Flink, `kafka`", _from_cdc(sink="'connector' = 'kafka', 'topic' = 'orders'"), refused=((2, "connector"),)),
    Case("Flink: one source, two sinks", _from_dws() + _table("u", _JDBC) + ";\nINSERT INTO u SELECT * FROM s;\n",
         refused=((1, "binlogSlotName"),)),
    Case("Flink: a view", _from_dws() + "CREATE VIEW v AS SELECT * FROM s;\n", refused=((4, "CREATE VIEW"),)),
    Case("Doris, CREATE SYNC alone", _SYNC, store=STORE,
         refused=((1, "host"), (1, "user"), (1, "host"), (1, "user"))),
    Case("Doris, CREATE SYNC, with its servers", _SYNC, source=Server("", "db1", 3306, "", "etl"),
         sink=Server("doris", "fe1", 9030, "", "etl"), store=STORE,
         takes=("[jobs.job]", 'from = "shop.lines"', 'into = "mart.order_lines"')),
    Case("canal, instance.properties with its tables", _INSTANCE + "canal.instance.filter.regex = shop\\\\.orders\n",
         sink=SINK, takes=('host = "db1"', 'user = "canal"', 'from = "shop.orders"')),
    Case("canal, a pattern of tables", _INSTANCE + "canal.instance.filter.regex = .*\\\\..*\n", sink=SINK,
         refused=((1, "table"),)),
    Case("canal, a position and columns", _INSTANCE + (
        "canal.instance.filter.regex = shop.orders\ncanal.instance.master.journal.name = mysql-bin.000003\n"
        "canal.instance.filter.field = shop.orders:id/region\n"
    ), sink=SINK, refused=((7, "canal.instance.master.journal.name"), (8, "canal.instance.filter.field"))),
    Case("Debezium, MySQL to PostgreSQL", f'{_DEBEZIUM}, "snapshot.mode": "initial"}}}}\n{_KAFKA_SINK},\n'
         '"insert.mode": "upsert", "delete.enabled": "true", "table.name.format": "mart.${topic}"}}',
         takes=('into = "mart.shop1_shop_orders"', "ignore_delete = false", 'write_mode = "auto"')),
    Case("Debezium, no snapshot from the oldest binlog", f'{_DEBEZIUM}, "snapshot.mode": "never"}}}}', sink=SINK,
         refused=((3, "snapshot.mode"),)),
    Case("Debezium, a name without the topic", f"{_DEBEZIUM}}}}}\n{_KAFKA_SINK},\n"
         '"insert.mode": "upsert", "delete.enabled": "true", "table.name.format": "mart.events"}}',
         refused=((4, "table"),)),
    Case("Debezium, the sink's defaults", f"{_DEBEZIUM}}}}}\n{_KAFKA_SINK}}}}}", refused=((4, "insert.mode"),)),
    Case("Debezium, transforms and columns", _DEBEZIUM + ', "transforms": "route",\n"transforms.route.regex": "(.*)",'
         '"column.include.list": "shop.orders.id"}}', sink=SINK,
         refused=((3, "transforms"), (4, "transforms.route.regex"), (4, "column.include.list"))),
    Case("Debezium, PostgreSQL as a source",
         '{"name": "x", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector"}}\n'
         + _DEBEZIUM + "}}", sink=SINK, refused=((1, "connector.class"),)),
    Case("holo-client, an option list", "jdbcUrl = jdbc:postgresql://hg1:80/shop\nusername = etl\n"
         f"password = {PASSWORD}\ntableName = ods.orders\nbinlogReadBatchSize = 128\nbinlogIgnoreDelete = false\n"
         "retryCount = 5\nbinlogHeartBeatIntervalMs = 1000\n", sink=SINK,
         takes=("binlog_read_batch_size = 128", "retry_count = 5", "binlog_heart_beat_interval_ms = 1000")),
    Case("holo-client, Java", 'String tableName = "ods.orders";\nconfig.setJdbcUrl("jdbc:postgresql://hg1:80/shop");\n'
         f'config.setUsername("etl"); config.setPassword("{PASSWORD}");\nconfig.setBinlogReadBatchSize(128);\n'
         'Subscribe.newStartTimeBuilder(tableName, s).setBinlogReadStartTime("2021-01-01 12:00:00+08").build();\n',
         sink=SINK, takes=("binlog_read_batch_size = 128", 'start_time = "2021-01-01 12:00:00+08:00"')),
    Case("dws-client, Java", 'String TABLE = "orders";\nnew TableConfig().withBinlog(true).withNewSystemValue(true)\n'
         '.withNeedRedistribution(false).withBinlogSlotName("orders_rt");\nDwsConfig.builder()\n'
         f'.withUrl("jdbc:gaussdb://dws1:8000/gaussdb").withUsername("etl").withPassword("{PASSWORD}")\n'
         ".withBinlogTableName(TABLE)", sink=SINK,
         takes=("need_redistribution = false", 'from = "public.orders"', 'binlog_slot_name = "orders_rt"')),
)  # fmt: skip
"""Statements in vendors' syntax over their documented options."""

_TEXT = """\
# Import a pipeline

You already have a pipeline in Flink SQL, in Binlog Load, in canal, in Debezium or in holo-client.
`slotkeeper import` prints the configuration for it, and the result of each option.

```
slotkeeper import orders.sql > config.toml
slotkeeper import sync.sql instance.properties --sink etl@fe1:9030 --sink-kind doris
slotkeeper import orders.sql --check > config.toml
```

Without a file, or with `-`, it reads standard input. It connects to no server, except with
`--check`, which checks the configuration and its servers like `slotkeeper doctor`.

`--source` and `--sink` name servers that the text does not contain, or replace those of the text.
A sink that cannot store progress rows needs `--store`, the PostgreSQL that stores them.

## What it reads

| text | what it takes |
| --- | --- |
| Flink SQL | tables of `dws`, `hologres`, `mysql-cdc`, `jdbc` and `doris`; `INSERT INTO ... SELECT`; sets; `SET` |
| Doris | `CREATE SYNC`, with canal's `instance.properties` as a second file, or with `--source` |
| canal | `instance.properties` |
| Debezium | the JSON of connectors: MySQL or MariaDB as the source, the JDBC sink into PostgreSQL |
| holo-client, dws-client | an option list (`name = value`), or the Java calls that set the options |

Statements that run on a server (`ALTER`, `CALL`, `CREATE TABLE` without a connector) need no key.

## How a statement is handled

- `INSERT INTO t SELECT * FROM s` is a channel. Flink assigns columns by position, so the declared
  columns are written as `columns`.
- Columns in the SELECT and a WHERE are the channel's `columns` and `where`.
- The statements of one statement set are one job if servers and options are the same. Any other
  INSERT is a separate job.
- An expression in the SELECT is a computed column. It is refused if its result could differ from
  Flink's.
- A JOIN or a GROUP BY is refused: a channel has one table. The statement is printed as a comment.
- A default of the vendor that differs from Slotkeeper's is written, with a comment.
- A time without an offset is refused: the vendor's server decides its zone.
- A table is found by its name as written, with its database. A name that fits several is refused.
- A division in a WHERE is refused: servers disagree on the quotient of integers.

## Refusals

An option that Slotkeeper cannot follow is refused with its line, the reason and what to do. It
stands in the configuration as an error: as the key that the configuration rejects, or as a line in
`undecided`. So the configuration is not valid, and no job starts, until you have decided. The exit
code is 2.

## Passwords

No password of the text is printed, logged or written. The configuration has `password_file`
instead, and a comment with the line of the password: write it to that file, mode 0600. The options
`--source-password-file`, `--sink-password-file` and `--store-password-file` name other files.

A JDBC URL with an `@` after the host is refused, because its password contains a `/` or a `?`.

## Statements and their results

"Text" is the vendor's tool and the options in question. Line numbers refer to the statement's
text in the test (`tests/unit/importing/test_cases.py`), which has one statement per line.

"""


def page() -> str:
    """Return the page."""
    rows = ["| text | taken | refused: line, option, reason |", "| --- | --- | --- |"]
    for case in CASES:
        made = case.made()
        number = sum(one.fate is Fate.TAKEN for one in made.remarks)
        taken = f"{number} options" + (f", as `{'`, `'.join(case.takes)}`" if case.takes else "")
        refused = "; ".join(f"{one.line} `{one.what}`: {one.text}" for one in made.refused).replace("|", "\\|")
        rows.append(f"| {case.title} | {taken} | {refused or '-'} |")
    return wrapped(_TEXT + "\n".join(rows) + "\n")
