"""Types of record fields that add information to Python's types for codecs and schemas. Pure.

Numbers are at least 0 unless their type specifies otherwise.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

SIGNED = "signed"
"""Marks a number that can be negative."""

Moment = Annotated[float, datetime]
"""Seconds since 1970; in JSON output, RFC 3339 in UTC."""
MomentOrNone = Annotated[float | None, datetime]
Signed = Annotated[int, SIGNED]
SignedOrNone = Annotated[int | None, SIGNED]
Positive = Annotated[int, 1]
"""A whole number of at least 1."""
TextOrNull = Annotated[str, None]
"""A string; an empty string is null in JSON output."""
