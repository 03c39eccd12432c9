"""Decide whether a lane continues after a statement in the source's log that changed the table's columns. Pure.

The log contains the statement at its position between the rows, so nothing has to be copied: all earlier rows have the
earlier columns, and all later ones the later columns. What is not mirrored does not matter. Of the mirrored columns, a
change is followed only if no stored value can differ from the source's: the rows that exist have no event. A dropped
column, or one that was narrowed in a known way, is a loss: it is followed once a user has confirmed the affected rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.shape import Act, Reshape
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import APPLY, IGNORE
from slotkeeper.core.domain.text import safe


@dataclass(frozen=True, slots=True)
class Loss:
    """Values of a target's column that a change removes: those of the rows that match `where`, which get `value`.

    Both are SQL that each sink understands, with `{0}` for the column; without a `value`, the column is dropped.

    >>> Loss("v", "{0} > 127", "127").update("mart.t", lambda name: f'"{name}"')
    'UPDATE mart.t SET "v" = 127 WHERE "v" > 127'
    """

    column: str
    where: str
    value: str = ""

    def update(self, table: str, quoted: Callable[[str], str]) -> str:
        """Return the statement that gives the affected rows their new value."""
        name = quoted(self.column)
        return f"UPDATE {table} SET {name} = {self.value.format(name)} WHERE {self.where.format(name)}"


def counting(losses: Sequence[Loss], table: str, quoted: Callable[[str], str]) -> str:
    """Return the query that counts the rows that any of the losses affects."""
    where = " OR ".join(one.where.format(quoted(one.column)) for one in losses)
    return f"SELECT count(*) FROM {table} WHERE {where}"


@dataclass(frozen=True, slots=True)
class ColumnStep:
    """A column before and after a statement; `before` is None if it was added, `after` is None if it was dropped.

    `followed`: the column's rows can be read with its definition; `opaque` is the same column if they are not needed.
    `keeps`: no stored value changes. `default`: the value of existing rows in an added column, None for NULL. `why`:
    the reason why the column cannot be mirrored. `losses`: the values that the server changed, each as (condition, new
    value); None if that is unknown.
    """

    before: Column | None
    after: Column | None
    opaque: Column | None = None
    followed: bool = True
    keeps: bool = True
    default: str | None = None
    why: str = ""
    losses: tuple[tuple[str, str], ...] | None = None

    @property
    def name(self) -> str:
        one = self.before or self.after
        assert one is not None
        return one.name

    @property
    def is_changed(self) -> bool:
        one, other = self.before, self.after
        return (
            one is None or other is None or one != other or (one.native, one.required) != (other.native, other.required)
        )


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """A statement in the log, and the columns after it, in order, followed by the dropped ones.

    `position` is after the statement; `why` is the reason why its effect is not known.
    """

    text: str
    place: str
    position: Position
    steps: tuple[ColumnStep, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a change: the reason to stop at it, or the table's columns after it.

    `said` describes the change; `touches`: the target has to be compared, and possibly altered. `defaults` are the
    values of existing rows in added columns, by name; `named` are the new names of mirrored columns, each with the name
    before it, "" if the column was added. `losses`: the change is followed only with the affected rows confirmed.
    """

    stop: str = ""
    known: tuple[Column, ...] = ()
    said: tuple[str, ...] = ()
    touches: bool = False
    defaults: tuple[tuple[str, str], ...] = ()
    named: tuple[tuple[str, str], ...] = ()
    losses: tuple[Loss, ...] = ()

    @property
    def dropped(self) -> frozenset[str]:
        """The columns that are dropped in the target as well."""
        return frozenset(one.column for one in self.losses if not one.value)


def judge(
    change: LoggedChange, policy: str, mapped: Collection[str], others: Collection[str], key: Collection[str]
) -> Verdict:
    """Return whether to follow a change under `on_schema_change = policy`.

    `mapped` are the source columns that the channel lists, none if it mirrors all; `others` are further columns that
    it needs, such as those of its filter.
    """
    if change.why:
        return Verdict(change.why)
    known: list[Column] = []
    said: list[str] = []
    defaults: list[tuple[str, str]] = []
    named: list[tuple[str, str]] = []
    losses: list[Loss] = []
    touches = False
    for step in change.steps:
        needed = step.before is not None and step.followed and (not mapped or step.before.name in {*mapped, *others})
        if not step.is_changed or not needed:
            one, text, alters = _not_needed(step, policy, bool(mapped))
            if text and alters is None:
                return Verdict(text)
        else:
            stop = _stop(step, policy, bool(mapped), key, others)
            if stop:
                return Verdict(stop)
            one, text, alters = step.after, _text(step), _alters(step)
            if step.after is None:
                losses.append(Loss(step.name, "{0} IS NOT NULL"))
            elif not step.keeps:
                losses += [Loss(step.after.name, *one) for one in step.losses or ()]
        if one is not None:
            known.append(one)
        if text:
            said.append(text)
        if step.before is None and alters and step.default is not None:
            defaults.append((step.name, step.default))
        old = step.before.name if step.before is not None else ""
        if alters and one is not None and one.name != old:
            named.append((old, one.name))
        touches = touches or bool(alters)
    return Verdict("", tuple(known), tuple(said), touches, tuple(defaults), tuple(named), tuple(losses))


