"""The meaning of a server's rejections: SQLSTATEs, messages for rejected logins, and suitable actions. Pure.

Sources: codes of the SQL standard and PostgreSQL; DWS, "Setting Account Security Policies"; libpq, "SSL Support".
"""

from __future__ import annotations

import re

from slotkeeper.core.errors import AccessRefused, LoginRefused

NO_RIGHT = "42501"
"""SQLSTATE insufficient_privilege, which concerns one object; the codes of a rejected login concern all objects."""
UNDEFINED_COLUMN, UNDEFINED_TABLE = "42703", "42P01"
PASSWORDS = (
    "password authentication failed",
    "login denied",
    "account has been locked",
    "(using password: yes)",
    "account is blocked",
)
"""Messages for rejections that count as a failed login of the account. DWS: "Invalid username/password,login denied",
"The account has been locked"; MySQL: errors 1045 and 3955."""
LOCKED = PASSWORDS[2]
CLOSED = "permission denied for database"
_TLS = (
    (
        ("does not support ssl",),
        'Enable TLS on {server}, or set sslmode = "disable" if the network is trusted.',
    ),
    (
        ("authentication method requirement",),
        'Set sslmode = "require" or stronger: {server} requests the password in clear text, which needs TLS.',
    ),
    (
        ("certificate verify failed",),
        "If the certificate of {server} has expired (openssl x509), renew it. If not, set sslrootcert to the"
        " certificate of its authority.",
    ),
    (
        ("does not match host name",),
        "Set host to a name in the certificate of {server}, or issue its certificate for this host.",
    ),
    (
        ("private key file", "certificate file", "could not get server's host name"),
        "Check sslrootcert, sslcert and sslkey: the key must match the certificate and have mode 0600; for an encrypted"
        " key, sslpassword_file (or _env, _command) provides its password.",
    ),
    (
        ("alert certificate", "alert bad certificate", "alert unknown ca", "alert unsupported certificate"),
        "Set sslcert and sslkey: {server} requires a client certificate that it trusts.",
    ),
    (
        ("alert handshake failure", "alert protocol version", "unsupported protocol"),
        "Upgrade TLS on {server}, or enable a cipher that this host supports: TLS 1.2 or later.",
    ),
)
"""Messages of libpq and OpenSSL for rejected connections, not for lost ones, with the corresponding actions."""
REFUSED = (
    *PASSWORDS,
    *(word for words, _ in _TLS for word in words),
    "no password supplied",
    "none of the server's sasl",
    "authentication method",
    "no pg_hba.conf entry",
    "pg_hba.conf rejects",
    "is not permitted to log in",
    CLOSED,
)
"""Messages for all kinds of rejected logins, because psycopg2 provides no SQLSTATE for an error at login."""


REFERENCE = "check the user and the password reference (password_file, password_env or password_command of that server)"


def said(text: str, words: tuple[str, ...]) -> bool:
    """Return whether a server's message contains one of the strings in `words`, ignoring case.

    >>> said("FATAL:  Invalid username/password,login denied.", REFUSED)
    True
    """
    lower = text.lower()
    return any(one in lower for one in words)


def refusal(code: str, text: str) -> bool:
    """Return whether an error is a rejected login; the code is checked, too, because other errors can contain the text.

    >>> refusal("22P02", 'invalid input: "the account has been locked"'), refusal("08006", "login denied.")
    (False, True)
    """
    return code[:2] in ("", "08", "28") and said(text, REFUSED)


def error_of(text: str) -> type[AccessRefused]:
    """Return the error class for a rejected login: `LoginRefused` if the password, which may rotate, is the cause.

    >>> error_of("FATAL:  password authentication failed").__name__, error_of("no pg_hba.conf entry").__name__
    ('LoginRefused', 'AccessRefused')
    """
    return LoginRefused if said(text, PASSWORDS) else AccessRefused


def of_line(text: str) -> bool:
    """Return whether the client or the server rejected the connection itself, before checking a password."""
    return any(said(text, words) for words, _ in _TLS)


def tls_act(text: str, server: str = "the server") -> str:
    """Return the action for a connection that `server` rejected; "" if the message is not a known TLS error."""
    return next((act.replace("{server}", server) for words, act in _TLS if said(text, words)), "")


_COLUMN = re.compile(r"column \"?(?:\w+\.)?(?P<name>[^\"]+?)\"?(?: of relation \".+\")? does not exist", re.IGNORECASE)


def column_of(text: str) -> str:
    """Return the column that does not exist according to a server's message; "" for any other message.

    >>> column_of('column "status" of relation "orders" does not exist'), column_of("column t.paid does not exist")
    ('status', 'paid')
    """
    found = _COLUMN.search(text)
    return found["name"] if found else ""


_OF_TABLE = re.compile(r"(?P<right>[A-Z, ]+) command denied to user .* for table [`'](?P<name>.+)[`']\s*$")
_OF_SERVER = re.compile(r"at least one of\) the (?P<rights>.+?) privilege")
REPLICA = "REPLICATION SLAVE, REPLICATION CLIENT"
"""The privileges needed to read a binlog; MariaDB accepts these names for REPLICATION SLAVE and BINLOG MONITOR."""


def mysql_right(text: str) -> tuple[str, str]:
    """Return (privilege, object) for the GRANT that is missing for a MySQL or MariaDB login.

    >>> mysql_right("SELECT command denied to user 'etl'@'h' for table `ods`.`t`")
    ('SELECT', 'ods.t')
    >>> mysql_right("Access denied; you need (at least one of) the SUPER, BINLOG MONITOR privilege(s)")
    ('REPLICATION SLAVE, REPLICATION CLIENT', '*.*')
    """
    if found := _OF_TABLE.search(text):
        return found["right"].strip(), found["name"].replace("`", "")
    found = _OF_SERVER.search(text)
    rights = found["rights"] if found else REPLICA
    replica = "REPLICA" in rights or "BINLOG" in rights  # SUPER, which the server names first, allows more than needed
    return REPLICA if replica else rights.split(",")[0].strip(), "*.*"


def cure(text: str) -> str:
    """Return the action for a rejected login.

    >>> cure("FATAL:  The account has been locked.")
    'ask an administrator to unlock the account (ALTER USER <user> ACCOUNT UNLOCK); then check the password'
    >>> cure("server does not support SSL, but SSL was required").partition(",")[0]
    'Enable TLS on the server'
    """
    if act := tls_act(text):
        return act
    if said(text, (CLOSED,)):
        return "GRANT CONNECT ON DATABASE to this user: `slotkeeper doctor` prints all required privileges"
    if said(text, (LOCKED,)):
        return "ask an administrator to unlock the account (ALTER USER <user> ACCOUNT UNLOCK); then check the password"
    if said(text, PASSWORDS[:1]):  # PostgreSQL's message; DWS reports "login denied"
        return REFERENCE
    return f"{REFERENCE}; on DWS, the user needs an MD5 password for psycopg2 (see README)"
