"""What every command is given by the command line: the options that all commands share, and commands to be pasted.

Typer is not loaded here: the console is opened without it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from slotkeeper.core.config.load import load_usable
from slotkeeper.core.config.model import Loaded

if TYPE_CHECKING:
    import typer

VALUED = "--config"
FLAGS = ("--ascii", "--mono", "--read-only")
NOTE = "SLOTKEEPER_NOTE"
"""The variable that holds what the Overview says of why the console was opened, a line each."""
COMPLETING = "_SLOTKEEPER_COMPLETE"
"""Set by a shell that completes a command line; the words are its arguments (`slotkeeper completion`)."""
BY_CODE = "--exit-code"
UNJUDGED = 3
"""The exit code of a monitoring plugin that could not judge ("unknown")."""
_NO_OPTIONS: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Invocation:
    """`config` is --config (None where not typed); `ascii_only`, `mono` and `read_only` are the options so named."""

    config: Path | None = None
    ascii_only: bool = False
    mono: bool = False
    read_only: bool = False
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def load(self, options: Mapping[str, object] = _NO_OPTIONS) -> Loaded:
        """The configuration that this command line means, without its refused jobs; raises ConfigError."""
        return load_usable(self.config, self.env, options)


def of(ctx: typer.Context) -> Invocation:
    """The invocation of the running command."""
    found = ctx.find_object(Invocation)
    return found if found is not None else Invocation()


def bare(args: Sequence[str]) -> Invocation | None:
    """The invocation of a line of shared options only; None for any other line, which a parser reads.

    >>> [bare(args) is None for args in ([], ["--mono", "--config=c"], ["--config"], ["--help"], ["status"])]
    [False, False, True, True, True]
    """
    config, flags = None, set()
    remaining = list(args)
    while remaining:
        word = remaining.pop(0)
        name, given, value = word.partition("=")
        if word in FLAGS:
            flags.add(word)
            continue
        value = value if given else remaining.pop(0) if remaining else ""
        if name != VALUED or not value or value.startswith("-"):
            return None
        config = Path(value)
    return Invocation(config, "--ascii" in flags, "--mono" in flags or no_colour(), "--read-only" in flags)


def option(args: Sequence[str], name: str) -> str:
    """The value of an option on a command line that is not parsed yet; "" where it is not given."""
    for place, word in enumerate(args):
        if word == "--":
            break
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and place + 1 < len(args):
            return args[place + 1]
    return ""


def judges(args: Sequence[str]) -> bool:
    """Whether a monitoring system reads the exit code: then whatever prevents a judgement is UNJUDGED.

    A wrong command line too, by the Monitoring Plugins Development Guidelines ("Plugin Return Codes").

    >>> judges(["status", "--exit-code"]), judges(["statsu", "--exit-code"]), judges(["x", "--", "--exit-code"])
    (True, True, False)
    """
    words = list(args)
    return BY_CODE in (words[: words.index("--")] if "--" in words else words)


def no_colour() -> bool:
    """Whether the environment asks for none."""
    return bool(os.environ.get("NO_COLOR"))


def installed_version() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError, version  # loads the e-mail package

    try:
        return version("slotkeeper")
    except PackageNotFoundError:  # run from a folder that was never installed
        return "unknown"


_PRINTED = re.compile(
    r"\b(slotkeeper )(?=(?:run|jobs|watch|slots|locks|errors|alerts|audit|verify|status|doctor|config)\b)"
)


class _Given:
    """What --config was, for this process."""

    config = ""


def config_given(config: str) -> None:
    """Make every command that this process prints name that file; "" for none.

    Another shell does not know a --config of this command line. It finds `$SLOTKEEPER_CONFIG` and the default file.
    """
    _Given.config = config


def pasteable(text: str) -> str:
    """A sentence or line with its commands as this process's user types them."""
    return with_config(text, _Given.config)


def with_config(text: str, config: str) -> str:
    """A sentence whose commands name the configuration that they are for, so that they can be pasted.

    >>> with_config("wait, or `slotkeeper jobs start a`", "/srv/my etl.toml"), with_config("slotkeeper doctor", "")
    ("wait, or `slotkeeper --config '/srv/my etl.toml' jobs start a`", 'slotkeeper doctor')
    """
    return _PRINTED.sub(lambda found: f"{found[1]}--config {shlex.quote(config)} ", text) if config else text
