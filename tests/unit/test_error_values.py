"""An exception's text stays where it was raised: no task's answer and no message of the driver repeats it."""

from __future__ import annotations

import linecache
import pickle
from concurrent.futures import Future
from typing import Any, NoReturn, cast

import pytest

from slotkeeper.console.monitor import store_reader
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.driver import copy as copy_driver
from slotkeeper.core.engine.tasks import CopyTask, LaneTask, StreamTask
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.errors import ErrorKind, SlotkeeperError, TopologyTrouble, Unclassified, Unreachable, classed
from slotkeeper.core.ports.sink import StepSink
from slotkeeper.core.ports.source import Chunk, Source
from slotkeeper.core.sinks.postgres import session as sink_faults
from slotkeeper.core.sources.dws import session as source_faults
from slotkeeper.core.sources.dws.position import SyncPoints
from slotkeeper.core.spark import task

SECRET, VALUE = "hunter2-of-etl", "Ada Lovelace, +44 20 7946"
TEXT = f"password={SECRET} row=({VALUE})"
DN = Shard("dn_1", 1)
JOB = JobSpec(
    name="orders_rt",
    source=Endpoint("dws1", "127.0.0.1", 8000, "db", "etl"),
    sink=Endpoint("mart", "127.0.0.1", 5432, "db", "etl"),
    slot="s",
    channels=(ChannelSpec("ods.t", "mart.t"),),
)


class LoudError(Exception):
    """A foreign exception whose text contains a value."""


def loud(*_: object, **__: object) -> NoReturn:
    """Fail, with another exception with the same text as the cause."""
    raise LoudError(TEXT) from ValueError(TEXT)


def ours(*_: object) -> NoReturn:
    """Fail with one of Slotkeeper's errors whose cause contains a value, as a driver's error does."""
    raise Unreachable("the line is cut", code="08006", where="source") from ValueError(TEXT)


def tells_nothing(said: object) -> None:
    """Check that neither the printed text nor the pickled object contains the value."""
    for form in (repr(said), str(said), pickle.dumps(said).decode("latin-1")):
        assert SECRET not in form and "Lovelace" not in form, form


class Anything:
    """A source or sink whose calls all fail with the loud exception; `abandon` is a sink's clean-up."""

    def __getattr__(self, name: str) -> Any:
        return loud

    def abandon(self) -> None:
        """Do nothing: nothing is open."""


def test_a_task_answers_the_type_of_a_foreign_exception_alone() -> None:
    lane = LaneTask("ods.t", DN, exactly(SyncPoints(1, 1), "i"), 100)
    spec = StreamTask(JOB, 1, (lane,), 0.0)
    (lane_outcome,) = entries.stream_lanes(spec, [loud], SystemClock()).lanes
    assert lane_outcome.error is not None and lane_outcome.error.kind == ErrorKind.UNKNOWN.value
    tells_nothing(lane_outcome)
    tells_nothing(lane_outcome.error.error())
    assert "LoudError" in lane_outcome.error.message


def test_a_copy_answers_the_type_of_a_foreign_exception_alone() -> None:
    source, sink = cast(Source, Anything()), cast(StepSink, Anything())
    outcome = entries.copy_chunks(CopyTask(JOB, 1, (Chunk(1, (), ("1",)),), "direct", 1.0), source, sink, SystemClock())
    assert outcome.error is not None and "LoudError" in outcome.error.message
    tells_nothing(outcome)


@pytest.mark.parametrize("function", ["loud", "ours"])
def test_whatever_a_task_runs_its_answer_repeats_no_exceptions_text(function: str) -> None:
    answer = task.call(task.pack(globals()[function]), None)
    assert answer.failure is not None
    tells_nothing(answer)
    with pytest.raises(SlotkeeperError) as again:
        task.opened(answer)
    tells_nothing(again.value)
    assert ("LoudError" if function == "loud" else "ValueError") in f"{again.value} {again.value.cause}"


def test_what_a_copying_driver_makes_of_a_failed_task_repeats_no_exceptions_text() -> None:
    future: Future[Any] = Future()
    try:
        loud()
    except LoudError as error:
        future.set_exception(classed(error))
    outcome = copy_driver.Snapshot._outcome(cast(Any, None), future)
    assert outcome.error is not None and "LoudError" in outcome.error.message
    tells_nothing(outcome)


def test_a_foreign_exception_on_the_driver_says_its_type_and_place_only() -> None:
    linecache.clearcache()
    try:
        loud()
    except LoudError as error:
        found = classed(error)
    assert isinstance(found, Unclassified) and "LoudError" in str(found)
    assert "test_error_values.py" in found.cause, "its origin is reported, without any of its text"
    tells_nothing(found)
    tells_nothing(found.cause)
    assert linecache.cache == {}, "a process of months keeps no source files"


def test_the_console_says_the_type_of_a_foreign_exception_alone() -> None:
    tells_nothing(store_reader.message_of(LoudError(TEXT)))
    assert "LoudError" in store_reader.message_of(LoudError(TEXT))


def test_a_topology_trouble_is_one_again_on_the_other_side() -> None:
    lane = LaneTask("ods.t", DN, exactly(SyncPoints(1, 1), "i"), 100)

    def gone(_table: str) -> tuple[Source, StepSink]:
        raise TopologyTrouble("dn_9 is new")

    (outcome,) = entries.stream_lanes(StreamTask(JOB, 1, (lane,), 0.0), [gone], SystemClock()).lanes
    assert outcome.error is not None and isinstance(outcome.error.error(), TopologyTrouble)


class BadValueError(pg.DriverError):
    """A server's error about a value, in the driver's format."""

    pgcode = "22P02"


def test_a_servers_sentence_about_a_value_comes_without_the_value_from_both_ends() -> None:
    said = f'invalid input syntax for type integer: "{VALUE}"\nDETAIL: Failing row is ({VALUE}).\nCONTEXT: {TEXT}'
    tells_nothing(source_faults.classify(BadValueError(said), "dws1").message)
    tells_nothing(sink_faults.classify(BadValueError(said), "mart").message)
    assert "invalid input syntax" in source_faults.classify(BadValueError(said), "dws1").message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ungültige Eingabesyntax für Typ integer: »ada@x.org«", "22P02"),
        ("Wert »ada@x.org« ist zu lang", "22001"),
        ("syntaxe en entrée invalide pour le type integer : « ada@x.org »", "22P02"),
        ("la sintaxis de entrada no es válida para tipo integer: «ada@x.org»", "22P02"),
        ("neplatná vstupní syntaxe pro typ integer: „ada@x.org“", "22P02"),
        ("ogiltig indatasyntax för typen integer: “ada@x.org”", "22P02"),
        ("无效的类型 integer 输入语法\uff1a“ada@x.org”", "22P02"),
        ('invalid byte sequence for encoding "UTF8": ada@x.org', "22021"),
        ("doppelter Schlüsselwert DETAIL:  Schlüssel »(mail)=(ada@x.org)« existiert", "23505"),
        ("la valeur d'une clé dupliquée DÉTAIL : La clé « (mail)=(ada@x.org) » existe", "23505"),
    ],
)
def test_a_message_of_any_language_contains_no_value(text: str, code: str) -> None:
    assert "@x" not in pg.without_values(text, code)
    assert len(pg.without_values(text, code)) > 7