def clash(verdict: Verdict, shape: Reshape, in_two_parts: bool, began: bool = False) -> str:
    """Return why the target's columns do not permit the change; "" if they do.

    An existing column can have other values than the source's rows. Only a sink `in_two_parts` can have the column from
    an attempt that a crash interrupted: then the store has a record that the attempt `began`.

    >>> rename, there = Verdict(named=(("a", "b"),)), frozenset({"id", "b"})
    >>> clash(rename, Reshape(there=there), True, began=True), clash(rename, Reshape(there=there), True)
    ('', 'the target already has a column b')
    """
    dropped = [one.column for one in shape.needs if one.act is Act.DROP and one.column not in verdict.dropped]
    if dropped:
        return f"the target would lose its column {safe(dropped[0], 80)}"
    if shape.there is None:
        fills = [new for old, new in verdict.named if old or new in dict(verdict.defaults)]
        return f"the job cannot create column {safe(fills[0], 80)} in the target" if fills else ""
    folds = str.casefold if in_two_parts else str  # Doris compares names of columns without their case
    there = {folds(one) for one in shape.there}
    for old, new in verdict.named:
        if old and not {folds(old), folds(new)} & there:
            return f"the target has no column {safe(old, 80)}"
        repeated = in_two_parts and began and folds(old) not in there
        if folds(new) in there and folds(old) != folds(new) and not repeated:
            return f"the target already has a column {safe(new, 80)}"
    return ""


def _not_needed(step: ColumnStep, policy: str, mapped: bool) -> tuple[Column | None, str, bool | None]:
    """Return the column after the change (unchanged, unmirrored or added), its text, and whether the target changes.

    The third value is None if the text is a reason to stop.
    """
    if not step.is_changed:
        return step.after, "", False
    name = safe(step.name, 80)
    if step.before is not None:
        return step.opaque, f"{name} is not mirrored", False
    if mapped or policy == IGNORE:
        return step.opaque, f"{name} was added and is not mirrored", False
    if policy != APPLY:
        return None, f"column {name} was added", None
    if step.why:
        return None, f"column {name} was added: {step.why}", None
    return step.after, _text(step), True


def _stop(step: ColumnStep, policy: str, mapped: bool, key: Collection[str], others: Collection[str]) -> str:
    """Return the reason to stop at a change of a mirrored column; "" if there is none."""
    assert step.before is not None
    name = safe(step.before.name, 80)
    # the configuration names a column that is mapped or filtered, and the key identifies the rows
    applies = policy == APPLY and step.before.name not in {*others, *key}
    if step.after is None:
        return "" if applies and not mapped else f"the mirrored column {name} was dropped"
    if step.why:
        return f"column {name} was changed: {step.why}"
    if not step.keeps and not (applies and step.losses):
        return f"column {name} was changed in a way that can change stored values"
    renamed = step.after.name != step.before.name
    if step.before.name in key and (renamed or step.after.type != step.before.type):
        return f"column {name} of the key was changed"
    if renamed and (mapped or policy != APPLY):
        return f"the mirrored column {name} was renamed to {safe(step.after.name, 80)}"
    if _alters(step) and policy not in (IGNORE, APPLY):
        return f"column {name} was changed"
    return ""


def _alters(step: ColumnStep) -> bool:
    one, other = step.before, step.after
    return one is None or other is None or one != other or (one.required and not other.required)


def _text(step: ColumnStep) -> str:
    name = safe(step.name, 80)
    if step.after is None:
        return f"{name} was dropped"
    if step.before is None and step.after is not None:
        return f"{name} {step.after.type} was added"
    if step.after is not None and step.before is not None and step.after.name != step.before.name:
        return f"{name} was renamed to {safe(step.after.name, 80)}"
    if step.after is not None and step.before is not None and step.after.type != step.before.type:
        return f"{name} is {step.after.type} (was {step.before.type})"
    if not step.keeps:
        return f"{name} is {'NOT NULL' if step.after.required and not step.before.required else 'shorter'}"
    return f"{name} was changed, its stored values were not"
