"""Read option lists: canal's properties, Kafka Connect's JSON (Debezium), and the options of vendors' clients.

Sources of the syntax: canal, "instance.properties"; Kafka Connect, "REST Interface"; holo-client, "HoloConfig"; DWS,
"Example of Using Java Programs". A client's options are written as `name = value`, or as calls of its Java classes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from slotkeeper.core.importing.pasted import (
    CANAL,
    Fate,
    Flow,
    Option,
    Pasted,
    Remark,
    Table,
    is_secret,
    plain,
    wrong,
)

DEBEZIUM, JDBC_SINK = "debezium-mysql", "kafka-jdbc-sink"
HOLO_CLIENT, DWS_CLIENT = "holo-client", "dws-client"
_SOURCE_CLASSES = ("MySqlConnector", "MariaDbConnector")
_PLAIN_TABLE = re.compile(r"[\w$-]+(?:\\{0,2}\.)[\w$-]+")
_CALL = re.compile(
    r"\.\s*(?:set|with)([A-Z]\w*)\s*\(\s*(?:\"([^\"\n]*)\"|([\w.+-]+))\s*(?:,\s*(?:\"([^\"\n]*)\"|([\w.+-]+))\s*)?\)"
)
_CONSTANT = re.compile(r"\b(\w+)\s*=\s*\"([^\"\n]*)\"\s*;")
_LINE = re.compile(r"\s*([A-Za-z][\w.\-\[\]]*)\s*[=:]\s*(.*?)\s*")


def properties(text: str) -> list[Option]:
    """Return the options of a properties file; a line that ends in a backslash continues in the next one."""
    found: list[Option] = []
    begun, whole = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        begun = begun or number
        if not whole and line.lstrip()[:1] in ("#", "!", "[", ""):
            begun = 0
            continue
        whole += line.strip()
        if whole.endswith("\\") and not whole.endswith("\\\\"):
            whole = whole[:-1]
            continue
        match = _LINE.fullmatch(whole)
        if match is None:
            raise wrong(begun, "is not an option (name = value)", "leave the line out, and import again")
        found.append(Option(match[1], match[2], begun))
        begun, whole = 0, ""
    return found


def canal(text: str) -> Pasted:
    """Return the flows of canal's properties, one for each table in its filter."""
    options = tuple(properties(text))
    table = Table("canal", CANAL, options)
    named = table.option("canal.instance.filter.regex")
    tables = _tables(named)
    if not tables:
        return Pasted(tables=(table,))
    flows = tuple(Flow(_named(table, name), None, table.line, together=1) for name in tables)
    return Pasted(flows)


def _named(table: Table, name: str) -> Table:
    """Return the server's table `name`, with the options of `table`."""
    return Table(name, table.connector, (*table.options, Option("table", name, table.line)), table.line)


def _tables(pattern: str) -> list[str]:
    """Return the tables of a list of patterns, or nothing if one of them is a real pattern.

    >>> _tables(r"shop\\\\.orders,shop.lines"), _tables(r".*\\\\..*")
    (['shop.orders', 'shop.lines'], [])
    """
    parts = [part.strip() for part in pattern.split(",") if part.strip()]
    if not all(_PLAIN_TABLE.fullmatch(part) for part in parts):
        return []
    return [part.replace("\\", "") for part in parts]


def connect(text: str) -> Pasted:
    """Return the flows of one or several connectors of Kafka Connect, in JSON."""
    sources: list[Table] = []
    sinks: list[Table] = []
    remarks: list[Remark] = []
    for config, start in _objects(text):
        options = tuple(_options(config, text, start))
        table = Table("", "", options, line=_line(text, start))
        name = table.option("connector.class").rpartition(".")[2]
        if name in _SOURCE_CLASSES:
            sources.append(Table(table.option("topic.prefix"), DEBEZIUM, options, table.line))
        elif name == "JdbcSinkConnector":
            sinks.append(Table(table.option("topics"), JDBC_SINK, options, table.line))
        else:
            what = "is not a connector of MySQL or MariaDB, and no JDBC sink"
            remarks.append(Remark(table.line, "connector.class", Fate.REFUSED, what))
    flows = [flow for source in sources for flow in _topics(source, sinks)]
    used = {id(flow.target) for flow in flows}
    alone = [one for one in sinks if not any(one.options == flow.target.options[:-1] for flow in flows if flow.target)]
    return Pasted(tuple(flows), tuple(one for one in alone if id(one) not in used), remarks=tuple(remarks))


def _objects(text: str) -> Iterator[tuple[dict[str, object], int]]:
    """Yield the configuration of each connector, and where it begins."""
    decoder = json.JSONDecoder()
    at = 0
    while (space := re.compile(r"\s*").match(text, at)) and (at := space.end()) < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise wrong(error.lineno, f"is not valid JSON (column {error.colno})") from None
        except RecursionError:
            raise wrong(_line(text, at), "is nested too deeply") from None
        for one in value if isinstance(value, list) else [value]:
            config = one.get("config", one) if isinstance(one, dict) else None
            if not isinstance(config, dict):
                raise wrong(_line(text, at), "is not a configuration of a connector", 'it is an object with "config"')
            if "name" in one and "name" not in config:
                config = {"name": one["name"], **config}
            yield config, at
        at = end


