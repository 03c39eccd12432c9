"""libpq's parameters of a login, every one of them given: neither the environment nor a home's files fill any in.

libpq, "Environment Variables", "The Connection Service File", "The Password File" and "SSL Support" name what it reads
where a parameter is not given; "Parameter Key Words" what each does. An empty value counts as given.
"""

from __future__ import annotations

import os
from typing import Any

from slotkeeper.core.domain.endpoint import INSISTING, Endpoint, secret_of, socket_folder
from slotkeeper.core.errors import ConfigError

OLDEST_LIBPQ = 160_000
"""The first one that knows `require_auth` and `sslcertmode`."""
NOWHERE = "/dev/null/none"
"""A path that cannot be: where none or an empty one is given, libpq looks for a file in the home."""
ENVIRONMENT_ONLY = ("PGSERVICE", "PGDATESTYLE", "PGTZ", "PGGEQO")
"""What libpq takes from the environment and from no parameter; a service file may change any other."""
_ANY = "!sspi"
"""Any way to log in that there is here: an empty `require_auth` allows none."""
_NO_KEY_PASSWORD = "-"  # noqa: S105  (not a secret)
"""Without one, OpenSSL asks for an encrypted key's on the terminal, and waits."""

_ALWAYS = {
    "hostaddr": "",
    "passfile": NOWHERE,
    "client_encoding": "",
    "channel_binding": "prefer",
    "sslcompression": "0",
    "sslcrl": NOWHERE,
    "sslcrldir": "",
    "sslsni": "1",
    "ssl_min_protocol_version": "TLSv1.2",
    "ssl_max_protocol_version": "",
    "requirepeer": "",
    "gssencmode": "disable",  # it would count as encryption before TLS is tried
    "krbsrvname": "postgres",
    "gssdelegation": "0",
    "gsslib": "",
    "target_session_attrs": "any",
    "load_balance_hosts": "disable",
}
_SINCE = {"sslnegotiation": (170_000, "postgres")}
"""Parameters that an older libpq refuses."""


def parameters(
    endpoint: Endpoint, password: str, application_name: str, seconds: int, options: str, libpq: int
) -> dict[str, Any]:
    """The parameters of one login; `seconds` limit it, `options` are of the session, `libpq` is its version number.

    Takes out of this process's environment what no parameter overrides. Raises ConfigError for too old a libpq.
    """
    if libpq < OLDEST_LIBPQ:
        what = f"psycopg2 uses libpq {libpq // 10_000}, which cannot refuse to send a password unencrypted"
        raise ConfigError(what, "install psycopg2-binary 2.9.9 or later, or a libpq of PostgreSQL 16 or later")
    for name in ENVIRONMENT_ONLY:
        os.environ.pop(name, None)
    return {
        **_ALWAYS,
        **{name: value for name, (since, value) in _SINCE.items() if libpq >= since},
        **_tls(endpoint),
        "host": endpoint.host,
        "port": endpoint.port,
        "dbname": endpoint.database,
        "user": endpoint.user,
        "password": password,
        "application_name": application_name[:63],
        "options": options,
        "connect_timeout": seconds,
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": endpoint.socket_timeout_ms or 60_000,
    }


def _tls(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "sslmode": endpoint.sslmode,
        "sslrootcert": endpoint.sslrootcert or NOWHERE,
        "sslcertmode": "allow" if endpoint.sslcert else "disable",
        "sslcert": endpoint.sslcert or NOWHERE,
        "sslkey": endpoint.sslkey or NOWHERE,
        "sslpassword": secret_of(endpoint.key_password).now() or _NO_KEY_PASSWORD,
        "require_auth": _ANY if endpoint.sslmode in INSISTING or socket_folder(endpoint.host) else "!password",
    }
