"""A pair uses the best encoding that both ends support, otherwise the sink's. A kind without any is rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.traits import Encoding, chosen
from slotkeeper.core.errors import Refused
from slotkeeper.core.wiring.worker import encoding_of
from tests.support.sqlite_pair import sink as sqlite

TEXT, ROWS = Encoding.COPY_TEXT, Encoding.ROWS
NOWHERE = Endpoint("none", "localhost", 1, "none", "none")
JOB = JobSpec("j", NOWHERE, NOWHERE, "s", (ChannelSpec("ods.a", "mart.a"),))


def test_copy_text_is_taken_before_rows() -> None:
    assert chosen((ROWS, TEXT), (ROWS, TEXT), "a to b") is TEXT
    assert chosen((ROWS, TEXT), (ROWS,), "a to b") is ROWS


def test_where_none_is_common_the_sink_gets_what_it_takes() -> None:
    assert chosen((ROWS,), (TEXT,), "a to b") is TEXT
    assert chosen((TEXT,), (ROWS,), "a to b") is ROWS


@pytest.mark.parametrize(("gives", "takes"), [((), (TEXT,)), ((ROWS,), ()), ((), ())])
def test_a_pair_of_which_one_has_no_encoding_is_refused_by_name(
    gives: tuple[Encoding, ...], takes: tuple[Encoding, ...]
) -> None:
    with pytest.raises(Refused, match=r"a to b: the source provides .*, but the sink accepts"):
        chosen(gives, takes, "a to b")


def test_each_configured_kind_of_sink_has_one_in_common_with_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite.register(monkeypatch)
    assert encoding_of(JOB) is encoding_of(replace(JOB, sink_kind="dws")) is TEXT
    assert encoding_of(replace(JOB, sink_kind=sqlite.BY_KEY)) is ROWS