def _options(config: dict[str, object], text: str, start: int) -> Iterator[Option]:
    for name, value in config.items():
        place = text.find(json.dumps(name, ensure_ascii=False), start)
        written = value if isinstance(value, str) else json.dumps(value)
        yield Option(name, written, _line(text, max(place, start)))


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _topics(source: Table, sinks: list[Table]) -> Iterator[Flow]:
    """Yield a flow for each table of a source, into the sink that reads its topic."""
    tables = _tables(source.option("table.include.list"))
    if not tables:
        what = "names no plain list of tables; write each table, as database.table"
        yield Flow(source, None, source.line, remarks=(Remark(source.line, "table.include.list", Fate.REFUSED, what),))
    for name in tables:
        topic = f"{source.name}.{name}"
        found = [sink for sink in sinks if topic in [one.strip() for one in sink.name.split(",")]]
        target = found[0] if found else None
        if target is not None:
            given = target.option("table.name.format") or target.option("collection.name.format")
            into = re.sub(r"\$\{topic\}", topic.replace(".", "_"), given or "${topic}")
            target = Table(into, JDBC_SINK, (*target.options, Option("table", into, target.line)), target.line)
        remarks = tuple(Remark(source.line, "topics", Fate.REFUSED, "several sinks read the topic") for _ in found[1:])
        yield Flow(_named(source, name), target, source.line, together=1, remarks=remarks)


def client(text: str) -> Pasted:
    """Return the flow of a client of Hologres or DWS; the text contains no target."""
    calls = list(_calls(text))
    options = calls or properties(text)
    dws = "DwsConfig" in text or any(plain(one.name) in ("binlogtablename", "newsystemvalue") for one in options)
    table = Table("client", DWS_CLIENT if dws else HOLO_CLIENT, tuple(options), options[0].line if options else 1)
    if not options:
        raise wrong(1, "no option was found", "known: Flink SQL, CREATE SYNC, canal, Debezium, holo-client")
    return Pasted((Flow(table, None, table.line),))


def _calls(text: str) -> Iterator[Option]:
    """Yield the options that Java code sets; a constant of the same text is replaced by its value."""
    constants = dict(_CONSTANT.findall(text))
    for call in _CALL.finditer(text):
        name, value = call[1][0].lower() + call[1][1:], call[2] if call[2] is not None else call[3]
        if call[4] is not None or call[5] is not None:
            if call[1] != "SlotOption":
                continue  # for example withTableConfig(table, configuration)
            name, value = value, call[4] if call[4] is not None else call[5]
        known = call[2] is not None or value in ("true", "false") or re.fullmatch(r"[+-]?\d[\w.]*", value)
        if value in constants:
            value, known = constants[value], True
        if known or is_secret(name):
            yield Option(name, value, _line(text, call.start()))
    for name in ("tableName", "slotName"):
        if name in constants:
            yield Option(name, constants[name], 1)


def with_canal(found: Pasted) -> Pasted:
    """Return flows of CREATE SYNC with the options of canal's own properties, if another text contained them."""
    own = next((table for table in found.tables if table.connector == CANAL), None)
    own = own or next(
        (f.source for f in found.flows if f.source and f.source.option("canal.instance.master.address")), None
    )
    synced = [flow for flow in found.flows if flow.source and flow.source.connector == CANAL and flow.target]
    if own is None or not synced:
        return found
    flows = []
    for flow in found.flows:
        if flow in synced:
            assert flow.source is not None
            options = (*(one for one in own.options if one.name != "table"), *flow.source.options)
            flows.append(replace(flow, source=replace(flow.source, options=options)))
        elif flow.source is None or flow.source.connector != CANAL:  # the channels of CREATE SYNC name canal's tables
            flows.append(flow)
    return replace(found, flows=tuple(flows), tables=tuple(one for one in found.tables if one is not own))


def read(text: str) -> Pasted:
    """Return the flows of a text of any supported kind; raises ConfigError."""
    begin = re.sub(r"\A(?:\s|--[^\n]*\n|/\*.*?\*/|#[^\n]*\n)*", "", text, flags=re.DOTALL)
    if re.match(r"\{|\[\s*\{", begin):
        return connect(text)
    if re.match(
        r"(?:create|insert|set|execute|begin|use|alter|call|drop|select|show|with|add|explain|end)\b", begin, re.I
    ):
        from slotkeeper.core.importing import statements

        return statements.read(text)
    if re.search(r"^\s*canal\.", text, re.MULTILINE):
        return canal(text)
    return client(text)
