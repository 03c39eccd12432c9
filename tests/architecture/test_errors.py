"""Errors cross processes: every class survives pickling with all of its content."""

from __future__ import annotations

import inspect
import pickle

import pytest

from slotkeeper.core import errors
from slotkeeper.core.errors import KINDS, ErrorKind, ErrorValues, SlotkeeperError, Trouble, TroubleName

CLASSES = sorted(
    (c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, SlotkeeperError)),
    key=lambda c: c.__name__,
)


def said(error: SlotkeeperError) -> tuple[object, ...]:
    return (type(error), error.kind, error.message, error.hint, error.code, error.where, error.cause, str(error))


@pytest.mark.parametrize("error_class", CLASSES)
def test_an_error_survives_pickling(error_class: type[SlotkeeperError]) -> None:
    error = error_class("what failed", "what to do", "08006", "sink", "because")
    assert said(pickle.loads(pickle.dumps(error))) == said(error)


def test_a_trouble_keeps_its_name() -> None:
    error = Trouble("gone", name=TroubleName.SINK_OLDER)
    assert pickle.loads(pickle.dumps(error)).name is TroubleName.SINK_OLDER


@pytest.mark.parametrize("kind", [k for k in ErrorKind if k in KINDS])
def test_an_error_survives_the_way_as_plain_values(kind: ErrorKind) -> None:
    error = KINDS[kind]("what failed", "what to do", "08006", "sink", "because")
    assert said(ErrorValues.of(error).error()) == said(error)


@pytest.mark.parametrize("error_class", [c for c in CLASSES if issubclass(c, Trouble)])
@pytest.mark.parametrize("name", TroubleName)
def test_a_trouble_survives_it_with_name_and_kind(error_class: type[Trouble], name: TroubleName) -> None:
    rebuilt = ErrorValues.of(error_class("gone", name=name)).error()
    assert isinstance(rebuilt, Trouble)
    assert (rebuilt.name, rebuilt.kind) == (name, error_class.kind)
