"""What a command says of jobs that the configuration refuses, while it serves the others.

Next door: `core.config.load` refuses them, `console.cli.select` raises the error of one that is named.
"""

from __future__ import annotations

from console.cli import diagnostics
from core.config.model import Loaded


def of(loaded: Loaded | None) -> dict[str, str]:
    """The refused jobs, each with its sentence and what to do."""
    refused = loaded.refused if loaded else {}
    return {name: str(error) + (f" ({error.hint})" if error.hint else "") for name, error in refused.items()}


def say(loaded: Loaded | None) -> dict[str, str]:
    """The same, once a line for each has gone to stderr."""
    found = of(loaded)
    for name, sentence in found.items():
        diagnostics.warn(f"job {name} is refused: {sentence}")
    return found
