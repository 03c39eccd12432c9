"""The part of the command line that all commands share: common options, and commands for users to paste.

This module does not load Typer, because the console opens without it, and `--version` reads no configuration.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from slotkeeper.core.config.model import Loaded

VALUED = "--config"
VERSION = "--version"
FLAGS = ("--ascii", "--mono", "--read-only")
NOTE = "SLOTKEEPER_NOTE"
"""The variable with the reasons why the console was opened, one per line, for the Overview screen."""
COMPLETING = "_SLOTKEEPER_COMPLETE"
"""Set by a shell that completes a command line; the arguments are the typed words (`slotkeeper completion`)."""
STATUS, JSON, BY_CODE = "status", "--json", "--exit-code"
UNJUDGED = 3
"""The exit code of a monitoring plugin for "unknown"."""
_NO_OPTIONS: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options that all commands share: `config` is the value of --config or None; the others are flags."""

    config: Path | None = None
    ascii_only: bool = False
    mono: bool = False
    read_only: bool = False
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def load(self, options: Mapping[str, object] = _NO_OPTIONS) -> Loaded:
        """Load the configuration of this command line, without its rejected jobs. Raises ConfigError."""
        from slotkeeper.core.config.load import load_usable

        return load_usable(self.config, self.env, options)

    def state(self, given: Path | None) -> tuple[Loaded | None, Path]:
        """Return the configuration, if one is read, and the state folder: `given`, configured, or the default."""
        from slotkeeper.core.config.load import default_state_dir
        from slotkeeper.core.config.model import NoConfig

        if given is not None:
            return None, given
        try:
            loaded = self.load()
        except NoConfig:
            return None, default_state_dir(self.env)
        return loaded, loaded.state_dir


def of(ctx: typer.Context) -> Invocation:
    """Return the invocation of the running command."""
    found = ctx.find_object(Invocation)
    return found if found is not None else Invocation()


def bare(args: Sequence[str]) -> Invocation | None:
    """Return the invocation of a command line with shared options only; None for any other line, which needs a parser.

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


def asks_version(args: Sequence[str]) -> bool:
    """Return whether a command line has only `--version` and shared options.

    >>> [asks_version(args) for args in (["--version"], ["--mono", "--version"], [], ["--version", "status"])]
    [True, True, False, False]
    """
    return VERSION in args and bare([word for word in args if word != VERSION]) is not None


def status_asked(args: Sequence[str]) -> tuple[Invocation, bool, bool] | None:
    """Return the invocation of `status`, and whether --json and --exit-code are given; None if a parser is needed.

    >>> asked = status_asked(["--config", "c.toml", "status", "--json"])
    >>> asked is not None and (str(asked[0].config), *asked[1:])
    ('c.toml', True, False)
    >>> status_asked(["status", "--help"]), status_asked(["--json", "status"]), status_asked(["jobs", "status"])
    (None, None, None)
    """
    remaining, asked = list(args), False
    shared: list[str] = []
    flags = set()
    while remaining:
        word = remaining.pop(0)
        if word == STATUS and not asked:
            asked = True
        elif asked and word in (JSON, BY_CODE):
            flags.add(word)
        else:
            shared += [word, *remaining[:1]] if word == VALUED else [word]
            del remaining[: word == VALUED]
    found = bare(shared) if asked else None
    return None if found is None else (found, JSON in flags, BY_CODE in flags)


def modules_loaded() -> None:
    """Resume garbage collection if it was suspended while modules loaded; it then ignores the objects of these
    modules."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def option(args: Sequence[str], name: str) -> str:
    """Return the value of an option on an unparsed command line; "" if the option is not given."""
    for place, word in enumerate(args):
        if word == "--":
            break
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and place + 1 < len(args):
            return args[place + 1]
    return ""


def judges(args: Sequence[str]) -> bool:
    """Return whether a monitoring system reads the exit code, so that any error before a verdict exits with UNJUDGED.

    This includes a wrong command line (Monitoring Plugins Development Guidelines, "Plugin Return Codes").

    >>> judges(["status", "--exit-code"]), judges(["statsu", "--exit-code"]), judges(["x", "--", "--exit-code"])
    (True, True, False)
    """
    words = list(args)
    return BY_CODE in (words[: words.index("--")] if "--" in words else words)


def no_colour() -> bool:
    """Return whether the environment disables colors (NO_COLOR)."""
    return bool(os.environ.get("NO_COLOR"))


_PRINTED = re.compile(
    r"\b(slotkeeper )(?=(?:run|jobs|watch|slots|locks|errors|alerts|audit|verify|status|doctor|config)\b)"
)


class _Given:
    """The value of --config, for this process."""

    config = ""


def config_given(config: str) -> None:
    """Add `--config` with this file to every command that this process prints; "" adds nothing.

    This is needed because another shell uses `$SLOTKEEPER_CONFIG` or the default file, not this command line's
    --config.
    """
    _Given.config = config


def pasteable(text: str) -> str:
    """Return a text with its commands completed, so that the user of this process can paste them."""
    return with_config(text, _Given.config)


def with_config(text: str, config: str) -> str:
    """Return a text with --config added to its commands, so that they can be pasted.

    >>> with_config("wait, or `slotkeeper jobs start a`", "/srv/my etl.toml"), with_config("slotkeeper doctor", "")
    ("wait, or `slotkeeper --config '/srv/my etl.toml' jobs start a`", 'slotkeeper doctor')
    """
    return _PRINTED.sub(lambda found: f"{found[1]}--config {shlex.quote(config)} ", text) if config else text


def load_when_used(name: str) -> ModuleType:
    """Return a module that is executed when an attribute is first used, so that a command loads only its own.

    Raises ImportError if the module does not exist. Source: Python documentation, importlib, "Implementing lazy
    imports".
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module {name}", name=name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    parent, _, own = name.rpartition(".")
    setattr(sys.modules[parent], own, found)  # the import statement does the same
    return found
