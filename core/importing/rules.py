"""The rules of vendors' options: how each is expressed in the configuration.

An option with a key is read with that key's own reader, and an invalid value is refused with the reader's rule. No
message contains a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import unquote

from slotkeeper.core.config.keys import SERVER as SERVER_KEYS
from slotkeeper.core.config.keys import Key, Section, snake
from slotkeeper.core.config.values import BadValue
from slotkeeper.core.config.values import authority as authority_file
from slotkeeper.core.domain.endpoint import MODES
from slotkeeper.core.importing.pasted import Fate, Option, Remark, Table, is_secret, plain, shown

SERVER, JOB, BINLOG, SINK_OPTIONS, RETRY = "server", "job", "binlog", "sink_options", "retry"
"""The tables of a configuration that an option can belong to; `server` is [sources.X] or [sinks.X]."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the configuration, with what became of the option; `value` is None if the option has no key."""

    remark: Remark
    key: str = ""
    value: object = None


ADDRESSES = frozenset(
    re.findall(
        r"\S+",
        """
    url jdbcurl connectionurl dwsclientjdbcurl endpoint dbname username user hostname host port fenodes
    databasehostname databaseport databaseuser connectionusername connectionuser dwsclientjdbcusername
    canalinstancemasteraddress canalinstancedbusername
    """,
    )
)
"""The options that contain the address or the user of a server."""


@dataclass(slots=True)
class End:
    """One end of a flow in the terms of the configuration: the kind of server, its table, and the lines of its options.

    `kind` is empty if no kind of server fits. `password` is the line of the password in the text, or 0.
    """

    table: Table
    kind: str = ""
    name: str = ""
    """The table as schema.table."""
    schema: str = ""
    place: dict[str, object] = field(default_factory=dict)
    """The address: host, port, database and user, as far as the text contains them."""
    password: int = 0
    lines: dict[str, list[Line]] = field(default_factory=dict)

    def _remark(self, option: Option, fate: Fate, text: str) -> Remark:
        return Remark(option.line, shown(option.name), fate, text)

    def take(self, part: str, key: str, value: object, option: Option, text: str = "") -> None:
        self.lines.setdefault(part, []).append(Line(self._remark(option, Fate.TAKEN, text), key, value))

    def note(self, option: Option, text: str) -> None:
        """Add an option that needs no key."""
        self.lines.setdefault(JOB, []).append(Line(self._remark(option, Fate.UNNEEDED, text)))

    def refuse(self, option: Option, text: str, part: str = JOB, key: str = "") -> None:
        """Add a refusal; with `key`, the configuration's own check rejects that key with the same reason."""
        self.lines.setdefault(part, []).append(Line(self._remark(option, Fate.REFUSED, text), key))

    def sets(self, part: str, key: str) -> bool:
        """Return whether a line sets or refuses this key."""
        return any(line.key == key for line in self.lines.get(part, ()))


Rule = Callable[[End, Option], None]


def typed(value: str) -> object:
    """Return an option's value, which vendors write as text, with the type that the configuration expects.

    >>> typed("true"), typed("5000"), typed("5 s"), typed("10 min")
    (True, 5000, '5s', '10min')
    """
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if re.fullmatch(r"-?[0-9]{1,18}", value):
        return int(value)
    spaced = re.fullmatch(r"([0-9]+)\s*(ms|s|m|min|h|d)", value)
    return f"{spaced[1]}{spaced[2]}" if spaced else value


def at(part: str, section: Section, key: str, text: str = "") -> Rule:
    """Return the rule of an option that is a key of a table; an invalid value is refused with the key's own rule."""

    def rule(end: End, option: Option) -> None:
        found: Key = section[key]
        if found.because:
            end.refuse(option, found.because, part, key)
            return
        read = found.read or str
        value = typed(option.value)
        if isinstance(value, str) and not _readable(read, value):  # vendors write EARLIEST-OFFSET and earliestOffset
            spelled = (value.lower().replace("-", "_"), snake(value))
            value = next((one for one in spelled if _readable(read, one)), value)
        try:
            read(value)
        except BadValue as error:
            end.refuse(option, f"{key} {error}", part)
            return
        if key in ("start_time", "binlog_start_time"):
            _time(end, option, part, key)
            return
        end.take(part, key, value, option, text)

    return rule


