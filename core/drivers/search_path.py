"""The search_path that a login has of its own, which our sessions do not have (ADR 0025), and what `doctor` says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slotkeeper.core.domain.finding import Finding, Level
from slotkeeper.core.sqltext import quoted


def names_of_path(path: str, user: str) -> list[str]:
    """The schemas of a search_path as a server shows it, with `$user` as that login.

    >>> names_of_path('"$user", public', "etl"), names_of_path('Ods,"My ""own"", here"', "etl")
    (['etl', 'public'], ['ods', 'My "own", here'])
    """
    names = re.findall(r'"((?:[^"]|"")*)"|([^",\s]+)', path)
    spelled = [bare.lower() if bare else inside.replace('""', '"') for inside, bare in names]
    return [user if name == "$user" else name for name in spelled if name]


def path_findings(place: str, user: str, schemas: Sequence[str]) -> Iterator[Finding]:
    """Schemas on a login's own path in which everybody may create, each as a warning."""
    for one in schemas:
        text = f"everybody may create in schema {one}, which is on the search_path of {user}, not on our sessions'"
        cure = f"for other programs of this login: REVOKE CREATE ON SCHEMA {quoted(one)} FROM PUBLIC"
        yield Finding(place, Level.WARN, f"{text}; {cure}")
