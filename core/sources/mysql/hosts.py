"""Connect to the first of a source's servers that can be followed.

The servers are tried in the order of `hosts`. A running job continues at the server of its positions as long as that
server answers: `Endpoint.server` names it. The server that was used last is tried first, so that a server that does not
answer costs its time limit only once. Which server may continue the job's positions is not decided here (`failover`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from slotkeeper.core.domain.endpoint import Endpoint, place_of
from slotkeeper.core.drivers import my


@dataclass(frozen=True, slots=True)
class Found:
    """A server that accepted a login: its identifier, and why its binlog cannot be followed ("" if it can)."""

    server: str
    unsuitable: str = ""


def why_unsuitable(variables: Mapping[str, str]) -> str:
    """Return why a server of several is passed over; "" if it can be used.

    A replica is a suitable source if it writes the replicated transactions to its own binlog (MySQL, "Binary Logging
    Options and Variables": log_replica_updates; MariaDB and older versions: log_slave_updates).

    >>> why_unsuitable({"log_bin": "ON", "read_only": "ON", "log_slave_updates": "OFF"})
    'it is read-only and writes no replicated transactions to its binlog (log_replica_updates is off)'
    >>> why_unsuitable({"log_bin": "ON", "read_only": "ON", "log_slave_updates": "ON"})
    ''
    """
    if variables.get("log_bin", "").upper() not in ("ON", "1"):
        return "it writes no binlog (log_bin is off)"
    logs = variables.get("log_replica_updates") or variables.get("log_slave_updates", "")
    read_only = variables.get("read_only", "").upper() not in ("", "OFF", "0")
    if read_only and logs.upper() in ("OFF", "0"):
        return "it is read-only and writes no replicated transactions to its binlog (log_replica_updates is off)"
    return ""


def places(endpoint: Endpoint) -> list[Endpoint]:
    """Return the endpoints of all servers, in the order of `hosts`; the endpoint itself if it has none.

    >>> [(one.host, one.port) for one in places(Endpoint("m", "a", 1, "", "u", hosts=("a:1", "b")))]
    [('a', 1), ('b', 3306)]
    """
    found = [place_of(one) for one in endpoint.hosts]
    return [replace(endpoint, host=host, port=port or DEFAULT_PORT) for host, port in found] or [endpoint]


DEFAULT_PORT = 3_306
_lock = threading.Lock()
_used: dict[tuple[str, tuple[str, ...]], tuple[str, int]] = {}
"""The server that this process used last, by the endpoint's name and hosts."""


def connect(
    endpoint: Endpoint, attempt: Callable[[Endpoint], my.Session], see: Callable[[my.Session], Found]
) -> my.Session:
    """Return a session at the server that the endpoint names, or else at the first suitable one.

    Raises the error of the first server if none is suitable.
    """
    every, key = places(endpoint), (endpoint.name, endpoint.hosts)
    if len(every) == 1:
        return attempt(every[0])
    with _lock:
        used = _used.get(key)
    refused: list[Exception] = []
    spare: tuple[my.Session, Endpoint] | None = None
    for place in sorted(every, key=lambda one: (one.host, one.port) != used):
        session = _tried(place, attempt, see, refused)
        if session is None:
            continue
        if not endpoint.server or session[1].server == endpoint.server:
            if spare is not None:
                spare[0].close()
            spare = session[0], place
            break
        if spare is None:
            spare = session[0], place
        else:
            session[0].close()
    if spare is None:
        raise refused[0]
    with _lock:
        _used[key] = spare[1].host, spare[1].port
    return spare[0]


def _tried(
    place: Endpoint,
    attempt: Callable[[Endpoint], my.Session],
    see: Callable[[my.Session], Found],
    refused: list[Exception],
) -> tuple[my.Session, Found] | None:
    session = None
    try:
        session = attempt(place)
        found = see(session)
    except my.DriverError as error:
        if session is not None:
            session.close()
        refused.append(error)
        return None
    if not found.unsuitable:
        return session, found
    session.close()
    refused.append(my.Unusable(f"{place.host}:{place.port} cannot be used: {found.unsuitable}"))
    return None
