"""What becomes of each option of a vendor's connector: a key of the configuration, nothing, or a refusal with its fix.

The options that have a key are found in the model of keys (`slotkeeper.core.config.keys`, `keys_source`, `keys_sink`),
under their documented names; that model also has the reasons of those that do not apply. Only options of connectors
whose names the model does not contain have a rule here. Their names and defaults are those of Apache Flink CDC, "MySQL
CDC Connector"; Apache Flink, "JDBC SQL Connector"; Apache Doris, "Flink Doris Connector"; Alibaba Cloud, "Hologres
connector"; and Debezium, "MySQL connector" and "JDBC sink connector".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timezone

from slotkeeper.core.config import keys, keys_sink, keys_source
from slotkeeper.core.config.keys import CANAL as CANAL_NAMES
from slotkeeper.core.importing.lists import DEBEZIUM, DWS_CLIENT, HOLO_CLIENT, JDBC_SINK
from slotkeeper.core.importing.pasted import CANAL, Option, Table, plain, shown
from slotkeeper.core.importing.rules import (
    ADDRESSES,
    BINLOG,
    JOB,
    RETRY,
    SERVER,
    SINK_OPTIONS,
    URL,
    End,
    Rule,
    address,
    at,
    authority,
    database_of_table,
    named,
    note,
    only,
    parameter,
    password,
    refuse,
    set_place,
    set_port,
    ssl,
    unless_off,
    url,
    with_minutes,
)
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources

_LOGIN: dict[str, Rule] = {"url": url, "username": set_place("user"), "user": set_place("user"), "password": password}
_BINLOG = {
    plain(key.documented or name): at(BINLOG, keys_source.BINLOG, name) for name, key in keys_source.BINLOG.items()
}
_HOLOGRES = {
    plain(key.documented or name): at(BINLOG, keys_source.HOLOGRES, name) for name, key in keys_source.HOLOGRES.items()
}
_SINK = {
    plain(key.documented or name): at(SINK_OPTIONS, keys_sink.SINK_OPTIONS, name)
    for name, key in keys_sink.SINK_OPTIONS.items()
}
"""The rules of the options that the model of keys contains, under their documented names."""


def _newer() -> dict[str, Rule]:
    """Return the rules of the DWS connector's 2.x names, from the names of their 1.x keys."""
    found: dict[str, Rule] = {}
    for name, instead in keys_sink.NEWER_NAMES.items():
        if instead in keys_sink.SINK_OPTIONS:
            found[plain(name)] = at(SINK_OPTIONS, keys_sink.SINK_OPTIONS, instead)
        elif instead.partition(" ")[0] in keys.RETRY:
            found[plain(name)] = at(RETRY, keys.RETRY, instead.partition(" ")[0])
        else:
            found[plain(name)] = refuse(instead.removeprefix("nothing: "))
    return found | {
        "dwsclientjdbcurl": url,
        "dwsclientjdbcusername": set_place("user"),
        "dwsclientjdbcpassword": password,
    }


_RETRIES = note("[jobs.X.retry] sets the waits between retries")
_POOL = note("each task has its own session")
_KAFKA = note("there is no Kafka between source and target")
_SLOT = at(BINLOG, keys_source.BINLOG, "binlog_slot_name")
_DWS = {**_LOGIN, "tablename": named, "binlogtablename": named}
_CHECKED = "has no effect with need_redistribution = false; remove one of the two"
_NODES = unless_off("needRedistribution", _BINLOG["checknodechangeinterval"], _CHECKED)
_DWS_SOURCE = {**_BINLOG, **_DWS, "checknodechangeinterval": _NODES}
_DWS_SINK = {**_SINK, **_newer(), **_DWS}


def _startup(end: End, option: Option) -> None:
    """Convert `scan.startup.mode` of mysql-cdc."""
    mode = option.value.lower()
    if mode in ("initial", "latest-offset"):
        end.take(JOB, "start", mode.removesuffix("-offset"), option)
    elif mode == "snapshot":
        end.take(BINLOG, "binlog", False, option, "one copy, without changes")
    elif mode == "timestamp" and end.table.option("scan.startup.timestamp-millis").isdecimal():
        end.note(option, "start has the time")
    elif mode == "specific-offset" and end.table.option("scan.startup.specific-offset.file"):
        _offset(end, option)
    else:
        end.refuse(option, 'set start to "initial", "latest", a time with its offset, or "binlog=FILE:POSITION"')


