"""A server's address and login, and the security of its connections: TLS and one server session per connection. Pure.

The values can be sent to a Spark worker: the password is a reference (`SecretRef`), which each process resolves on its
own host at each login. TLS: libpq, "SSL Support" (Protection Provided in Different Modes).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from slotkeeper.core.domain.finding import Finding, Level
from slotkeeper.core.redaction import MASK


@dataclass(frozen=True, slots=True)
class SecretRef:
    """A reference to a secret: `how` is "file", "env", "command" or "" (none); `ref` is its path, name or command.

    `word` is the first part of its configuration key, for example `password` in `password_file`.
    """

    how: str = ""
    ref: str = ""
    word: str = "password"


Place = tuple[str, int]
"""A host and a port; port 0 means the ports reported for the host."""


def place_of(written: str) -> Place:
    """Parse a host with or without a port; an IPv6 address with a port is in brackets.

    >>> place_of("be1:8040"), place_of("be1"), place_of("::1"), place_of("[::1]:8040")
    (('be1', 8040), ('be1', 0), ('::1', 0), ('::1', 8040))
    """
    host, colon, port = written.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        return written.strip("[]"), 0
    return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server: `name` is its name in the configuration; times are in milliseconds.

    `socket_timeout_ms` is the vendor's `connectionSocketTimeout`; 0 means no client-side limit. `sslrootcert`,
    `sslcert` and `sslkey` are paths on the connecting host, empty if not set; `sslpassword` decrypts an encrypted
    `sslkey`. `hosts` are the servers of a MySQL source in the order in which they are tried, with or without a port;
    `host` and `port` are the first of them. `server` identifies the server that is expected to answer, "" for none.
    `http_port`, `backends` and `compression` are for Doris: the FE's port for loads, further hosts to which
    the password can be sent (with or without a port, see `place_of`), and the compression of load requests.
    """

    name: str
    host: str
    port: int
    database: str
    user: str
    password: SecretRef = SecretRef()
    sslmode: str = "prefer"
    sslrootcert: str = ""
    sslcert: str = ""
    sslkey: str = ""
    sslpassword: SecretRef = SecretRef()
    connect_timeout_ms: int = 10_000
    socket_timeout_ms: int = 0
    http_port: int = 0
    backends: tuple[str, ...] = ()
    compression: str = "none"
    hosts: tuple[str, ...] = ()
    server: str = ""
    key_password: Secret | str = field(default="", repr=False, compare=False)
    """The secret of `sslpassword`; set only in the endpoint of a `Login`, which is never sent to another process."""

    @property
    def address(self) -> Endpoint:
        """The endpoint without the server that is expected there."""
        return replace(self, server="")

    @property
    def place(self) -> str:
        """The endpoint as text, without a secret.

        >>> Endpoint("dws1", "h", 8000, "gaussdb", "etl").place
        'dws1 (h:8000/gaussdb as etl)'
        """
        return f"{self.name} ({self.host}:{self.port}/{self.database} as {self.user})"


@dataclass(frozen=True, slots=True)
class Login:
    """The data for opening one session: a server, the secret that is read at each login, and the session's name.

    `password` is a plain string only for a server that this process started itself.
    """

    endpoint: Endpoint
    password: Secret | str = field(repr=False)
    name: str


class Secret(Protocol):
    """A password that can be rotated while a job is running; it is read at each login and never stored."""

    def now(self) -> str:
        """Return the password from its reference, at most a few seconds old. Raises SecretUnread."""

    def refused(self, plain: str) -> None:
        """Record a rejected password: `now` then reads the reference again, immediately after the first rejection."""

    def taken(self, plain: str) -> None:
        """Record that a server accepted this password."""

    def accepted(self) -> str:
        """Return the password that a server last accepted in this process; "" if there is none."""

    def hidden_in(self, text: str) -> str:
        """Return the text with this reference's latest passwords masked, even those too short to mask elsewhere."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A password without a reference, for a server that this process started itself.

    >>> Fixed("pw").hidden_in("refused: pw"), repr(Fixed("pw"))
    ('refused: ***', 'Fixed()')
    """

    plain: str = field(repr=False)

    def now(self) -> str:
        return self.plain

    def refused(self, plain: str) -> None:
        """Do nothing: there is no other password."""

    def taken(self, plain: str) -> None:
        """Do nothing: the password does not change."""

    def accepted(self) -> str:
        return ""

    def hidden_in(self, text: str) -> str:
        return text.replace(self.plain, MASK) if self.plain else text


def secret_of(password: Secret | str) -> Secret:
    """Return a `Secret` for a plain string; return a `Secret` unchanged."""
    return Fixed(password) if isinstance(password, str) else password


MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
"""The values of libpq's `sslmode`, weakest first."""
INSISTING = frozenset(MODES[3:])
"""The modes that require TLS."""
VERIFYING = frozenset(MODES[4:])
"""The modes that verify the server's certificate, which requires the certificate of its authority."""
SAFEST = MODES[-1]
_OPEN = "password hashes and rows can travel unencrypted"
_LEFT_OPEN = {
    "disable": _OPEN,
    "allow": _OPEN,
    "prefer": _OPEN,
    "require": "the connection is encrypted, but any server at that address is accepted",
    "verify-ca": "any server with a certificate of that authority is accepted",
}
_CURE = 'fix: sslmode = "verify-full", with the authority\'s certificate as sslrootcert'


