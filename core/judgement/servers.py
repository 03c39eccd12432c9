"""Explain a server's rejection by its code, then by its text: Problem, Impact, Action. Pure.

A code is an SQLSTATE (PostgreSQL, "PostgreSQL Error Codes"; DWS and Hologres use the same), or an error number of MySQL
and MariaDB (MySQL, "Server Error Message Reference"). Login errors and Doris errors have no code, so they are matched
by their text. An error that matches no entry gets the entry UNKNOWN, never another entry's action.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from slotkeeper.core.domain.refusals import column_of, mysql_right, tls_act
from slotkeeper.core.domain.text import safe, typed
from slotkeeper.core.sqltext import dotted, quoted

RETRIES = "wait: the job retries automatically and skips nothing"


@dataclass(frozen=True, slots=True)
class Message:
    """The explanation of one problem; names in braces are placeholders."""

    code: str
    """SK- and four digits, never reused for another message."""
    problem: str
    """What happened, in a few words."""
    impact: str = ""
    """What no longer works, what still works, what is lost and when; empty: the impact of its group of codes."""
    action: str = ""
    """The next thing to do, imperative; commands and statements in backquotes."""
    codes: tuple[str, ...] = ()
    """The server codes of this problem."""
    words: str = ""
    """A regular expression that matches errors without a code."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message with its placeholders filled."""

    code: str
    problem: str
    impact: str
    action: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server's rejection and its known context; a string is "" if unknown."""

    text: str
    """The server's error text."""
    code: str = ""
    """An SQLSTATE or an error number."""
    side: str = ""
    """source or sink."""
    kind: str = ""
    """The kind of server: dws, hologres, mysql, postgres, doris."""
    server: str = ""
    """The server's side and name in the configuration ("sink mart")."""
    user: str = ""
    """The login."""
    database: str = ""
    """The database of the login."""
    address: str = ""
    """host:port."""
    job: str = ""
    table: str = ""
    """The table on that server, as named in the configuration."""
    own_schema: str = ""
    """The schema of the progress table."""
    secret: Callable[[], str] = str
    """Return where the password comes from and when it was last changed; called only if needed."""


_ADMIN = "As an administrator of {server}, run "
_DOCTOR = "`slotkeeper doctor` prints every right that the jobs need."


def _cause(code: str, problem: str, action: str, codes: str = "", words: str = "") -> Message:
    return Message(code, problem, "", action, tuple(codes.split()), words)


