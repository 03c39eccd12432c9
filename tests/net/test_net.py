"""The net: texts, files and configurations equal their recordings, except for the listed renames."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.net import reads, recorded, texts
from tests.net.masks import Masks
from tests.net.recorded import Rename

SIZE_MAX = 400_000
"""The maximum bytes of a recorded file; people cannot review a larger one."""


def test_every_text_of_the_product_is_as_recorded() -> None:
    recorded.compare("texts.txt", texts.every_text(), in_order=False)


def test_every_golden_and_generated_page_is_as_recorded() -> None:
    recorded.compare("goldens.txt", texts.every_hash(), in_order=False)


def test_every_configuration_is_read_as_recorded(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SLOTKEEPER_", "XDG_"))}
    env |= {"PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path / "state-home"), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.net.reads", str(tmp_path)],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    seen = done.stdout.replace(str(tmp_path), "{home}").splitlines()
    assert len(seen) == len({json.loads(line)["name"] for line in seen}) >= 100
    recorded.compare("readings.jsonl", seen)


def test_recorded_files_stay_small_enough_to_be_read() -> None:
    assert {
        path.name: path.stat().st_size for path in recorded.FOLDER.iterdir() if path.stat().st_size > SIZE_MAX
    } == {}


def test_a_lost_a_changed_and_a_new_line_are_reported() -> None:
    said = recorded.difference("texts.txt", ["a lost text", "kept"], ["a new text", "kept"])
    assert "-a lost text" in said and "+a new text" in said and " kept" in said and recorded.VARIABLE in said
    assert recorded.difference("texts.txt", ["kept"], ["kept"]) == ""
    said = recorded.difference("x.jsonl", ['{"name": "n", "a": 1, "b": 2}'], ['{"name": "n", "b": 2, "a": 1}'])
    assert "== n" in said and '+ "b": 2' in said, "the order of keys counts"
    assert "2 lines are recorded, 1 are seen" in recorded.difference("x.jsonl", ["{}", "{}"], ["{}"])


def test_a_listed_rename_makes_no_difference_and_one_without_effect_is_an_error() -> None:
    assert Rename("x", "a", "c").applied(["a", "ba"]) == ["c", "ba"]
    assert Rename("x", "", "new").applied(["a"]) == ["a", "new"]
    assert Rename("x", "a", "").applied(["a", "a", "b"]) == ["a", "b"], "one of two equal lines is removed"
    assert recorded.renames(recorded.RENAMES.read_text("utf-8")) is not None
    with pytest.raises(ValueError, match="not `FILE: OLD => NEW`"):
        recorded.renames("texts.txt a b")
    with pytest.raises(ValueError, match=r"no recorded line of goldens\.txt holds 'nowhere'"):
        recorded.expected("goldens.txt", [Rename("goldens.txt", "nowhere", "x")], in_order=False)


def test_a_configuration_that_is_read_otherwise_is_reported(tmp_path: Path) -> None:
    one = json.loads(reads.INPUTS.read_text("utf-8").splitlines()[0])
    known: dict[str, list[str]] = {}
    before = reads.read(one, tmp_path / "before", known)
    values = known[one["name"]]
    assert (before["code"], before["check"]["ok"]) == (0, True) and len(values) > 50
    assert before["values"] == ["@@", *(f"+{value}" for value in values)], "the first one contains every value"
    other = {**one, "text": one["text"].replace("port = 8000", "port = 8001"), "like": one["name"], "name": "other"}
    assert reads.read(other, tmp_path / "after", known)["values"] == [
        "@@",
        "-sources.dws1.port = 8000  # file {folder}/config.toml:4",
        "+sources.dws1.port = 8001  # file {folder}/config.toml:4",
    ]


def test_masks_hide_what_varies_and_keep_keys_types_and_words() -> None:
    masks = Masks({"/somewhere/x": "{folder}", "5432": "{port}"})
    said = "2026-01-31T08:30:00Z pid 71 on port 5432: /somewhere/x/y waits for 3 rows since 1,200 ms, at 7/9/771"
    assert (
        masks.text(said)
        == "<time> pid <number> on port {port}: {folder}/y waits for 3 rows since <amount>, at 7/9/<xid>"
    )
    value = {"rows": 3, "pid": 7, "epoch": None, "seconds": 0.5, "port": 5432, "done": True}
    shown = {"rows": 3, "pid": "<int>", "epoch": None, "seconds": "<float>", "port": "<int>", "done": True}
    assert masks.value(value) == shown and list(shown) == list(value)
    assert masks.lines(["slotkeeper: orders_rt: RUNNING", "slotkeeper: no job 'x'"]) == ["slotkeeper: no job 'x'"]


def test_texts_are_found_in_any_module_and_docstrings_are_none() -> None:
    source = (
        '"""Not a text."""\nsay(f"job {name!r:>9} is gone\\n", "not-one", "python -m slotkeeper.core.spark", "{} {}")'
    )
    assert texts.texts(source) == ["job {} is gone\\n", "python -m core.spark"]
