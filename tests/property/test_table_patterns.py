"""Patterns of tables against a naive oracle: a matcher letter by letter, and every table evaluated separately."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slotkeeper.core.config.patterns import resolve
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.inventory import TableListed, matches, target_of
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec, TablePattern

LETTERS = "aB_.*?[]! "
NONE = Endpoint("none", "localhost", 1, "none", "none")
NAMES = st.text(LETTERS, min_size=1, max_size=5)
PARTS = st.text("aB_*?", min_size=1, max_size=4)
PATTERNS = st.builds("{}.{}".format, PARTS, PARTS)
BLOCKS = st.builds(
    TablePattern,
    PATTERNS,
    st.sampled_from(["mart.{table}", "mart.{schema}_{table}", "{schema}.x{table}"]),
    st.lists(PATTERNS, max_size=2).map(tuple),
)


def same(pattern: str, text: str) -> bool:
    """The naive matcher, for `*` and `?`."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(same(pattern[1:], text[cut:]) for cut in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and same(pattern[1:], text[1:])


def both(pattern: str, one: TableListed) -> bool:
    schema, name = pattern.split(".")
    return same(schema, one.schema) and same(name, one.name)


@settings(max_examples=200, deadline=None)
@given(PATTERNS, NAMES, NAMES)
def test_a_pattern_matches_as_letter_by_letter(pattern: str, schema: str, name: str) -> None:
    assert matches(pattern, schema, name) == both(pattern, TableListed(schema, name))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(BLOCKS, min_size=1, max_size=3).map(tuple),
    st.lists(
        st.builds(TableListed, st.text("aB_", min_size=1, max_size=2), NAMES, st.sampled_from(["", "a view"])),
        max_size=12,
        unique_by=lambda one: (one.schema, one.name),
    ),
    st.sets(st.integers(0, 11)),
    st.integers(0, 3),
)
def test_each_table_has_one_block_and_each_target_one_table(
    blocks: tuple[TablePattern, ...], listed: list[TableListed], numbers: set[int], explicit: int
) -> None:
    known = {one.table for number, one in enumerate(listed) if number in numbers}
    mine = tuple(ChannelSpec(f"a.a{n}", f"mart.a{n}") for n in range(explicit))
    job = JobSpec("j", NONE, replace(NONE, port=2), "s", mine, patterns=blocks)
    found = resolve(job, listed, known)
    assert found == resolve(job, reversed(listed), known), "the order of the list does not matter"
    assert found.channels[: len(mine)] == mine
    by_table = {one.source_table: one.target for one in found.channels}
    skipped = {one.table: one for one in found.skipped}
    assert len(by_table) == len(found.channels), "a table occurs once"
    assert len(set(by_table.values())) == len(found.channels), "a target occurs once"
    for one in listed:
        wanting = [
            block
            for block in blocks
            if both(block.source, one) and not any(both(other, one) for other in block.excluded)
        ]
        table = one.table
        if table in {each.source_table for each in mine}:
            assert by_table[table] == table.replace("a.", "mart.", 1)
        elif not wanting:
            assert table not in by_table
            assert table not in skipped
        elif (one.unfit and table not in known) or "." in one.name or not one.name.strip() or len(wanting) > 1:
            assert table not in by_table
            assert skipped[table].conflict == (
                len(wanting) > 1
                and "." not in one.name
                and bool(one.name.strip())
                and (not one.unfit or table in known)
            )
        else:
            target = target_of(wanting[0], one.schema, one.name)
            assert (by_table.get(table) == target) != (table in skipped)
            if table in skipped and table in known and skipped[table].conflict:
                writer = next(name for name, into in by_table.items() if into == target)
                assert writer in known or writer in {each.source_table for each in mine}, (
                    "a known table keeps its target"
                )
    assert set(found.unmatched) == {block.source for block in blocks} - {
        block.source
        for block in blocks
        for one in listed
        if both(block.source, one) and not any(both(other, one) for other in block.excluded)
    }