CAUSES = (
    # access
    _cause(
        "SK-1101",
        "missing privilege",
        "{grant}",
        "42501 1142 1143 1227 1370",
        "permission denied for|command denied to user|privilege is missing|load_priv",
    ),
    _cause(
        "SK-1102",
        "password rejected",
        "Write the current password of {user} {secret}.",
        "28P01 1045 1698 1862",
        "password authentication failed|login denied|using password: yes|no password supplied",
    ),
    _cause(
        "SK-1103",
        "account locked",
        _ADMIN + "{unlock}; check the password first: another wrong password locks it again.",
        "3118 3955 4151",
        "account has been locked|account is blocked|account is locked",
    ),
    _cause(
        "SK-1104",
        "login rejected for this host, database or method",
        "{allow}",
        "28000 1044 1130 1251 1524",
        "no pg_hba.conf entry|pg_hba.conf rejects|not permitted to log in|is not allowed to connect"
        "|authentication method|none of the server's sasl",
    ),
    _cause(
        "SK-1105",
        "role does not exist",
        "Create the role {user} on {server}, with the rights that `slotkeeper doctor` prints.",
        "",
        'role ".*" does not exist',
    ),
    _cause("SK-1106", "password expired", "Change the password of {user} on {server}, then write it {secret}.", "1820"),
    # resources
    _cause(
        "SK-1201",
        "disk full",
        "Free disk space on {server}.",
        "53100 1021",
        "no space left|disk full|reach limit of disk|capacity of disk",
    ),
    _cause(
        "SK-1202",
        "out of memory",
        "Free memory on {server}: end large queries, or raise its memory limit.",
        "53200 1037 1038 1041",
        "out of memory|memory exceed|mem_limit",
    ),
    _cause(
        "SK-1203",
        "too many connections",
        "{room}",
        "53300 1040 1203 1226",
        "too many clients|too many connections|exceeds? the limit of connections|remaining connection slots",
    ),
    _cause(
        "SK-1204",
        "temporary file limit reached",
        _ADMIN + "`ALTER ROLE {user} SET temp_file_limit = -1;`, or set a higher limit.",
        "53400",
        "temp_file_limit",
    ),
    _cause(
        "SK-1205",
        "too many running loads",
        "Wait for other loads to end, or raise max_running_txn_num_per_db on {server}.",
        "",
        "running txns on db",
    ),
    _cause(
        "SK-1206",
        "too many tablet versions",
        "Wait for compaction, or load less often: raise the job's flush interval.",
        "",
        r"too many versions|TOO_MANY_VERSION|-235\b",
    ),
    # the server's own state
    _cause(
        "SK-1301",
        "session ended by an administrator",
        "No action needed: reconnecting. If it repeats, the log of {server} names who ends the sessions.",
        "57P01 1927",
        "terminating connection due to administrator",
    ),
    _cause(
        "SK-1302",
        "server process crashed",
        "Read the log of {server}: one of its processes crashed.",
        "57P02",
        "crash of another server process|postmaster exit",
    ),
    _cause(
        "SK-1303",
        "server starting up or shutting down",
        "No action needed: reconnecting. If it persists, read the log of {server}: it is starting up or shutting down.",
        "57P03 1053 1077 1079",
        "starting up|shutting down|in recovery mode|not yet accepting",
    ),
    _cause(
        "SK-1304",
        "server is read-only",
        "{writable}",
        "25006 1290 1836",
        "read-only transaction|--read-only option",
    ),
    _cause(
        "SK-1305",
        "input/output error on the server",
        "Check the disks of {server}: it cannot read or write its files.",
        "58030 58P01 XX001 XX002",
        "could not (read|write|fsync) (block|file)|input/output error",
    ),
    _cause(
        "SK-1306",
        "no backend available",
        "Start the backends of {server}: `SHOW BACKENDS` shows which are down.",
        "",
        "no available backend|no backend|failed to find.*backend|there is no scannable|no alive",
    ),
    # waiting
    _cause(
        "SK-1401",
        "lock not granted in time",
        "`slotkeeper locks {job_typed}` names the session that holds the lock and the statement that ends it.",
        "55P03 1205 YY003",
        "lock timeout|lock wait timeout",
    ),
    _cause(
        "SK-1402",
        "deadlock",
        "No action needed: retrying. If it repeats, `slotkeeper locks {job_typed}` names the other session.",
        "40P01 1213",
        "deadlock",
    ),
    _cause("SK-1403", "serialization failure", "No action needed: retrying.", "40001"),
    _cause(
        "SK-1406",
        "step cancelled while the server was working on it",
        "Find what slows {server}: a trigger, a missing index, an index on a function, a lock, a disk, other load.",
        "",
        "a step did not end in time",
    ),
    _cause(
        "SK-1404",
        "statement cancelled",
        "{cancelled}",
        "57014 3024 1969 1317",
        "canceling statement due to|did not end in time",
    ),
    _cause(
        "SK-1405",
        "idle session ended",
        "No action needed: reconnecting. Raise idle_in_transaction_session_timeout of {server} if it repeats.",
        "25P03 57P05",
        "due to idle-in-transaction timeout|due to idle-session timeout",
    ),
    # rows and shape
    _cause(
        "SK-1501",
        "row violates a constraint",
        "{row}",
        "23000 23001 23502 23503 23505 23514 23P01 1048 1062 1452",
        "null value for not null|violates .* constraint|no partition",
    ),
    _cause(
        "SK-1502",
        "value does not fit the column",
        "{row}",
        "22000 22001 22003 22007 22008 22P02 22021 1264 1366 1406",
        "too many filtered rows|data_quality|value too long for|out of range|invalid input syntax",
    ),
    _cause("SK-1601", "table does not exist", "{gone}", "42P01 1146 1051", "unknown table"),
    _cause("SK-1602", "column does not exist", "{column}", "42703 1054"),
    _cause(
        "SK-1603",
        "database does not exist",
        "Correct the database setting of {server}, or restore {database} there.",
        "3D000 1049",
        "database .* does not exist",
    ),
    _cause(
        "SK-1606",
        "schema does not exist",
        "Correct the schema of {table} in the configuration, or restore it on {server}.",
        "3F000",
    ),
    _cause(
        "SK-1604",
        "function does not exist",
        "Upgrade {server}, or choose another source kind: this version lacks a function that the job"
        " calls. `slotkeeper doctor` names it.",
        "42883 0A000",
    ),
    _cause(
        "SK-1605",
        "column type does not match",
        "Alter the column of {table} so that the source's type fits.",
        "42804 42846",
    ),
    # the connection
    _cause(
        "SK-1701",
        "connection refused",
        "Start {server} at {address}, or correct its host and port settings.",
        "2003",
        "connection refused",
    ),
    _cause(
        "SK-1702",
        "host name not found",
        "Correct the host setting of {server}, or the name service of this host.",
        "2005",
        "could not translate host name|name or service not known|temporary failure in name resolution"
        "|nodename nor servname|name resolution",
    ),
    _cause(
        "SK-1703",
        "no route to the server",
        "Check the network and firewall between this host and {address}.",
        "",
        "no route to host|network is unreachable|host is unreachable",
    ),
    _cause(
        "SK-1704",
        "server does not answer",
        "Check {server} at {address}, and the network to it.",
        "08000 1159 1161",
        "timeout expired|timed out|does not answer|connection timeout",
    ),
    _cause(
        "SK-1705",
        "connection closed by the server",
        "No action needed: reconnecting. If it repeats, read the log of {server}: a restart, a failover"
        " or a limit closed the connection.",
        "2013 2006 08P01",
        "closed the connection|server closed the line|connection reset|lost connection|eof detected"
        "|connection already closed|broken pipe",
    ),
    _cause("SK-1706", "TLS rejected", "{tls}", "3159 2026", r"\bssl\b|\btls\b|certificate|handshake"),
    _cause("SK-1707", "connection lost", "Check the network to {server}.", "08001 08003 08006 08004"),
    # the binlog
    _cause(
        "SK-1801",
        "another replica uses this server_id",
        "Find the other replica with this server_id: `SHOW REPLICAS` lists replicas (MariaDB: `SHOW REPLICA HOSTS`)."
        " If it belongs to another Slotkeeper installation, rename the slot or the job in one of them.",
        "",
        "same server_uuid|same server_id",
    ),
    _cause(
        "SK-1802",
        "binlog position purged",
        "Reset the slot to a new snapshot, and retain binlogs for longer.",
        "",
        "purged|could not find first log file|could not find gtid state",
    ),
    _cause(
        "SK-1803",
        "binlog position unknown to the server",
        "Find out whether {server} was restored or replaced; then reset the slot to a new snapshot.",
        "1236 4052",
    ),
    _cause("SK-1804", "binlog is off", "Set log_bin and binlog_format = ROW on {server}, and restart it.", "1381"),
)
"""All known causes, in the order in which their expressions are matched: narrower entries before wider ones."""
UNKNOWN = Message(
    "SK-1999", "cause not recognized", "Position held.",
    "Read `slotkeeper jobs logs {job_typed}`: it shows the preceding messages.",
)  # fmt: skip
_BY_CODE = {code: cause for cause in CAUSES for code in cause.codes}
_SILENT_CODES = ("08", "28", "57014", "42501", "1236", "4052")
"""Codes that do not determine the action: for these, the text is matched before the code."""


