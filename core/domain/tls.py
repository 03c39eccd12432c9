"""How far TLS is insisted on, what each mode leaves open, and what a session has negotiated, in words. Pure.

libpq, "SSL Support" (Protection Provided in Different Modes).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.finding import Finding, Level

MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
"""libpq's `sslmode`, the weakest first."""
INSISTING = frozenset(MODES[3:])
"""The modes that never go on without TLS."""
VERIFYING = frozenset(MODES[4:])
"""The modes that look at the server's certificate, for which they need an authority's."""
SAFEST = MODES[-1]
_OPEN = "passwords' hashes and rows may go over the line unencrypted"
_LEFT_OPEN = {
    "disable": _OPEN,
    "allow": _OPEN,
    "prefer": _OPEN,
    "require": "the line is encrypted, but whoever answers at that address is taken for the server",
    "verify-ca": "any server with a certificate of that authority is taken for this one",
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
    """Whether a host as it is written is this machine; a name other than localhost may lead anywhere.

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
    """The endpoint at an address that its server names: what was good enough on this machine is not on the way there.

    >>> moved(Endpoint("m", "localhost", 1, "d", "u"), "10.0.0.7", 8000).sslmode
    'require'
    """
    mode = endpoint.sslmode
    if loopback(endpoint.host) and mode not in INSISTING:
        mode = default_mode(host)
    return replace(endpoint, host=host, port=port, sslmode=mode)


def weakness(endpoint: Endpoint) -> str:
    """What an endpoint's sslmode leaves open, and the cure; empty where nothing, and on this machine.

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
    'the line is TLSv1.3 with AES; sslmode = "verify-full": the certificate is verified, and names h'
    """
    said = f"the line is {line.protocol} with {line.cipher}" if line.protocol else "the line is not encrypted"
    if endpoint.sslmode in VERIFYING and line.protocol:
        names = f", and names {endpoint.host}" if endpoint.sslmode == SAFEST else ""
        said = f'{said}; sslmode = "{endpoint.sslmode}": the certificate is verified{names}'
    if loopback(endpoint.host):
        return Finding(place, Level.OK, f"{said}; it stays on this machine")
    weak = weakness(endpoint)
    if endpoint.sslmode in VERIFYING:
        return Finding(place, Level.WARN if weak else Level.OK, f"{said}; {weak.partition(': ')[2]}" if weak else said)
    return Finding(place, Level.WARN, f"{said}; {weak}")
