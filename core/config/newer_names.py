"""The sink connector's 2.x names: read nowhere, but each answered with what to write instead.

Next door: `keys_sink` holds the parameters under their 1.x names.
"""

from __future__ import annotations

from core.config.check import Reading, as_table, dotted
from core.config.lines import Path

NEWER_NAMES = {
    "dws.client.jdbc.url": "host, port and database of [sinks.X]",
    "dws.client.jdbc.username": "user of [sinks.X]",
    "dws.client.jdbc.password": "password_file, password_env or password_command of [sinks.X]",
    "dws.client.jdbc.max.use-time": "connection_max_use_time_seconds",
    "dws.client.jdbc.max.idle": "nothing: a lane's session stays while its worker lives",
    "dws.client.write.mode": "write_mode",
    "dws.client.write.auto-flush-size": "auto_flush_batch_size",
    "dws.client.write.auto-flush-max-interval": "auto_flush_max_interval",
    "dws.client.write.use-copy-size": "copy_write_batch_size",
    "dws.client.write.force-flush-size": "nothing: no rows wait in memory",
    "dws.client.write.thread-size": "connection_size",
    "dws.client.write.partition-policy": "nothing: each DN is a lane with one writer",
    "dws.client.write.partition-min": "nothing: each DN is a lane with one writer",
    "dws.client.write.partition-max": "nothing: each DN is a lane with one writer",
    "dws.client.write.buffer.all-max-bytes": "nothing: no rows wait in memory",
    "dws.client.write.buffer.table-max-bytes": "nothing: no rows wait in memory",
    "dws.client.write.buffer.partition-max-bytes": "nothing: no rows wait in memory",
    "dws.client.retry.max-times": "max_flush_retry_times",
    "dws.client.retry.sleep-base-time": "wait_initial in [jobs.X.retry]",
    "dws.client.retry.sleep-random-time": "wait_jitter in [jobs.X.retry]",
    "dws.client.timeout.task": "nothing: a step has the limits of its session at the sink",
    "dws.client.timeout.statement": "nothing: a step has the limits of its session at the sink",
}
"""By the documented name: the key that means it here, or nothing and why."""


def refuse_newer_names(reading: Reading, path: Path, raw: object) -> None:
    """Refuse a 2.x name in the table at `path`, quoted or with its dots read as tables."""
    table = as_table(reading, path, raw)
    for name in table:
        if name == "dws" or name.startswith("dws."):
            whole, place = _whole(name, table[name], (*path, name))
            instead = NEWER_NAMES.get(whole, "the 1.x name in snake_case")
            what = f"{whole} in [{dotted(path)}] is a name of the connector's 2.x"
            raise reading.error(place, what, f"write {instead}")


def _whole(name: str, value: object, place: Path) -> tuple[str, Path]:
    while isinstance(value, dict) and value:
        key = next(iter(value))
        name, value, place = f"{name}.{key}", value[key], (*place, key)
    return name, place
