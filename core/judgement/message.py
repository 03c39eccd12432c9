"""A message in its three parts: Problem, Impact, Action, each with the code by which a page is found. Pure."""

from __future__ import annotations

from dataclasses import dataclass

NOTHING = "No action needed"
RETRIES = "wait: retrying automatically, position held, nothing skipped"


@dataclass(frozen=True, slots=True)
class Message:
    """One thing that can be wrong; braces name what is put in."""

    code: str
    """SK- and four digits, never given to another message."""
    problem: str
    """What happened, in a few words."""
    impact: str = ""
    """What no longer works, what still does, what is lost and when."""
    action: str = ""
    """The next thing to do, imperative; commands and statements in backquotes."""
    codes: tuple[str, ...] = ()
    """A server's codes that mean it."""
    words: str = ""
    """A regular expression for the sentences that mean it, where there is no code."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message with its names put in."""

    code: str
    problem: str
    impact: str
    action: str
