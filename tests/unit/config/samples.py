"""A small valid configuration and ways to make it invalid."""

from __future__ import annotations

SECRET = "hunter2-pl4nted"

VALID = """\
[sources.dws1]
dialect = "dws"
host = "127.0.0.1"
port = 8000
database = "gaussdb"
user = "etl"
password_env = "DWS1_PASSWORD"
environment = "PROD"

[sinks.mart]
kind = "postgres"
host = "localhost"
port = 5432
database = "mart"
user = "etl"

[jobs.orders_rt]
source = "dws1"
sink = "mart"
slot = "orders_slot"

[[jobs.orders_rt.channels]]
from = "ods.orders"
into = "mart.orders"

[jobs.orders_rt.binlog]
binlog = true

[jobs.orders_rt.sink_options]

[jobs.orders_rt.retry]

[jobs.orders_rt.spark]

[logging]

[state]
"""

SECOND_JOB = """
[jobs.second]
source = "dws1"
sink = "mart"
[[jobs.second.channels]]
from = "ods.orders"
into = "mart.second"
"""


def changed(old: str, new: str) -> str:
    assert old in VALID, old
    return VALID.replace(old, new, 1)


def added(table: str, lines: str) -> str:
    """The valid text with lines added below a table's header."""
    return changed(f"[{table}]\n", f"[{table}]\n{lines}\n")
