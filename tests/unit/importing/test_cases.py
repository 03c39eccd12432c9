"""Each statement in vendors' syntax becomes a configuration that loads, or is refused by name; the page shows the same
statements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.imported import CASES, PASSWORD, Case, page
from slotkeeper.core.config.load import load_usable
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.importing.written import Made

EMPTY: Mapping[str, str] = {}


def fault(made: Made) -> str:
    """Return why the configuration does not load, or ""."""
    try:
        load_usable(Path("imported.toml"), EMPTY, text=made.text).whole()
    except ConfigError as error:
        return f"{error} {error.hint}"
    return ""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_each_option_is_taken_or_refused_with_its_line_and_only_a_whole_configuration_loads(case: Case) -> None:
    made = case.made()
    assert tuple((one.line, one.what) for one in made.refused) == case.refused
    assert all(one.text for one in made.refused)
    lines = [line.partition("  # ")[0] for line in made.text.splitlines()]
    assert [line for line in case.takes if line not in lines] == []
    said = fault(made)
    assert bool(said) == bool(made.refused), (said, made.text)
    assert PASSWORD not in made.text + said + repr(made.remarks)


def test_the_page_repeats_no_password() -> None:
    assert PASSWORD not in page()


def test_at_least_thirty_statements_are_in_the_table() -> None:
    assert len({case.text for case in CASES}) >= 30