@cache
def _by_words() -> tuple[tuple[re.Pattern[str], Message], ...]:
    """Return the expressions with their causes; a status without errors compiles none."""
    return tuple((re.compile(cause.words, re.IGNORECASE), cause) for cause in CAUSES if cause.words)


def cause_of(code: str, text: str) -> Message:
    """Return the entry for a rejection; UNKNOWN if none matches.

    An SQLSTATE without an entry of its own gets the entry of the most general code of its class.

    >>> cause_of("42501", "").code, cause_of("", "FATAL: the account has been locked").code, cause_of("XX000", "?").code
    ('SK-1101', 'SK-1103', 'SK-1999')
    """
    by_words = next((cause for words, cause in _by_words() if words.search(text)), None)
    if by_words is not None and (not code or code.startswith(_SILENT_CODES)):
        return by_words
    if (exact := _BY_CODE.get(code)) is not None:
        return exact
    of_class = {"22": "22000", "23": "23000", "08": "08006", "53": "53200", "57P": "57P03"}
    general = next((member for start, member in of_class.items() if code.startswith(start)), "")
    return _BY_CODE.get(general) or (by_words if by_words is not None and not code else None) or UNKNOWN


IMPACTS = {
    "SK-11": "This login cannot read or write. Position held; the job tries a rejected password at most twice.",
    "SK-12": "The job retries each step, at half its size if that helps. Position held.",
    "SK-13": "The server cannot be used. Position held; the source may purge unread changes.",
    "SK-14": "The job retries the step. Position held.",
    "SK-15": 'The target lacks the row, and its lane waits; with on_bad_row = "quarantine" the lane continues.',
    "SK-16": "The lane waits. Position held.",
    "SK-17": "The job is not connected. Position held; the source may purge unread changes.",
    "SK-18": "The source cannot be read from this position.",
}
"""The impact by group of codes: `SK-` and the first two digits."""


