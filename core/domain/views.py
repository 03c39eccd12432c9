"""The states and figures of a job's views (ADR 94). Views are independent of lanes: a view never delays a slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from slotkeeper.core.domain.field import Moment, MomentOrNone

EQUAL = "equal"
"""The stored result of a comparison without a difference."""


class ViewState(Enum):
    """The state of a view."""

    PENDING = "PENDING"
    """Configured, and waiting for the copies of its tables."""
    BUILDING = "BUILDING"
    """Being computed as a whole; its table remains readable."""
    RUNNING = "RUNNING"
    """Equal to its SELECT at each round's commit."""
    STALE = "STALE"
    """An event made rounds impossible; it will be built again. Readers see its last rows."""
    FAILED = "FAILED"
    """Its SELECT or its objects fail; an administrator must act."""


@dataclass(frozen=True, slots=True)
class ViewRow:
    """A view as the sink stores it; times are seconds since 1970, None if they never happened."""

    target: str
    job: str
    epoch: int
    definition: str
    spec: str
    state: ViewState
    cause: str
    since: float
    adds: bool
    """Whether it is maintained by the delta method."""
    built: str
    """The definition that its objects have; "" before the first build."""
    capture: str
    rounds: int
    applied: int
    """Changes that rounds have applied."""
    round_ms: int | None
    fresh_at: float | None
    built_at: float | None
    verified_at: float | None
    verified: str
    size: int | None
    """The sink's estimate of the rows in its table; None before the sink has counted them."""

    @property
    def method(self) -> str:
        return "delta" if self.adds else "recompute"


@dataclass(frozen=True, slots=True)
class ViewReport:
    """A SQL view in the report of its job's driver."""

    target: str
    """Its table, as schema.table."""
    state: Annotated[str, ViewState]
    """PENDING, BUILDING, RUNNING, STALE or FAILED (`docs/views.md`)."""
    since: Moment
    """When the driver first saw it in this state."""
    cause: str = ""
    """Why it is STALE or FAILED; empty otherwise."""
    method: str = ""
    """delta or recompute; empty before its first build."""
    size: int | None = None
    """The sink's estimate of its rows; null: unknown."""
    waiting: int | None = None
    """Captured changes that wait for a round; null: not built yet."""
    fresh_at: MomentOrNone = None
    """The last time at which the driver knows that it was equal to its SELECT; null: never in this run."""
    at: Moment = 0.0
    """When the driver read this from the sink."""
    applied: int = 0
    """Changes that rounds have applied."""
    round_ms: int | None = None
    """Milliseconds of the last round; null: none yet."""
    verified: str = ""
    """The result of the last `slotkeeper views verify`; empty: never compared."""
    verified_at: MomentOrNone = None
    """When it was last compared, by the sink's clock."""

    @property
    def differs(self) -> bool:
        """Whether its last comparison found a difference; a build voids earlier comparisons."""
        return self.verified not in ("", EQUAL)


@dataclass(frozen=True, slots=True)
class Round:
    """What a round did: changes applied by view, and the causes of views that became STALE."""

    applied: Mapping[str, int] = field(default_factory=dict)
    stale: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Difference:
    """A key at which a view differs from its SELECT: "missing", "extra" or "different"."""

    key: str
    what: str


@dataclass(frozen=True, slots=True)
class Explained:
    """A view's method, what is captured by table, the SQL of its affected keys, and the indexes that are missing."""

    method: str
    captures: tuple[tuple[str, str], ...]
    keys: str
    missing: tuple[str, ...] = ()
    """CREATE INDEX statements."""
