"""All incidents, by number."""

from __future__ import annotations

from slotkeeper.core.errors import ConfigError
from slotkeeper.demo.incidents import cluster, machine, maria, rows, sinks, slots
from slotkeeper.demo.incidents.record import Incident

INCIDENTS: tuple[Incident, ...] = tuple(
    sorted(
        (*slots.EVERY, *rows.EVERY, *sinks.EVERY, *cluster.EVERY, *machine.EVERY, *maria.EVERY),
        key=lambda one: one.number,
    )
)


def named(name: str) -> Incident:
    """Return the incident of that name. Raises ConfigError if there is none."""
    found = next((one for one in INCIDENTS if one.name == name), None)
    if found is None:
        raise ConfigError(f"unknown incident {name!r}", "list all incidents: `slotkeeper demo --incident list`")
    return found