def _offset(end: End, option: Option) -> None:
    """Convert a start at a position of the binlog; docs/mysql.md describes its form."""
    number = re.search(r"\.0*(\d+)$", end.table.option("scan.startup.specific-offset.file"))
    place = end.table.option("scan.startup.specific-offset.pos")
    if number is None or not place.isdecimal():
        end.refuse(option, 'set start = "binlog=NUMBER:POSITION"')
    else:
        end.take(JOB, "start", f"binlog={number[1]}:{place}", option)


def _millis(end: End, option: Option) -> None:
    if end.table.option("scan.startup.mode").lower() != "timestamp":
        end.note(option, "has no effect: scan.startup.mode is not timestamp")
        return
    try:
        moment = datetime.fromtimestamp(int(option.value) / 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        end.refuse(option, "must be a number of milliseconds since 1970")
        return
    end.take(JOB, "start", moment.isoformat(" "), option)


_MYSQL_CDC: dict[str, Rule] = {
    **_LOGIN,
    "hostname": set_place("host"),
    "port": set_port(),
    "databasename": database_of_table,
    "tablename": named,
    "serverid": note("a reader's server_id is derived from source, slot and table"),
    "servertimezone": note("TIMESTAMP values are read in UTC, as the binlog contains them"),
    "scanstartupmode": _startup,
    "scanstartuptimestampmillis": _millis,
    "scanstartupspecificoffsetfile": note("part of start"),
    "scanstartupspecificoffsetpos": note("part of start"),
    "scanstartupspecificoffsetgtidset": refuse("a start at GTIDs is not supported; name a position, or a time"),
    "scanstartupspecificoffsetskipevents": refuse("a job never starts inside a transaction; remove it"),
    "scanstartupspecificoffsetskiprows": refuse("a job never starts inside a transaction; remove it"),
    "scanincrementalsnapshotenabled": note("a copy is always made in chunks, without locks"),
    "scanincrementalsnapshotchunksize": at(BINLOG, keys_source.BINLOG, "full_sync_binlog_batch_read_size"),
    "scanincrementalsnapshotchunkkeycolumn": note("chunks follow the primary key"),
    "scansnapshotfetchsize": note("a chunk is read as one stream"),
    "scanincrementalcloseidlereaderenabled": note("Spark tasks end by themselves"),
    "scannewlyaddedtableenabled": note("each table is a channel"),
    "scanincrementalsnapshotbackfillskip": only("false", "the copy and the changes always meet exactly; remove it"),
    "scanreadchangelogasappendonlyenabled": only("false", "each change keeps its type; remove this setting"),
    "connecttimeout": at(SERVER, keys.MYSQL.keys, "connect_timeout"),
    "connectmaxretries": _RETRIES,
    "connectionpoolsize": at(BINLOG, keys_source.BINLOG, "connection_pool_size"),
    "heartbeatinterval": note("the server sends a heartbeat every second"),
    "chunkmetagroupsize": note("chunks are rows of the progress tables"),
    "chunkkeyevendistributionfactorupperbound": note("chunks are cut by rows"),
    "chunkkeyevendistributionfactorlowerbound": note("chunks are cut by rows"),
    "debeziumsnapshotmode": refuse("set start instead"),
}


def _sdk_mode(end: End, option: Option) -> None:
    if option.value.lower() in ("jdbc", "jdbc_fixed"):
        end.take(BINLOG, "read_by", "stream", option)
    else:
        end.refuse(option, "HoloHub is not supported; set read_by to sql or stream", BINLOG)


def _tries(end: End, option: Option) -> None:
    """Convert a number of retries to `retry_count`, which includes the first attempt."""
    if option.value.isdecimal() and int(option.value) < 1_000:
        end.take(BINLOG, "retry_count", int(option.value) + 1, option, "with the first attempt")
    else:
        end.refuse(option, "must be a number below 1000", BINLOG)


def _start_of_slot(end: End, option: Option) -> None:
    """Convert `start_time`; `start_lsn` has priority ("Technical Principle of Hologres Binlog")."""
    if end.table.option("start_lsn"):
        end.note(option, "start_lsn has priority, as in Hologres")
    else:
        at(BINLOG, keys_source.HOLOGRES, "start_time")(
            end, Option(option.name, with_minutes(option.value), option.line)
        )


def _database(end: End, option: Option) -> None:
    if "@" in option.value:
        end.refuse(option, "names a compute group; write only the database", SERVER)
    else:
        set_place("database")(end, option)


_HOLOGRES_LOGIN: dict[str, Rule] = {
    **_LOGIN,
    "jdbcurl": url,
    "endpoint": address(),
    "dbname": _database,
    "tablename": named,
    "table": named,
    "connectionsslmode": ssl,
    "sslmode": ssl,
    "connectionsslrootcertlocation": authority,
    "sslrootcertlocation": authority,
    "connectionmaxidlems": _POOL,
    "connectionmaxalivems": _POOL,
    "jdbcconnectionmaxidlems": _POOL,
    "metacachettl": note("columns are compared in every check, not cached"),
    "jdbcmetacachettl": note("columns are compared in every check, not cached"),
    "retrysleepinitms": _RETRIES,
    "retrysleepstepms": _RETRIES,
    "jdbcretrycount": _RETRIES,
    "jdbcretrysleepinitms": _RETRIES,
    "jdbcretrysleepstepms": _RETRIES,
    "appname": note("sessions are named slotkeeper/<job>/<epoch>"),
}
_PARTITIONS = refuse("a channel has no partitions; write one channel for each partition's table")
_HOLOGRES_SOURCE: dict[str, Rule] = {
    **_HOLOGRES,
    **_HOLOGRES_LOGIN,
    "sourcebinlog": at(BINLOG, keys_source.HOLOGRES, "binlog"),
    "sourcebinlogstartupmode": at(BINLOG, keys_source.HOLOGRES, "binlog_start_up_mode"),
    "sourcebinlogbatchsize": at(BINLOG, keys_source.HOLOGRES, "binlog_read_batch_size"),
    "binlogbatchreadsize": at(BINLOG, keys_source.HOLOGRES, "binlog_read_batch_size"),
    "batchsize": at(BINLOG, keys_source.HOLOGRES, "binlog_read_batch_size"),
    "sourcebinlogcompressionenabled": at(BINLOG, keys_source.HOLOGRES, "enable_compression"),
    "sourcebinlogreadmode": _sdk_mode,
    "sdkmode": _sdk_mode,
    "sourcebinlogchangelogmode": only("upsert", "each record is applied according to its type; write UPSERT"),
    "upsertsource": only("true", "each record is applied according to its type; write true"),
    "jdbcbinlogslotname": _SLOT,
    "slotname": _SLOT,
    "binlogmaxretrytimes": _tries,
    "binlogretryintervalms": at(BINLOG, keys_source.HOLOGRES, "binlog_retry_interval"),
    "binlogreadstarttime": _start_of_slot,
    "starttime": _start_of_slot,
    "startlsn": at(BINLOG, keys_source.HOLOGRES, "start_lsn"),
    "binlogreadtimeoutms": at(BINLOG, keys_source.HOLOGRES, "binlog_read_timeout"),
    "jdbcscanfetchsize": note("a chunk is read as one stream"),
    "sourcescanfetchsize": note("a chunk is read as one stream"),
    "enablefilterpushdown": note("a channel's where is evaluated for each row"),
    "parallelindex": note("each shard is a lane"),
    "consumergroup": note("sessions are named slotkeeper/<job>/<epoch>"),
    "partitionbinlogmode": only("disable", "a channel has no partitions; write one channel for each partition's table"),
    "binlogpartitionsubscribemode": only("disable", "one channel for each partition's table"),
    "partitionvaluestoread": _PARTITIONS,
    "sourcebinlogpartitionbinlogmode": only("disable", "one channel for each partition's table"),
}
_CONFLICTS = {"insertorignore": "ignore", "insertorreplace": "replace", "insertorupdate": "update"}


def _mutate(end: End, option: Option) -> None:
    found = _CONFLICTS.get(plain(option.value))
    if found is None:
        end.refuse(option, f"conflict_strategy is one of {', '.join(_CONFLICTS.values())}", SINK_OPTIONS)
    else:
        end.take(SINK_OPTIONS, "conflict_strategy", found, option)


def _delete_strategy(end: End, option: Option) -> None:
    named = option.value.upper()
    if named in ("IGNORE_DELETE", "DELETE_ROW_ON_PK"):
        end.take(SINK_OPTIONS, "ignore_delete", named == "IGNORE_DELETE", option)
    else:
        end.refuse(option, "a delete removes the row, or is ignored (ignore_delete)", SINK_OPTIONS)


_IN_SINK = keys_sink.SINK_OPTIONS
_ROWS = at(SINK_OPTIONS, _IN_SINK, "auto_flush_batch_size")
_INTERVAL = at(SINK_OPTIONS, _IN_SINK, "auto_flush_max_interval")
_ATTEMPTS = at(SINK_OPTIONS, _IN_SINK, "max_flush_retry_times")
_HOLOGRES_SINK: dict[str, Rule] = {
    **_SINK,
    **_HOLOGRES_LOGIN,
    "mutatetype": _mutate,
    "sinkonconflictaction": _mutate,
    "sinkdeletestrategy": _delete_strategy,
    "jdbcwritebatchsize": _ROWS,
    "sinkinsertbatchsize": _ROWS,
    "jdbcwriteflushinterval": _INTERVAL,
    "jdbcwritebatchbytesize": note("a step ends by rows and time"),
    "sdkmode": only("jdbc", "rows are written through SQL; write jdbc"),
    "createparttable": only("false", "partitions are not created; remove it"),
    "partitionrouter": only("false", "partitions cannot be chosen; remove it"),
    "partialinsertenabled": only("false", "write the columns in the SELECT instead"),
}
_JDBC: dict[str, Rule] = {
    **_LOGIN,
    "tablename": named,
    "table": named,
    "driver": note("no JDBC driver is used"),
    "connectionmaxretrytimeout": _RETRIES,
    "sinkparallelism": _SINK["sinkparallelism"],
}
_JDBC_SINK: dict[str, Rule] = {
    **_JDBC,
    "sinkbufferflushmaxrows": _ROWS,
    "sinkbufferflushinterval": _INTERVAL,
    "sinkmaxretries": _ATTEMPTS,
}


def _query_port(end: End, option: Option) -> None:
    """Convert the FE's URL of MySQL's protocol to its port for queries."""
    found = URL.fullmatch(option.value.strip())
    port = found[2].rpartition(":")[2] if found else ""
    set_port()(end, Option(option.name, port, option.line))


_LOAD = note("Slotkeeper sets the headers of its loads")
_DORIS: dict[str, Rule] = {
    **_LOGIN,
    "fenodes": address(http=True),
    "tableidentifier": named,
    "jdbcurl": _query_port,
    "benodes": lambda end, option: end.take(
        SERVER, "backends", [one.strip() for one in option.value.split(",") if one.strip()], option
    ),
    "autoredirect": note("loads follow the FE to its backends"),
    "sinklabelprefix": note("labels are derived from job, table and position"),
    "sinkenable2pc": note("a load is repeated under its label until it is visible"),
    "sinkenabledelete": lambda end, option: end.take(
        SINK_OPTIONS, "ignore_delete", option.value.lower() == "false", option, "enable-delete, reversed"
    ),
    "sinkmaxretries": _ATTEMPTS,
    "sinkbatchsize": _ROWS,
    "sinkbatchinterval": _INTERVAL,
    "sinkbufferflushmaxrows": _ROWS,
    "sinkbufferflushmaxbytes": note("a step ends by rows and time"),
    "sinkbufferflushinterval": _INTERVAL,
    "sinkbuffersize": _POOL,
    "sinkbuffercount": _POOL,
    "sinkenablebatchmode": note("a step is always one batch"),
    "sinkcheckinterval": _POOL,
    "sinkparallelism": _SINK["sinkparallelism"],
    "sinkpropertiesformat": _LOAD,
    "sinkpropertiesreadjsonbyline": _LOAD,
    "sinkpropertiesstripouterarray": _LOAD,
    "sinkpropertiescolumnseparator": _LOAD,
    "sinkpropertieslinedelimiter": _LOAD,
    "sinkignoreupdatebefore": at(SINK_OPTIONS, _IN_SINK, "ignore_update_before"),
    "dorisrequestretries": _ATTEMPTS,
    "dorisrequestconnecttimeoutms": at(SERVER, keys.DORIS.keys, "connect_timeout"),
    "dorisrequestconnecttimeout": at(SERVER, keys.DORIS.keys, "connect_timeout"),
    "dorisenablehttps": only("false", "set sslmode and sslrootcert"),
}


def _insert_mode(end: End, option: Option) -> None:
    if option.value.lower() in ("upsert", "update"):
        mode = "auto" if option.value.lower() == "upsert" else "update"
        end.take(SINK_OPTIONS, "write_mode", mode, option)
    else:
        end.refuse(option, "insert fails for a row that exists; write upsert, or update", SINK_OPTIONS)


def _delete_enabled(end: End, option: Option) -> None:
    end.take(SINK_OPTIONS, "ignore_delete", option.value.lower() != "true", option, "delete.enabled, reversed")


_DEBEZIUM: dict[str, Rule] = {
    "databasehostname": set_place("host"),
    "databaseport": set_port(),
    "databaseuser": set_place("user"),
    "databasepassword": password,
    "databaseserverid": _MYSQL_CDC["serverid"],
    "databaseincludelist": note("each table is a channel"),
    "tableincludelist": note("each table is a channel"),
    "table": named,
    "columnincludelist": refuse("write columns in each channel"),
    "columnexcludelist": refuse("write columns in each channel, without those"),
    "topicprefix": _KAFKA,
    "databaseservername": _KAFKA,
    "includeschemachanges": note("on_schema_change decides what follows a change of columns"),
    "tombstonesondelete": _KAFKA,
    "connecttimeoutms": at(SERVER, keys.MYSQL.keys, "connect_timeout"),
    "heartbeatintervalms": note("the server sends a heartbeat every second"),
    "snapshotfetchsize": note("a chunk is read as one stream"),
    "snapshotlockingmode": note("a copy needs no lock"),
    "databasesslmode": ssl,
    "maxbatchsize": note("a range ends at a transaction's end: see [jobs.X.sync]"),
    "maxqueuesize": note("a range ends at a transaction's end: see [jobs.X.sync]"),
    "pollintervalms": at(BINLOG, keys_source.BINLOG, "binlog_sleep_time"),
    "gtidsourceincludes": refuse("one server's binlog is read; name its standbys in hosts"),
    "decimalhandlingmode": note("values are mirrored unchanged"),
    "timeprecisionmode": note("values are mirrored unchanged"),
    "bigintunsignedhandlingmode": note("values are mirrored unchanged"),
    "binaryhandlingmode": note("values are mirrored unchanged"),
    "eventprocessingfailurehandlingmode": only("fail", "no change is ever skipped; write fail"),
    "skippedoperations": only("none", "use ignore_delete of [jobs.X.sink_options] for deletes; remove it"),
}


def _snapshot_mode(end: End, option: Option) -> None:
    found = {"initial": "initial", "when_needed": "initial", "no_data": "latest"}  # never: from the oldest binlog
    mode = option.value.lower()
    if mode == "initial_only":
        end.take(BINLOG, "binlog", False, option, "one copy, without changes")
    elif mode in ("schema_only", *found):
        end.take(JOB, "start", found.get(mode, "latest"), option)
    else:
        end.refuse(option, 'set start to "initial", "latest", or a position')


_DEBEZIUM["snapshotmode"] = _snapshot_mode
_CONNECT: dict[str, Rule] = {
    "name": note("the job has its own name"),
    "connectorclass": note("names the kind of server"),
    "tasksmax": note("each table is a lane; [jobs.X.spark] master sets how many run at once"),
    "topics": note("each table is a channel"),
}
_CONNECT_SINK: dict[str, Rule] = {
    **_JDBC,
    "connectionurl": url,
    "connectionusername": set_place("user"),
    "connectionuser": set_place("user"),
    "connectionpassword": password,
    "insertmode": _insert_mode,
    "deleteenabled": _delete_enabled,
    "primarykeymode": only("record_key", "the key is the source's primary key; write record_key"),
    "pkmode": only("record_key", "the key is the source's primary key; write record_key"),
    "primarykeyfields": refuse("the key is the source's primary key; remove it"),
    "pkfields": refuse("the key is the source's primary key; remove it"),
    "schemaevolution": only("none", "columns are not added silently; see on_schema_change, and write none"),
    "autocreate": only("false", "set create_target = true in the channel; write false"),
    "autoevolve": only("false", "columns are not added silently; see on_schema_change, and write false"),
    "batchsize": _ROWS,
    "maxretries": _ATTEMPTS,
    "flushmaxretries": _ATTEMPTS,
    "flushretrydelayms": _RETRIES,
    "databasetimezone": only("utc", "values are mirrored unchanged; write UTC"),
    "usetimezone": only("utc", "values are mirrored unchanged; write UTC"),
    "tablenameformat": note("names the target table"),
    "collectionnameformat": note("names the target table"),
    "fieldincludelist": refuse("write columns in each channel"),
    "fieldexcludelist": refuse("write columns in each channel, without those"),
    "truncateenabled": only("false", "a TRUNCATE stops the table; write false"),
    "dialectname": note("the URL names the kind of server"),
    "quoteidentifiers": note("names are always quoted"),
}
_PREFIXES: Mapping[str, tuple[tuple[str, Rule], ...]] = {
    DEBEZIUM: (
        ("schema.history.internal", _KAFKA), ("database.history", _KAFKA), ("key.converter", _KAFKA),
        ("value.converter", _KAFKA), ("topic.creation", _KAFKA), ("errors.", _KAFKA), ("signal.", _KAFKA),
    ),
    JDBC_SINK: (
        ("key.converter", _KAFKA), ("value.converter", _KAFKA), ("errors.", _KAFKA), ("consumer.override", _KAFKA),
        ("connection.pool", _POOL),
    ),
}  # fmt: skip
_TYPED_UNWRAP = re.compile(r"io\.debezium\.transforms\.ExtractNewRecordState")


def _master(end: End, option: Option) -> None:
    host, _, port = option.value.strip().partition(":")
    set_place("host")(end, Option(option.name, host, option.line))
    set_port()(end, Option(option.name, port or "3306", option.line))


_CANAL_TAKEN: dict[str, Rule] = {
    "table": named,
    "type": note("the server is read without canal"),
    "canalinstancemasteraddress": _master,
    "canalinstancedbusername": set_place("user"),
    "canalinstancedbpassword": password,
    "canalinstanceconnectioncharset": note("text is read in each column's character set"),
    "canalinstancefilterregex": note("each table is a channel"),
    "canalinstancedefaultdatabasename": note("each channel names its database"),
    "canalinstancegtidon": note("GTIDs are used if the server has them"),
    "canalinstancetsdbenable": note("columns are read from the binlog's own metadata"),
    "canalinstancefilterblackregex": refuse("each table is a channel: leave out the channels instead"),
    "canalinstancefilterfield": refuse("write columns in each channel"),
    "canalinstancefilterblackfield": refuse("write columns in each channel, without those"),
    "canalinstancestandbyaddress": refuse("name both servers in hosts of [sources.X]"),
    "canalinstancerdsaccesskey": refuse("binlogs in object storage are not read; remove it"),
}
_CANAL: dict[str, Rule] = {
    **{plain(name): note(because) for name, _, because in CANAL_NAMES},
    **_CANAL_TAKEN,
    "canalusername": note("the login to canal; the server's own login is in canal's instance.properties"),
    "canalpassword": note("the login to canal; the server's own login is in canal's instance.properties"),
}


def _start_of_canal(end: End, option: Option) -> None:
    if option.value.strip():
        end.refuse(option, 'set start = "binlog=NUMBER:POSITION", a time with its offset, or "latest"')
    else:
        end.note(option, "not set")


SOURCES: Mapping[str, tuple[str, Mapping[str, Rule]]] = {
    "dws": ("dws", _DWS_SOURCE),
    DWS_CLIENT: ("dws", _DWS_SOURCE),
    "hologres": ("hologres", _HOLOGRES_SOURCE),
    HOLO_CLIENT: ("hologres", _HOLOGRES_SOURCE),
    "mysql-cdc": ("mysql", _MYSQL_CDC),
    "jdbc": ("", _JDBC),
    DEBEZIUM: ("mysql", {**_CONNECT, **_DEBEZIUM}),
    CANAL: ("mysql", _CANAL),
}
"""The kind of source of each connector, or "" if its URL decides, and the rules of its options."""
SINKS: Mapping[str, tuple[str, Mapping[str, Rule]]] = {
    "dws": ("dws", _DWS_SINK),
    "hologres": ("hologres", _HOLOGRES_SINK),
    "jdbc": ("", _JDBC_SINK),
    "doris": ("doris", _DORIS),
    JDBC_SINK: ("", {**_CONNECT, **_CONNECT_SINK}),
}


def read_end(table: Table, as_source: bool, secrets: Collection[str] = ()) -> End:
    """Return one end of a flow, with a line for each option of its connector."""
    known = SOURCES if as_source else SINKS
    end = End(table)
    role = "source" if as_source else "sink"
    if table.connector not in known:
        names = ", ".join(name for name in known if name not in (CANAL, JDBC_SINK))
        option = next((o for o in table.options if plain(o.name) in ("connector", "connectortype")), None)
        option = option or Option("connector", "", table.line)
        end.refuse(option, f"is not a connector of a {role} that can be imported (known: {names})")
        return end
    end.kind, rules = known[table.connector]
    if as_source:
        _defaults_of_source(end)
    else:
        _defaults_of_sink(end)
    for option in table.options:
        name = plain(option.name)
        if name in ("connector", "connectortype"):
            continue
        if rule := rules.get(name) or _by_prefix(table, option):
            rule(end, option)
        else:
            named = replace(option, name=shown(option.name, secrets))  # a misplaced quote can make a value a name
            end.refuse(named, "is unknown; remove it if it does not matter here")
    kinds = sources.KINDS if as_source else sinks.KINDS
    if end.kind not in kinds:
        found = next((one for one in table.options if plain(one.name) in ADDRESSES), Option("url", "", table.line))
        end.kind = ""
        end.refuse(found, f"names no {role} that can be imported (known kinds: {', '.join(kinds)})")
    mode = next((line for line in end.lines.get(SERVER, ()) if line.key == "sslmode"), None)
    if mode is not None and str(mode.value).startswith("verify") and not end.sets(SERVER, "sslrootcert"):
        text = f"{mode.value} needs it; set sslrootcert to the file with the authority's certificate"
        end.refuse(Option("sslrootcert", "", mode.remark.line), text, SERVER)
    return end


def _defaults_of_source(end: End) -> None:
    """Add the defaults of a connector that differ from those of the configuration."""
    table, here = end.table, Option("binlog", "", end.table.line)
    if table.connector in ("mysql-cdc", DEBEZIUM, CANAL, HOLO_CLIENT) or (
        table.connector == DWS_CLIENT and not table.option("binlog")
    ):
        if table.option("scan.startup.mode") != "snapshot" and table.option("snapshot.mode") != "initial_only":
            end.take(BINLOG, "binlog", True, here, "the connector always reads changes")
    elif table.connector == "jdbc":
        end.take(BINLOG, "binlog", False, here, "the connector makes one copy")
    if table.connector == "dws" and table.option("binlog") == "true" and not table.option("binlogSlotName"):
        at(BINLOG, keys_source.BINLOG, "binlog_slot_name", "not set: the name of the mapping table")(
            end, Option("binlogSlotName", table.name, table.line)
        )
    if table.connector == "hologres" and table.option("binlog") == "true":
        if not table.option("cdcMode") and not table.option("upsertSource"):
            text = "is not set: the connector appends images; write 'cdcMode' = 'true' to apply them"
            end.refuse(Option("cdcMode", "", table.line), text, BINLOG)
        if not (table.option("binlogStartUpMode") or table.option("startTime")):
            end.take(BINLOG, "binlog_start_up_mode", "earliest_offset", Option("binlogStartUpMode", "", table.line),
                     "not set: the connector's default")  # fmt: skip


def _defaults_of_sink(end: End) -> None:
    """Add the defaults of a connector that differ from those of the configuration."""
    table = end.table
    if table.connector == JDBC_SINK:
        if not table.option("insert.mode"):
            text = "is not set: insert, which fails for a row that exists; write upsert"
            end.refuse(Option("insert.mode", "", table.line), text, SINK_OPTIONS)
        if not table.option("delete.enabled"):
            end.take(SINK_OPTIONS, "ignore_delete", True, Option("delete.enabled", "", table.line),
                     "not set: the connector's default")  # fmt: skip
    if table.option("fenodes") and not table.option("doris.enable.https"):
        option = Option("doris.enable.https", "", table.line)
        end.take(SERVER, "sslmode", "disable", option, "not set: the connector loads through HTTP")


def _by_prefix(table: Table, option: Option) -> Rule | None:
    if table.connector == CANAL and option.name.endswith((".journal.name", ".position", ".timestamp", ".gtid")):
        return _start_of_canal
    if table.connector == CANAL and not option.value.strip():
        return note("not set")
    if option.name.startswith("transforms"):
        unwraps = _TYPED_UNWRAP.match(option.value) or option.value.strip() == "unwrap"
        return _KAFKA if unwraps or ".unwrap." in option.name else refuse("transforms are not applied; remove it")
    if option.name.startswith("jdbc.properties."):
        return parameter
    return next((rule for prefix, rule in _PREFIXES.get(table.connector, ()) if option.name.startswith(prefix)), None)
