"""The versions of Spark by which this source may be called: each has passed the contract test.

The order in which Spark calls a Python source is no documented promise, and what is registered when rests on it: that
`latestOffset` is given the end of a batch only once that batch is in the commit log. `tests/spark/test_source_calls.py`
pins that order; a version is added here once it has passed there.
"""

from __future__ import annotations

import pyspark

from slotkeeper.core.errors import Refused

PASSED = ("4.3.0",)


def check(version: str = pyspark.__version__) -> None:
    """Refuse a version of Spark that has not passed.

    >>> check("4.1.0")
    Traceback (most recent call last):
        ...
    slotkeeper.core.errors.Refused: pyspark 4.1.0 may call a source in another order than was tested
    """
    if version not in PASSED:
        what = f"pyspark {version} may call a source in another order than was tested"
        raise Refused(what, f"install pyspark {' or '.join(PASSED)}", where="spark")
