"""Behavior that the vendor does not document, as switches of the stand-in, inserted into the bodies of its functions.

Not included: a DN that is down or hangs, and registrations without an effect. `slotkeeper.demo.warehouse` controls
those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

from slotkeeper.core.errors import ConfigError

_ON = ("on", "true", "yes", "1")
_OFF = ("off", "false", "no", "0")


@dataclass(frozen=True, slots=True)
class Switches:
    """One possible behavior of DWS; the defaults match the documented examples.

    start_inclusive, end_inclusive: whether pgxc_get_binlog_changes returns rows at its start and end point.
    latest_inclusive: `latest_sync_point` is the last safe point; else the first point that is not yet safe.
    auto_create: a query for the points of an unknown slot creates them; else it returns no row until registration.
    refresh_same_point: registering the same point again restarts its TTL.
    register_moves_point: a registration uses a sync point itself, so `latest` advances without any change.
    xmin_includes_slots: the slots' registered xmin holds back the reported xmin.
    backward_allowed: a registration below the registered point is accepted; else it is an error.
    full_old_images: B and d rows have all columns; else only the primary key, and other columns are NULL.
    purge_at_once: a registration deletes the records below the smallest registered point; else `Warehouse.purge` does.
    xc_node_id: tables have the column `t.xc_node_id`.
    new_system_names: gs_binlog_sync_point, ...; else the three columns sync_point, event_sequence, type.
    """

    start_inclusive: bool = True
    end_inclusive: bool = False
    latest_inclusive: bool = False
    auto_create: bool = True
    refresh_same_point: bool = True
    register_moves_point: bool = False
    xmin_includes_slots: bool = False
    backward_allowed: bool = True
    full_old_images: bool = True
    purge_at_once: bool = False
    xc_node_id: bool = True
    new_system_names: bool = True

    @classmethod
    def parse(cls, text: str) -> Switches:
        """Return the switches in "name=on,name=off"; omitted names keep their defaults. Raises ConfigError.

        >>> Switches.parse("end_inclusive=on, auto_create=off") == Switches(end_inclusive=True, auto_create=False)
        True
        """
        values: dict[str, bool] = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, value = (word.strip() for word in part.partition("="))
            if name not in all_values() or value.lower() not in _ON + _OFF:
                known = ", ".join(all_values())
                hint = f"use NAME=on or NAME=off; names: {known}"
                raise ConfigError(f"unknown switch of the stand-in: {part!r}", hint=hint)
            values[name] = value.lower() in _ON
        return cls(**values)

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, bool]]) -> Switches:
        """Return the switches from (name, value) pairs."""
        return cls(**dict(pairs))

    def pairs(self) -> list[tuple[str, bool]]:
        """Return (name, value) of every switch, in order."""
        return list(asdict(self).items())

    def text(self) -> str:
        """Return the text that `parse` reads.

        >>> Switches.parse(Switches(end_inclusive=True).text()) == Switches(end_inclusive=True)
        True
        """
        return ",".join(f"{name}={'on' if value else 'off'}" for name, value in self.pairs())


def all_values() -> dict[str, tuple[bool, ...]]:
    """Return every switch with all its values, for pairwise test generation."""
    return {field.name: (True, False) for field in fields(Switches)}


def fragments(switches: Switches) -> Mapping[str, str]:
    """Return the replacements for the words between @ signs in `standin/5_calls.sql`."""
    behind = "" if switches.latest_inclusive else "- 1"
    return {
        "latest_offset": "- 1" if switches.latest_inclusive else "",
        "consumed": behind,
        "slots_xmin": _SLOTS_XMIN if switches.xmin_includes_slots else "",
        "auto_create": "PERFORM dws.create_points(t, $2, $3, $4);" if switches.auto_create else "",
        "refuse_backward": "" if switches.backward_allowed else _REFUSE_BACKWARD,
        "refreshed": "clock_timestamp()" if switches.refresh_same_point else _KEEP_TIMESTAMP,
        "purge": "PERFORM dws.purge_now(t, n.ord);" if switches.purge_at_once else "",
        "move_point": "PERFORM nextval('dws.csn');" if switches.register_moves_point else "",
    }


_SLOTS_XMIN = """
    , (SELECT min(s.oldest_xmin) FROM dws.slot s WHERE s.rel = $1 AND s.dn = $2 AND s.oldest_xmin > 0)"""
_KEEP_TIMESTAMP = "CASE WHEN s.sync_point = $4 THEN s.sync_timestamp ELSE clock_timestamp() END"
_REFUSE_BACKWARD = """IF $4 < old.sync_point THEN
        RAISE EXCEPTION 'stand-in: sync point % is below the registered %', $4, old.sync_point USING ERRCODE = '22023';
    END IF;"""
