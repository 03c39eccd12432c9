"""Whether a connection keeps one server session, from what two connections saw of it in turn. Pure.

PgBouncer, "Features" (SQL feature map for pooling modes): in transaction and statement mode a server connection is
assigned for one transaction or statement, so that SET, advisory locks, temporary tables and PREPARE do not last, and
reach other clients. Odyssey (`pool "transaction"`), PgCat and RDS Proxy share server sessions in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
