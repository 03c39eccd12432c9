"""Types of fields of records that say more than Python's own: what a codec and a schema need to know beside them. Pure.

A whole number and a number are not below 0 unless their type says so.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

SIGNED = "signed"
"""Marks a number that may be below 0."""

Moment = Annotated[float, datetime]
"""Seconds since 1970; JSON for others has RFC 3339 in UTC."""
MomentOrNone = Annotated[float | None, datetime]
Signed = Annotated[int, SIGNED]
SignedOrNone = Annotated[int | None, SIGNED]
Positive = Annotated[int, 1]
"""A whole number from 1."""
TextOrNull = Annotated[str, None]
"""An empty text is null in JSON."""