def explain(refusal: Refusal) -> Said:
    """Return problem, impact and action of a rejection, with its names filled in."""
    return filled(cause_of(refusal.code, refusal.text), refusal)


def filled(cause: Message, refusal: Refusal) -> Said:
    """Return an entry with its placeholders filled in for a rejection."""
    problem = f"{cause.problem}: {safe(refusal.text, 300)}" if cause is UNKNOWN else safe(refusal.text, 400)
    made = {name: make(refusal) for name, make in _MADE.items() if "{" + name + "}" in cause.action}
    names = {
        "server": refusal.server or "the server",
        "user": quoted(refusal.user) if refusal.user else "the user",
        "database": quoted(refusal.database) if refusal.database else "its database",
        "address": refusal.address or "its address",
        "table": refusal.table or "the table",
        "job_typed": typed(refusal.job) if refusal.job else "JOB",
    }
    parts = {name: _fill(text, names) for name, text in made.items()}
    impact = cause.impact or IMPACTS[cause.code[:5]]
    return Said(cause.code, problem, impact, _fill(cause.action, {**names, **parts}))


def _fill(text: str, names: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), text)


_OBJECT = re.compile(
    r"permission denied for (?P<what>relation|table|view|schema|sequence|function|database) \"?(?P<name>[^\"\s]+)\"?",
    re.IGNORECASE,
)
_ROWS = "SELECT, INSERT, UPDATE, DELETE"


def _grant(refusal: Refusal) -> str:
    """Return the GRANT for the object named in the server's error, if there is one.

    MySQL: name the privilege, not the statement. An account includes a host that the error does not name, and a GRANT
    to another host can create an account (MariaDB, "GRANT", NO_AUTO_CREATE_USER).
    """
    if refusal.kind == "mysql":
        right = " ON ".join(mysql_right(refusal.text))
        return f"As an administrator of {{server}}, grant {right} to the account of {{user}}; {_DOCTOR}"
    made = _grant_plain(refusal)
    return f"{_ADMIN}`{made}`." if made else f"{_ADMIN}the GRANT that is missing: {_DOCTOR}"


def _grant_plain(refusal: Refusal) -> str:
    if refusal.kind == "doris":
        if not re.fullmatch(r"\w+\.\w+", refusal.table, re.ASCII):
            return ""  # a backquote in the name would end the command
        who = "'{}'@'%'".format(refusal.user.replace("'", "''"))
        return f"GRANT SELECT_PRIV, LOAD_PRIV ON internal.{refusal.table} TO {who};"
    found = _OBJECT.search(refusal.text)
    if found is None or not refusal.user:
        return ""
    what, name, to = found["what"].lower(), found["name"].rpartition(".")[2], quoted(refusal.user)
    if what == "schema":
        return f"GRANT USAGE ON SCHEMA {quoted(name)} TO {to};"
    if what == "database":
        return f"GRANT CONNECT ON DATABASE {quoted(name)} TO {to};"
    if what not in ("relation", "table", "view"):
        return ""
    table = refusal.table.partition(".")[2]
    if name == table:
        return f"GRANT {'SELECT' if refusal.side == 'source' else _ROWS} ON {dotted(refusal.table)} TO {to};"
    if name.startswith("slotkeeper_") and refusal.own_schema:
        rights = "SELECT, INSERT" if name.endswith("_audit") else _ROWS
        return f"GRANT {rights} ON {dotted(f'{refusal.own_schema}.{name}')} TO {to};"
    return ""


def _secret(refusal: Refusal) -> str:
    said = refusal.secret()
    return f"to {said}" if said else "to where its password reference points"


def _cancelled(refusal: Refusal) -> str:
    if "user request" in refusal.text or refusal.code == "1317":
        return "No action needed: retrying. If it repeats, the log of {server} names who cancels the statements."
    return "`slotkeeper locks {job_typed}` shows whether a lock delays it; if not, raise the job's time limits."


_CHECKED = re.compile(r"violates check constraint \"(.+)\"")
_REFERS = re.compile(r"insert or update on table .+ violates foreign key constraint \"(.+)\"")