def _readable(read: Callable[[object], object], value: object) -> bool:
    try:
        read(value)
    except BadValue:
        return False
    return True


def _time(end: End, option: Option, part: str, key: str) -> None:
    """Convert a time only if it has an offset: without one, the vendor's server decides the zone, here UTC applies."""
    if datetime.fromisoformat(option.value.strip()).tzinfo is None:
        hint = (
            f"{key} without an offset is read in UTC here, but in the server's time zone there; "
            'add the offset, such as "+08:00"'
        )
        end.refuse(option, hint, part)
    else:
        end.take(part, key, option.value.strip(), option)


def unless_off(other: str, rule: Rule, text: str) -> Rule:
    """Return the rule of an option that is refused if another option is false."""
    return lambda end, option: (
        end.refuse(option, text, BINLOG) if end.table.option(other).lower() == "false" else rule(end, option)
    )


def note(text: str) -> Rule:
    """Return the rule of an option that needs no key."""
    return lambda end, option: end.note(option, text)


def refuse(text: str) -> Rule:
    """Return the rule of an option that is refused."""
    return lambda end, option: end.refuse(option, text)


def only(value: str, text: str) -> Rule:
    """Return the rule of an option that needs no key with this value, and is refused with any other."""
    return lambda end, option: (
        end.note(option, "as here") if option.value.lower() == value else end.refuse(option, text)
    )


def set_place(key: str) -> Rule:
    def rule(end: End, option: Option) -> None:
        if not re.fullmatch(r"[^\s=<>{}]+", option.value.strip()):  # a line without its end can contain the next option
            end.refuse(option, f"is a placeholder, or not one word; write the {key}", SERVER)
            return
        read = SERVER_KEYS.keys[key].read or str
        if not _readable(read, option.value.strip()):
            end.refuse(option, f"contains no valid {key}; write it", SERVER)
            return
        end.place[key] = option.value.strip()
        end.take(SERVER, key, end.place[key], option)

    return rule


def _valid_port(written: str) -> bool:
    return bool(re.fullmatch(r"[0-9]{1,5}", written)) and 0 < int(written) <= 65_535


def set_port(key: str = "port") -> Rule:
    def rule(end: End, option: Option) -> None:
        if not _valid_port(option.value.strip()):
            end.refuse(option, f"{key} must be a number from 1 to 65535", SERVER)
            return
        end.place[key] = int(option.value)
        end.take(SERVER, key, end.place[key], option)

    return rule


def password(end: End, option: Option) -> None:
    end.password = option.line


def named(end: End, option: Option) -> None:
    end.name = option.value.strip()


def database_of_table(end: End, option: Option) -> None:
    end.schema = option.value.strip()


_DRIVER = frozenset(
    re.findall(
        r"\S+",
        """
    applicationname connecttimeout sockettimeout logintimeout tcpkeepalive targetservertype loadbalancehosts
    loggerlevel rewritebatchedstatements rewritebatchedinserts characterencoding useunicode autoreconnect
    servertimezone batchmode allowpublickeyretrieval usecursorfetch zerodatetimebehavior tinyint1isbit
    reloggeneratedkeys preparethreshold defaultrowfetchsize binarytransfer
    """,
    )
)
"""Parameters of JDBC drivers that change only how the driver works."""
URL = re.compile(r"jdbc:([a-z]+)://([^/?#]*)(?:/([^?#;]*))?(?:\?(.*))?", re.DOTALL | re.IGNORECASE)
_OF_URL = {"gaussdb": "dws", "opengauss": "dws", "dws": "dws", "postgresql": "postgres", "hologres": "hologres"}


