"""The action for a rejected login uses the terms of the server that rejected it."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.refusals import cure


@pytest.mark.parametrize(
    ("said", "of_a_dws"),
    [
        ('FATAL:  password authentication failed for user "etl"', False),
        ("FATAL:  Invalid username/password,login denied.", True),
        ("none of the server's SASL authentication mechanisms are supported", True),
    ],
)
def test_a_postgresql_is_not_told_of_a_dws(said: str, of_a_dws: bool) -> None:
    assert cure(said).startswith("check the user and the password reference")
    assert ("DWS" in cure(said)) is of_a_dws