def _row(refusal: Refusal) -> str:
    """Return the action for a rejected row: drop a target-only constraint, never the key that the job's writes use."""
    found = _CHECKED.search(refusal.text) or _REFERS.search(refusal.text)
    fits = "Alter {table} so that the row fits"
    if found and refusal.side == "sink" and refusal.table:
        fits = f"{_ADMIN}`ALTER TABLE {dotted(refusal.table)} DROP CONSTRAINT {quoted(found[1])};`"
    return f'{fits}, or set on_bad_row = "quarantine" in [jobs.{{job_typed}}.sink_options].'


_RELATION = re.compile(r"relation \"(.+?)\" does not exist", re.IGNORECASE)


def _gone(refusal: Refusal) -> str:
    if refusal.side == "source":
        return "Restore {table} on {server}, or correct the from setting of the channel."
    found = _RELATION.search(refusal.text)
    if found and found[1].rpartition(".")[2] != refusal.table.partition(".")[2]:
        return f"Restore {found[1]} on {{server}}, or remove the trigger or rule of {{table}} that refers to it."
    return "Reset the slot to a new snapshot with create_target = true, or restore {table} from a backup."


_OF_TYPE = re.compile(r"\(type (.+)\)$")


def _column(refusal: Refusal) -> str:
    name, type_ = column_of(refusal.text), _OF_TYPE.search(refusal.text)
    if name and type_ and refusal.side == "sink" and refusal.table:
        add = f"ALTER TABLE {dotted(refusal.table)} ADD COLUMN IF NOT EXISTS {quoted(name)} {type_[1]};"
        return f"{_ADMIN}`{add}`: rows applied earlier have NULL there until a new snapshot."
    named = quoted(name) if name else "the missing column"
    return f"Compare the columns of {{table}} with the job's, and add or rename {named}; `slotkeeper doctor` names it."


def _writable(refusal: Refusal) -> str:
    """Return the action for a read-only server: a standby, or a read-only setting of a role, database or server."""
    primary = "Set host of {server} to the primary if this server is a standby"
    if refusal.kind == "mysql":
        return f"{primary}; otherwise run `SET GLOBAL read_only = 0;` as its administrator."
    reset = "`ALTER ROLE {user} RESET default_transaction_read_only;`"
    return (
        f"{primary}; otherwise, as an administrator of {{server}}, run {reset}, or reset it for the database or server."
    )


def _tls(refusal: Refusal) -> str:
    return tls_act(refusal.text, "{server}") or "Check sslmode, sslrootcert, sslcert and sslkey of {server}."


def _allow(refusal: Refusal) -> str:
    if "not permitted to log in" in refusal.text and refusal.user:
        return f"{_ADMIN}`ALTER ROLE {quoted(refusal.user)} LOGIN;`."
    of = "Allow {user} to log in to {database} from this host: "
    if refusal.kind == "mysql":
        return f"{of}its account must include this host, and its GRANT the database."
    return f"{of}add a line to pg_hba.conf of {{server}} and reload it."


_LIMITED = re.compile(r'too many connections for (?P<what>role|database) "(?P<name>[^"]+)"', re.IGNORECASE)


def _room(refusal: Refusal) -> str:
    """Return the action for too many connections.

    A role and a database have their own limits (PostgreSQL, "ALTER ROLE", CONNECTION LIMIT).
    """
    found = _LIMITED.search(refusal.text)
    if found is not None:
        name = (refusal.user if found["what"].lower() == "role" else refusal.database) or found["name"]
        limit = f"ALTER {found['what'].upper()} {quoted(name)} CONNECTION LIMIT -1;"
        return f"{_ADMIN}`{limit}`, or close sessions of {quoted(name)} there."
    limit = "max_user_connections" if refusal.kind == "doris" else "max_connections"
    return f"Close idle sessions on {{server}}, or raise its limit ({limit})."


_MADE: dict[str, Callable[[Refusal], str]] = {
    "grant": _grant,
    "secret": _secret,
    "cancelled": _cancelled,
    "row": _row,
    "gone": _gone,
    "column": _column,
    "writable": _writable,
    "tls": _tls,
    "allow": _allow,
    "unlock": lambda one: (
        "ALTER USER ... ACCOUNT UNLOCK for the account of {user}"
        if one.kind == "mysql" or not one.user
        else f"`ALTER USER {quoted(one.user)} ACCOUNT UNLOCK;`"
    ),
    "room": _room,
}