def url(end: End, option: Option) -> None:
    """Convert the address of a JDBC URL; of its parameters, only those of the login and of TLS have keys."""
    found = URL.fullmatch(option.value.strip())
    if found is None:
        end.refuse(option, "write it as jdbc:KIND://host:port/database", SERVER)
        return
    kind, places, database, rest = found[1].lower(), found[2], found[3] or "", found[4] or ""
    places = places.rpartition("@")[2]
    end.kind = end.kind or _OF_URL.get(kind, "mysql" if kind in ("mysql", "mariadb") else "")
    if "@" in database + rest:  # a password with / or ? ends the host too early
        end.refuse(option, "has an @ after the host; write host, user and password as options of their own", SERVER)
        return
    if "," in places:
        end.refuse(option, "names several servers; name one, or the address of a load balancer", SERVER)
        return
    host, colon, port = places.partition(":")
    set_place("host")(end, Option(option.name, host, option.line))
    if colon and not _valid_port(port):
        end.refuse(option, "its port is not a number; write the port", SERVER)
    else:
        usual = {"postgres": 5432, "mysql": 3306}.get(end.kind)
        if colon or usual:
            end.place["port"] = int(port or str(usual))
            end.take(SERVER, "port", end.place["port"], option)
    if end.kind == "mysql":
        end.schema = end.schema or unquote(database)
    elif database:
        set_place("database")(end, Option(option.name, unquote(database), option.line))
    for pair in rest.split("&"):
        name, _, value = pair.partition("=")
        if name:
            parameter(end, Option(name, unquote(value), option.line))


def parameter(end: End, option: Option) -> None:
    """Convert a parameter of the JDBC driver, from its URL or from an option `jdbc.properties.NAME`."""
    own = option.name.startswith("jdbc.properties.")
    name = plain(option.name.removeprefix("jdbc.properties."))
    if is_secret(option.name):
        password(end, option)
    elif name in ("user", "username"):
        set_place("user")(end, option)
    elif name == "sslmode":
        ssl(end, option)
    elif name == "usessl" and option.value.lower() == "false":
        end.note(option, "sslmode decides")
    elif name == "sslrootcert":
        authority(end, option)
    elif name == "currentschema":
        end.schema = option.value
        end.take(SERVER, "", None, option, "the schema of its tables")
    elif name in _DRIVER:
        end.note(option, "a parameter of the JDBC driver")
    else:
        # in a URL, it can be part of a password with an & that is not written as %26
        named = option if own else replace(option, name="an option")
        end.refuse(named, "a parameter of the JDBC driver without a key here (TLS: sslmode); remove it", SERVER)


def address(http: bool = False) -> Rule:
    """Return the rule of an option with host:port; of several FEs of Doris, the first is used."""

    def rule(end: End, option: Option) -> None:
        first = option.value.split(",")[0].strip()
        host, _, port = first.removeprefix("http://").partition(":")
        set_place("host")(end, Option(option.name, host, option.line))
        set_port("http_port" if http else "port")(
            end, Option(option.name, port or ("8030" if http else "80"), option.line)
        )

    return rule


def with_minutes(value: str) -> str:
    """Return a time with the minutes of its offset, which PostgreSQL does not need.

    >>> with_minutes("2021-01-01 12:00:00+08")
    '2021-01-01 12:00:00+08:00'
    """
    return re.sub(r"([+-]\d\d)$", r"\1:00", value) if re.search(r":\d\d[+-]\d\d$", value) else value


def authority(end: End, option: Option) -> None:
    """Convert the path of the file with the authority's certificate."""
    if not _readable(authority_file, option.value):
        end.refuse(option, "names no file; set sslrootcert", SERVER)
        return
    end.take(SERVER, "sslrootcert", option.value, option, "the same file on this host")


_MODES_OF_MYSQL = {
    "disabled": "disable", "preferred": "prefer", "required": "require", "verify-identity": "verify-full",
}  # fmt: skip
"""MySQL Connector/J, "sslMode", and Debezium, "database.ssl.mode"."""


def ssl(end: End, option: Option) -> None:
    """Convert a TLS mode from a vendor's spelling."""
    mode = option.value.lower().replace("_", "-")
    mode = _MODES_OF_MYSQL.get(mode, mode)
    if mode in MODES:
        end.take(SERVER, "sslmode", mode, option)
    else:
        end.refuse(option, f"sslmode is one of {', '.join(MODES)}", SERVER)
