"""The type of a malformed configuration; `malformed.py` and `malformed_exact.py` list the cases."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    says: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)


def case(name: str, text: str, *says: str, **env: str) -> Case:
    return Case(name, text, says, env)
