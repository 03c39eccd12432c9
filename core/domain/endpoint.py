"""Where a server is, how to log in, and how safe the session is: TLS, and one server session per connection. Pure.

The values may travel to a Spark worker: the password is a reference (`SecretRef`), which each process resolves on its
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
    """A reference to a secret: `how` is "file", "env", "command" or "" (none); `ref` its path, name or command.

    `word` is how its keys begin: `password_file`, `sslpassword_file`, `secret_file`.
    """

    how: str = ""
    ref: str = ""
    word: str = "password"


Place = tuple[str, int]
"""A host and a port; 0 is any port that is known for it."""


def place_of(written: str) -> Place:
    """A host with a port, or with none: an IPv6 address that has a port stands in brackets.

    >>> place_of("be1:8040"), place_of("be1"), place_of("::1"), place_of("[::1]:8040")
    (('be1', 8040), ('be1', 0), ('::1', 0), ('::1', 8040))
    """
    host, colon, port = written.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        return written.strip("[]"), 0
    return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server: `name` is its name in the configuration, times are in milliseconds.

    `socket_timeout_ms` is the vendor's `connectionSocketTimeout`: 0 means no client limit. `sslrootcert`, `sslcert` and
    `sslkey` are paths on the host that connects, empty where there is none; `sslpassword` opens an encrypted `sslkey`.
    `http_port`, `backends` and `compression` are of a Doris: the port of its FE for loads, further hosts that may be
    sent the password (with a port or without, see `place_of`), and how the bodies of loads are packed.
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
    key_password: Secret | str = field(default="", repr=False, compare=False)
    """What `sslpassword` stands for: in the endpoint of a `Login` only, which never travels."""

    @property
    def place(self) -> str:
        """The endpoint as text, without a secret.

        >>> Endpoint("dws1", "h", 8000, "gaussdb", "etl").place
        'dws1 (h:8000/gaussdb as etl)'
        """
        return f"{self.name} ({self.host}:{self.port}/{self.database} as {self.user})"


@dataclass(frozen=True, slots=True)
class Login:
    """What opens one session: a server, the secret that each connect asks for its text, and the session's own name.

    A plain text as `password` is that of a server which this process started itself.
    """

    endpoint: Endpoint
    password: Secret | str = field(repr=False)
    name: str


class Secret(Protocol):
    """A password that can be exchanged while a job runs; its text is asked for at each login and retained nowhere."""

    def now(self) -> str:
        """The password as its reference says it, at most a few seconds old. Raises SecretUnread."""

    def refused(self, plain: str) -> None:
        """A server refused this password: the next `now` reads the reference again, at once after the first refusal."""

    def taken(self, plain: str) -> None:
        """A server accepted this password."""

    def accepted(self) -> str:
        """The password that a server accepted last in this process; "" where none was."""

    def hidden_in(self, text: str) -> str:
        """The text without the newest passwords of this reference, also those that are too short to mask elsewhere."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A password that has no reference: of a server that this process started itself.

    >>> Fixed("pw").hidden_in("refused: pw"), repr(Fixed("pw"))
    ('refused: ***', 'Fixed()')
    """

    plain: str = field(repr=False)

    def now(self) -> str:
        return self.plain

    def refused(self, plain: str) -> None:
        """Another one will never come."""

    def taken(self, plain: str) -> None:
        """It stays as it is."""

    def accepted(self) -> str:
        return ""

    def hidden_in(self, text: str) -> str:
        return text.replace(self.plain, MASK) if self.plain else text


def secret_of(password: Secret | str) -> Secret:
    """The same for a plain text and for a reference."""
    return Fixed(password) if isinstance(password, str) else password


MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
"""libpq's `sslmode`, the weakest first."""
INSISTING = frozenset(MODES[3:])
"""The modes that never go on without TLS."""
VERIFYING = frozenset(MODES[4:])
"""The modes that look at the server's certificate, for which they need an authority's."""
SAFEST = MODES[-1]
_OPEN = "password hashes and rows can travel unencrypted"
_LEFT_OPEN = {
    "disable": _OPEN,
    "allow": _OPEN,
    "prefer": _OPEN,
    "require": "the connection is encrypted, but any server at that address is accepted",
    "verify-ca": "any server with a certificate of that authority is accepted",
}
_CURE = 'cure: sslmode = "verify-full", with the authority\'s certificate as sslrootcert'


@dataclass(frozen=True, slots=True)
class Line:
    """What a session's line was found to be: protocol and cipher of its TLS, both empty where it has none."""

    protocol: str = ""
    cipher: str = ""


def socket_folder(host: str) -> bool:
    """Whether a host is the folder of a Unix socket, over which libpq never speaks TLS."""
    return host.startswith("/")


def loopback(host: str) -> bool:
    """Whether a host as it is written is this host; a name other than localhost may lead anywhere.

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
    """The sslmode of an endpoint that says none.

    >>> default_mode("dws.example.com"), default_mode("localhost")
    ('require', 'prefer')
    """
    return "prefer" if loopback(host) else "require"


def moved(endpoint: Endpoint, host: str, port: int) -> Endpoint:
    """The endpoint at an address that its server names: what was good enough on this host is not on the way there.

    >>> moved(Endpoint("m", "localhost", 1, "d", "u"), "10.0.0.7", 8000).sslmode
    'require'
    """
    mode = endpoint.sslmode
    if loopback(endpoint.host) and mode not in INSISTING:
        mode = default_mode(host)
    return replace(endpoint, host=host, port=port, sslmode=mode)


def weakness(endpoint: Endpoint) -> str:
    """Describe the risk of an endpoint's sslmode, with its fix; "" without one, and on this host.

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
    """What `doctor` says about a session's line.

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
NOT_KEPT = "a pooler in transaction or statement mode answers here"
REFUSALS = ("unsupported startup parameter", "unsupported options startup parameter", "statement pooling mode")
"""PgBouncer's words for a login parameter that it does not pass on, and for a transaction in statement mode."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one transaction saw: the server process that ran it, and the value of the setting that carries the mark."""

    pid: int
    mark: str


def breach(first: Sequence[Seen], second: Sequence[Seen], mark: str) -> str:
    """Why the two connections do not each keep a server session of their own; "" where they do.

    `first` has set `mark` in its first transaction; empty where the server does not let it. Equal process numbers alone
    prove nothing where there is a mark: a cluster's coordinators have numbers of their own.

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
        return "a setting of the session is gone after its transaction"
    return ""
