"""Keys are found on their lines in any TOML that parses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.core.config.model import find_lines, nearest_line

TEXT = '''\
# [not.a.table]
top = """
[inside]
x = 1
"""  # a comment with "quotes"
[a] # comment
"quoted key" = 1
'b'.c = [ # open
  "]", { d = 1 },
]
lit = \'\'\'
y = '1'
\'\'\'
[[a.list]]
k = 1.5
[a.list.sub]
m = 2026-01-01T00:00:00Z
[[a.list]]
k = { z = "}" }
'''


def test_headers_keys_and_list_entries_are_found() -> None:
    lines = find_lines(TEXT)
    expected = {
        ("top",): 2,
        ("a",): 6,
        ("a", "quoted key"): 7,
        ("a", "b"): 8,
        ("a", "b", "c"): 8,
        ("a", "lit"): 11,
        ("a", "list"): 14,
        ("a", "list", 0): 14,
        ("a", "list", 0, "k"): 15,
        ("a", "list", 0, "sub"): 16,
        ("a", "list", 0, "sub", "m"): 17,
        ("a", "list", 1): 18,
        ("a", "list", 1, "k"): 19,
    }
    assert lines == expected


def test_what_has_no_line_gets_that_of_what_is_around_it() -> None:
    lines = find_lines(TEXT)
    assert nearest_line(lines, ("a", "list", 1, "k", "z")) == 19
    assert nearest_line(lines, ("b", "c")) is None


_KEYS = st.text("abc-_0", min_size=1, max_size=4)
_VALUES = st.sampled_from(["1", '"a # b"', "'['", "[1,\n 2]", '"""x\n[y]\n"""', "{ a = 1 }", "true", '"\\""'])


@given(st.lists(st.tuples(_KEYS, _VALUES), unique_by=lambda pair: pair[0]))
def test_any_sequence_of_keys_is_found(pairs: list[tuple[str, str]]) -> None:
    text, expected = "", {}
    for key, value in pairs:
        expected[(key,)] = text.count("\n") + 1
        text += f"{key} = {value}\n"
    assert find_lines(text) == expected
