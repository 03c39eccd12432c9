"""One voice: texts name the actor and use the field's terms; the number of other phrases can only decrease."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.architecture.checkout import ROOT
from tests.architecture.voice import EXCEPTIONS, PHRASES, in_file, phrases, spoken

MOST_IN_CODE = {"core/sinks": 6, "tests": 2}  # migrations, and stores of earlier versions: neither can change
"""The maximum per package: new texts must not add phrases, and a rewrite lowers the number."""


def package(name: str) -> str:
    """The package of a file of this project: `core/sinks`, `console/tui`, `demo`, `tests`."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] in {"core", "console"} and len(parts) > 2 else parts[0]


def found_in_code() -> Counter[str]:
    found: Counter[str] = Counter()
    for folder in ("core", "console", "demo", "bench", "tests"):
        for kind in ("*.py", "*.sql"):
            for path in (ROOT / folder).rglob(kind):
                count = in_file(path, ROOT).total()
                found[package(path.relative_to(ROOT).as_posix())] += count
    return found


def found_in_pages() -> dict[str, int]:
    pages = (page for place in ("*.md", "docs/**/*.md", "bench/*.md", "tests/**/*.md") for page in ROOT.glob(place))
    counted = {page.relative_to(ROOT).as_posix(): in_file(page, ROOT).total() for page in pages}
    return {page: count for page, count in counted.items() if count}


def test_no_package_has_more_phrases_than_it_had() -> None:
    found = found_in_code()
    print("\n".join(f'    "{name}": {count},' for name, count in sorted(found.items()) if count))
    assert {name: count for name, count in found.items() if count > MOST_IN_CODE.get(name, 0)} == {}


def test_no_page_has_one() -> None:
    assert found_in_pages() == {}


@pytest.mark.parametrize("name", PHRASES)
def test_each_phrase_is_found_over_the_end_of_a_line_and_in_capitals(name: str) -> None:
    said = name.replace("is no X", "is no job")
    assert phrases(f"It {said}.") == {name: 1}
    assert phrases(f"It {said.upper()}.".replace(" ", "\n")) == {name: 1}


def test_a_phrase_is_found_in_a_string_a_docstring_and_a_comment_and_in_no_name() -> None:
    source = '"""It is no job."""\nnobody = f"{1} goes on"  # so\n# many of ours\ndef anew(): ...\n'
    assert sum((phrases(text) for text in spoken(source)), Counter()) == {
        "is no X": 1,
        "goes on": 1,
        "so many": 1,
        "of ours": 1,
    }


@pytest.mark.parametrize("text", ["it is no longer there", "there is no more", "the account `nobody`", "a DWS_ROW"])
def test_plain_english_and_an_account_are_not_counted(text: str) -> None:
    assert phrases(text) == {}


def test_exceptions_are_few_and_have_a_reason() -> None:
    assert len(EXCEPTIONS) < 30 and all(EXCEPTIONS.values())
