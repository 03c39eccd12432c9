"""The compiled kernel (`kernel.c`) that decodes the rows of an event, if it was built (ADR 90).

The Python decoder is the definition: the kernel returns None for an event in which it finds anything unusual, and the
caller then decodes the event in Python, which returns the result or raises the error. Where no compiler built the
kernel, or where modules are imported from a zip file, as in Spark's workers, everything runs in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from slotkeeper.core.drivers.pipe import SWITCH, kernels_are_off

if TYPE_CHECKING:
    from slotkeeper.core.sources.mysql._kernel import Plan

try:
    from slotkeeper.core.sources.mysql import _kernel
except ImportError:
    BUILT = False
else:
    BUILT = _kernel.VERSION == 1
    """Whether there is a kernel for this version of the Python code."""

Op = tuple[str, int, int, int, Any]
"""How the kernel decodes a column: a letter, the bytes of value or length, two type parameters, and labels or a
function.

i: integer (signed if the first parameter is 1), f: FLOAT, d: DOUBLE, y: YEAR, D: DATE, M: DATETIME, S: TIMESTAMP, T:
TIME (digits of the fraction), n: DECIMAL (precision, scale), b: BIT, e: ENUM, s: SET. Preceded by a length: u: UTF-8,
a: text of which only ASCII needs no call of the function, r: bytes, p: BINARY (its size), U: UUID, 4: INET4, c: the
function's value.
"""
Written = tuple[str, int, int, int, Any, bool, Callable[[Any], Any] | None]
"""An `Op`, whether its text is made of the value in Python, and the function that makes it."""


def is_used() -> bool:
    """Whether this process decodes with the kernel."""
    return BUILT and not kernels_are_off()


def state() -> str:
    """Return what decodes rows on this host, and why, for `slotkeeper doctor`."""
    if is_used():
        return "rows are decoded by the compiled kernel"
    why = f"{SWITCH} switches it off"
    if not BUILT:
        why = "it was not built: the installation found no C compiler"
    return f"rows are decoded in Python, without the compiled kernel ({why})"


def plan_of(columns: Sequence[Written | None], places: Sequence[int], kept: Sequence[bool]) -> Plan | None:
    """Return the kernel's plan for a table with these columns; None if it is not used, or does not take one of them.

    `places` are the columns of a result, `kept` whether a key image contains each of them. The plan's methods return
    None for an event that Python has to decode. `values` returns the rows; `lines` and `rows` return their images for a
    sink, as COPY text with the number of lines, or as tuples. The letters of `kinds` are the kinds of consecutive
    images; "-" leaves an image out.
    """
    taken = tuple(one for one in columns if one is not None)
    if not is_used() or not taken or len(taken) < len(columns):
        return None
    try:
        return _kernel.Plan(taken, tuple(places), tuple(kept))
    except ValueError:
        return None
