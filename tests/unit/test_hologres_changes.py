"""Positions of a Hologres binlog, and the effect of its records on rows, without a server."""

from __future__ import annotations

import random

import pytest

from slotkeeper.core.domain.position import NOTHING_KEPT, Order
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.hologres.changes import (
    AFTER,
    BEFORE,
    DELETE,
    HEARTBEAT,
    INSERT,
    WORDS,
    Change,
    Event,
    Left,
    changes,
)
from slotkeeper.core.sources.hologres.position import POSITIONS, HoloPosition, Oldest

ROW = ("1", "a")


def shown(found: list[Change]) -> list[tuple[int, int, str]]:
    return [(one.point, one.sequence, one.kind) for one in found]


ALL = Left()


def made(*events: Event, before: Event | None = None, left: Left = ALL) -> list[tuple[int, int, str]]:
    return shown(list(changes(events, before, left)))


def test_inserts_and_deletes_are_changes_at_their_own_lsn() -> None:
    assert made(Event(5, INSERT, 1, ROW), Event(7, DELETE, 2, ROW)) == [(5, 1, "I"), (7, 1, "d")]


def test_both_images_of_an_update_have_the_lsn_of_the_second() -> None:
    assert made(Event(5, BEFORE, 1, ROW), Event(6, AFTER, 1, ROW)) == [(6, 0, "B"), (6, 1, "U")]


def test_an_update_that_is_cut_is_whole_in_the_range_that_has_its_second_half() -> None:
    before, after = Event(5, BEFORE, 1, ROW), Event(6, AFTER, 1, ROW)
    assert made(before) == []
    assert made(after, before=before) == [(6, 0, "B"), (6, 1, "U")]


@pytest.mark.parametrize("follower", [Event(6, INSERT, 1, ROW), Event(6, AFTER, 2, ROW), Event(6, DELETE, 1, ROW)])
def test_a_row_before_an_update_without_the_one_after_it_ends_the_step(follower: Event) -> None:
    with pytest.raises(Refused, match="LSN 5 is the before-image of an update"):
        made(Event(5, BEFORE, 1, ROW), follower)
    with pytest.raises(Refused, match="LSN 5 is the before-image of an update"):
        made(follower, before=Event(5, BEFORE, 1, ROW))


def test_an_unknown_type_ends_the_step_and_a_heartbeat_does_not() -> None:
    assert made(Event(4, HEARTBEAT, 1, (None, None)), Event(5, INSERT, 1, ROW)) == [(5, 1, "I")]
    with pytest.raises(Refused, match="LSN 6 has the unknown event type 9"):
        made(Event(6, 9, 1, ROW))


def test_what_is_ignored_makes_no_change_of_its_own() -> None:
    update = (Event(5, BEFORE, 1, ROW), Event(6, AFTER, 1, ROW))
    assert made(*update, left=Left(images=True)) == [(6, 1, "U")]
    assert made(Event(7, DELETE, 2, ROW), *update, left=Left(deletes=True)) == [(6, 0, "B"), (6, 1, "U")]
    assert Left(deletes=True).types == (HEARTBEAT, BEFORE, DELETE)


def test_wherever_a_stream_is_cut_its_pieces_make_the_same_changes(seed: int) -> None:
    chance = random.Random(seed)
    events: list[Event] = []
    lsn = 0
    for us in range(1, 60):
        lsn += chance.randint(1, 3)
        if chance.random() < 0.5:
            events += [Event(lsn, BEFORE, us, ROW), Event(lsn + 1, AFTER, us, ROW)]
            lsn += 1
        else:
            events.append(Event(lsn, chance.choice((INSERT, DELETE, HEARTBEAT)), us, ROW))
    whole = made(*events)
    for _ in range(20):
        cuts = sorted(chance.sample(range(len(events)), 6))
        pieces = []
        for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
            last = events[begin - 1] if begin else None
            pieces += made(*events[begin:end], before=last if last and last.type == BEFORE else None)
        assert pieces == whole


def test_every_type_has_words_with_its_number() -> None:
    assert all(str(kind) in words for kind, words in WORDS.items())
    assert set(WORDS) == {2, 3, 5, 7, 27}


@pytest.mark.parametrize("text", ["", "x", "-1", "1:2", "1/2", "1/2/3/4", "01", "1/2/03", "9" * 20, "--/1/2"])
def test_damaged_texts_are_refused(text: str) -> None:
    for read in (POSITIONS.position, POSITIONS.place):
        with pytest.raises(ValueError):
            read(text)


def test_a_lane_position_needs_its_times_and_a_typed_place_does_not() -> None:
    assert POSITIONS.place("7").order(POSITIONS.position("7/3/9")) is Order.SAME
    with pytest.raises(ValueError):
        POSITIONS.position("7")
    assert POSITIONS.position(POSITIONS.place("7").from_here.text) < POSITIONS.position("7/3/9")
    assert POSITIONS.kept(NOTHING_KEPT.text) == NOTHING_KEPT


def test_a_shard_without_records_is_never_behind_a_lane() -> None:
    none = HoloPosition(0, 0, 500, empty=True)
    assert HoloPosition(9, 400, 400) < none
    assert HoloPosition(9, 600, 600).order(none) is Order.SAME
    assert none.order(HoloPosition(9, 600, 600)) is Order.SAME


def test_a_loss_differs_from_an_idle_shard_whose_last_record_expired() -> None:
    """The rule of `Oldest`, case by case, for a TTL that ends at 1000."""
    begins_at_50 = Oldest(50, 1500, 1500, expired=1000)
    none_left = Oldest(0, empty=True, expired=1000)
    for oldest in (begins_at_50, none_left):
        assert oldest > HoloPosition(10, 900, 900), "it has not read the shard since"
        assert not oldest > HoloPosition(10, 900, 1200), "it still existed, and no record followed"
        assert oldest > HoloPosition(10, 1100, 1200), "its own record is missing, but was not old enough"
        assert HoloPosition(10, 900, 900) < oldest and not HoloPosition(10, 900, 1200) < oldest
    assert not begins_at_50 > HoloPosition(49, 0, 0), "the records that it reads next still exist"
    assert not begins_at_50 > HoloPosition(60, 900, 900), "the records before its own still exist"
