"""What a PostgreSQL, and a DWS spoken to as one, can do as a sink.

Next door: `kind.py` opens its sessions; `core.domain.promise` says what each trait means.
"""

from __future__ import annotations

from dataclasses import replace

from core.domain.promise import SinkTraits

DWS = SinkTraits(one_transaction=True, repeats_change_nothing=True, is_store=True)
POSTGRES = replace(DWS, stores_for_others=True)