@dataclass(frozen=True, slots=True)
class Line:
    """The TLS protocol and cipher of a session's connection, both empty without TLS."""

    protocol: str = ""
    cipher: str = ""


def socket_folder(host: str) -> bool:
    """Return whether a host is the folder of a Unix socket, over which libpq never uses TLS."""
    return host.startswith("/")


def loopback(host: str) -> bool:
    """Return whether a configured host is this host; a name other than localhost counts as a different host.

    >>> [loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "/run/postgresql")]
    [True, True, True, True, True]
    >>> [loopback(host) for host in ("10.0.0.1", "127.example.com", "::", "localhost.example.com", "0.0.0.0")]
    [False, False, False, False, False]
    """
    if socket_folder(host) or host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def default_mode(host: str) -> str:
    """Return the sslmode of an endpoint that sets none.

    >>> default_mode("dws.example.com"), default_mode("localhost")
    ('require', 'prefer')
    """
    return "prefer" if loopback(host) else "require"


def moved(endpoint: Endpoint, host: str, port: int) -> Endpoint:
    """Return the endpoint with an address reported by its server; an sslmode safe only on this host is made stricter.

    >>> moved(Endpoint("m", "localhost", 1, "d", "u"), "10.0.0.7", 8000).sslmode
    'require'
    """
    mode = endpoint.sslmode
    if loopback(endpoint.host) and mode not in INSISTING:
        mode = default_mode(host)
    return replace(endpoint, host=host, port=port, sslmode=mode)


def weakness(endpoint: Endpoint) -> str:
    """Describe the risk of an endpoint's sslmode, with its fix; "" if there is none, or if the server is on this host.

    >>> weakness(Endpoint("m", "h", 1, "d", "u", sslmode="verify-full"))
    ''
    >>> weakness(Endpoint("m", "h", 1, "d", "u", sslmode="require")).split(":")[0]
    'sslmode = "require"'
    """
    mode = endpoint.sslmode
    if mode == SAFEST or loopback(endpoint.host):
        return ""
    return f'sslmode = "{mode}": {_LEFT_OPEN[mode]}; {_CURE}'


def line_finding(place: str, endpoint: Endpoint, line: Line) -> Finding:
    """Return the finding of `doctor` about the TLS protection of a session's connection.

    >>> line_finding("sink m", Endpoint("m", "h", 1, "d", "u", sslmode="verify-full"), Line("TLSv1.3", "AES")).text
    'the connection uses TLSv1.3 with AES; sslmode = "verify-full": the certificate is verified, and names h'
    """
    uses = f"uses {line.protocol} with {line.cipher}" if line.protocol else "is not encrypted"
    said = f"the connection {uses}"
    if endpoint.sslmode in VERIFYING and line.protocol:
        names = f", and names {endpoint.host}" if endpoint.sslmode == SAFEST else ""
        said = f'{said}; sslmode = "{endpoint.sslmode}": the certificate is verified{names}'
    if loopback(endpoint.host):
        return Finding(place, Level.OK, f"{said}; it stays on this host")
    weak = weakness(endpoint)
    if endpoint.sslmode in VERIFYING:
        return Finding(place, Level.WARN if weak else Level.OK, f"{said}; {weak.partition(': ')[2]}" if weak else said)
    return Finding(place, Level.WARN, f"{said}; {weak}")


CURE = "connect to the server directly, or set the pooler to session mode (PgBouncer: pool_mode = session)"
NOT_KEPT = "the address belongs to a pooler in transaction or statement mode"
REFUSALS = ("unsupported startup parameter", "unsupported options startup parameter", "statement pooling mode")
"""PgBouncer's messages for a login parameter that it does not pass on, and for a transaction in statement mode."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An observation in one transaction: the server process's pid, and the value of the setting with the marker."""

    pid: int
    mark: str


def breach(first: Sequence[Seen], second: Sequence[Seen], mark: str) -> str:
    """Return the reason why two connections do not have separate server sessions; "" if they do.

    The first connection has set the marker `mark` in its first transaction; `mark` is empty if the server does not
    allow that. If a marker was set, equal pids do not prove a shared session, because each coordinator of a cluster
    assigns pids separately.

    >>> breach([Seen(7, "0.5"), Seen(7, "0.5")], [Seen(9, "0"), Seen(9, "0")], "0.5")
    ''
    >>> breach([Seen(7, "0.5")], [Seen(7, "0.5")], "0.5")
    'another connection got the same server process (7)'
    """
    for one in (first, second):
        pids = list(dict.fromkeys(seen.pid for seen in one))
        if len(pids) > 1:
            return f"the server process changes between transactions ({pids[0]}, then {pids[1]})"
    shared = {seen.pid for seen in first} & {seen.pid for seen in second}
    if any(seen.mark == mark for seen in second) if mark else shared:
        return f"another connection got the same server process ({first[0].pid})"
    if any(seen.mark != mark for seen in first):
        return "a session setting is lost after its transaction"
    return ""
