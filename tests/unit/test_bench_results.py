"""The benchmark's report on its results: ratios, regressions since the stored result, and the chart."""

from __future__ import annotations

import html
import json
import os
import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from bench import chart, compare, report
from bench.curves import Shape, shapes
from bench.peers.peer import Caught
from bench.report import Figure, Ratio, Side, cheaper, faster
from bench.rig import Rig, Sizes
from bench.rounds import Rounds
from slotkeeper.core.engine.tasks import LocalRunner


def side(name: str, *seconds: float, sink: float = 1.0) -> Side:
    made = Side(name, name)
    for one in seconds:
        made.add(1_000_000, one, {"source": 0.5, "sink": sink, "programs": 0.25})
    return made


class NoRig:
    """A rig without servers, in which every table has one row; the CPU of both servers is this process's."""

    source = sink = SimpleNamespace(pid=os.getpid())
    sizes = Sizes(1, 1, 1, 1)

    def copy_of(self, base: str, name: str) -> str:
        return name

    def settle(self, *sinks: str) -> None: ...

    def drop(self, *names: str) -> None: ...

    def fingerprint(self, *place: object) -> tuple[int, int]:
        return 1, 1


@dataclass
class Way:
    """A peer that catches up in two seconds, or fails."""

    name: str
    label: str
    breaks: bool
    wanted: float = 1.0

    def reserve(self, rig: Rig, round_: int) -> None: ...

    def catch_up(self, rig: Rig, database: str, round_: int) -> Caught:
        if self.breaks:
            raise RuntimeError("no jar")
        return Caught(2.0, 0.0)

    def release(self, rig: Rig, database: str, round_: int) -> None: ...


def result(**ratios: float) -> dict[str, Any]:
    made = [
        Ratio(name, name, [ratio * 0.9, ratio, ratio * 1.1], 1.0, more=not name.startswith("cpu")).values()
        for name, ratio in ratios.items()
    ]
    machine = {"cpus": 2, "postgresql": "18"}
    return {"at": "then", "ratios": made, "machine": machine, "options": {"changes": 350_000, "repeat": 3}}


def test_a_ratio_is_taken_within_its_round_and_its_median_is_what_is_shown() -> None:
    ours, other = side("ours", 1.0, 2.0, 4.0), side("other", 2.0, 2.0, 2.0)
    found = faster("x", "x", ours, other, wanted=1.25)
    assert list(found.rounds) == [2.0, 1.0, 0.5]
    assert (found.ratio, found.met) == (1.0, False)


def test_cpu_is_counted_per_change_and_less_is_better() -> None:
    ours, other = side("ours", 1.0, sink=1.5), side("other", 1.0, sink=3.5)
    assert ours.per_row("source", "sink") == [2.0]
    found = cheaper("cpu", "cpu", ours, other, ("source", "sink"), wanted=1.0)
    assert (found.ratio, found.met) == (0.5, True)
    assert found.values()["better"] == "less"


def test_what_fell_by_more_than_a_fifth_is_named_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    old = result(stream=1.0, snapshot=1.0, cpu_of_sink=1.0, gone=1.0)
    new = result(stream=0.79, snapshot=0.81, cpu_of_sink=1.3, come=1.0)
    assert compare.said(new, old) == 1
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "only in one of the two results: come",
        "only in one of the two results: gone",
        "fell by more than a fifth: cpu_of_sink: 1.00 -> 1.30",
        "fell by more than a fifth: stream: 1.00 -> 0.79",
    ]
    assert compare.said(old, old) == 0


def test_the_kept_result_is_as_the_picture_in_the_readme_shows_it() -> None:
    if not report.KEPT.exists():
        pytest.skip("no result is kept")
    assert chart.FILE.read_text(encoding="utf-8") == chart.drawn(json.loads(report.KEPT.read_text(encoding="utf-8")))
    assert chart.LINK in chart.README.read_text(encoding="utf-8")


def test_every_label_of_the_picture_is_whole_in_a_font_whose_letters_are_as_wide_as_high() -> None:
    text = chart.FILE.read_text(encoding="utf-8")
    found = re.findall(r'<text x="([\d.]+)" y="[\d.]+"(?: font-size="(\d+)")?[^>]*>([^<]*)</text>', text)
    assert len(found) > 10
    wide = [label for x, size, label in found if float(x) + len(html.unescape(label)) * int(size or 13) > chart.WIDTH]
    assert wide == []


def test_the_readme_links_the_picture_of_a_kept_result_and_none_that_is_not_there() -> None:
    text = chart.README.read_text(encoding="utf-8")
    assert text.count(chart.MARK) == 1
    assert {chart.LINK in text, report.KEPT.exists(), chart.FILE.exists()} in ({True}, {False})
    without = text.replace(chart.LINK, "")
    assert chart.linked(without).count(chart.LINK) == 1
    assert chart.linked(chart.linked(without)) == chart.linked(without)


def test_a_peer_that_fails_is_named_and_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    ways = [Way("broken", "a peer that breaks", True), Way("fine", "one that does not", False)]
    rounds = Rounds(cast(Rig, NoRig()), LocalRunner(1), ways, print)
    for peer in tuple(rounds.peers):
        rounds._turn_of(peer, "base", 0, (1, 1))()
    assert [peer.name for peer in rounds.peers] == ["fine"]
    assert rounds.not_run == {"broken": "RuntimeError: no jar"}
    assert "broken" not in rounds.sides and rounds.sides["fine"].seconds == [2.0]
    assert "not run: a peer that breaks: RuntimeError: no jar" in capsys.readouterr().out


def test_a_figure_that_was_not_had_is_not_met() -> None:
    lost = Figure("p99", float("inf"), "ms", 300.0)
    assert lost.met is False
    assert lost.values()["value"] is None


def test_the_picture_has_a_bar_for_each_ratio_in_which_more_is_better() -> None:
    picture = ElementTree.fromstring(chart.drawn(result(stream=0.8, **{"a < b": 20.0}, cpu_of_sink=1.0)))
    texts = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "a < b" in texts
    assert "cpu_of_sink" not in texts
    colours = [one.get("fill") for one in picture.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert colours == [chart.BEHIND, chart.BAR]


@pytest.mark.parametrize("shape", list(shapes(10_000_000)), ids=lambda one: f"{one.curve} {one.at}")
def test_a_curves_point_has_as_many_changes_as_it_says(shape: Shape) -> None:
    assert sum(shape.counts()) * shape.channels == pytest.approx(shape.changes, rel=0.01)
    assert min(shape.counts()) >= 0
