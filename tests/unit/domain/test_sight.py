"""Whether a list of sessions is complete, for every combination of proven privileges of a login."""

from __future__ import annotations

from itertools import product

import pytest

from slotkeeper.core.domain.locks import Sight

EVERY = [Sight(*facts) for facts in product((None, 1, 2, 3), (False, True), (False, True))]


@pytest.mark.parametrize("sight", EVERY, ids=str)
def test_it_is_whole_only_where_everybody_on_every_coordinator_is_proven_to_be_seen(sight: Sight) -> None:
    assert sight.all_coordinators == (sight.across or sight.coordinators == 1)
    assert sight.whole == (sight.everyone and (sight.across or sight.coordinators == 1))
    assert bool(sight.lacks) == (not sight.whole), "the missing part is named"
    assert ("other logins" in sight.lacks) == (not sight.everyone)
    assert ("coordinator" in sight.lacks) == (not sight.all_coordinators)
