"""Where a server is and how to log in: plain values that may travel to a Spark worker.

The password is a reference (`SecretRef`), never the secret itself: each process resolves it on its own host.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slotkeeper.core.domain.secret import Secret


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
        """The endpoint in words, without anything secret.

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
