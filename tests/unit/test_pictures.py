"""Pictures of the console as SVG: a repeated row is stored once, nothing is fetched, text is not parsed as markup."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from bench import pictures

SIZE = (12, 2)
FIRST = "\x1b[38;2;1;2;3;48;2;9;9;9mone         \ntwo <b>&    "
SECOND = "\x1b[38;2;1;2;3;48;2;9;9;9mone         \nthree       "


def test_a_colour_lasts_over_the_end_of_a_row() -> None:
    first, second = pictures.rows_of(FIRST)
    assert (first[0].ink, first[0].ground) == (second[0].ink, second[0].ground) == ("#010203", "#090909")


def test_a_picture_is_static_and_a_film_shows_each_screen_in_its_time() -> None:
    still = pictures.svg([(FIRST, 1.0)], SIZE, "a <title>")
    assert "@keyframes" not in still and "a &lt;title&gt;" in still
    film = pictures.svg([(FIRST, 1.0), (SECOND, 3.0)], SIZE, "two screens")
    assert film.count("<g id=") == 3, "the row that both contain appears once"
    assert film.count("@keyframes") == 2 and "25.00%{visibility:visible}" in film
    assert "prefers-reduced-motion" in film


def test_it_is_well_formed_and_fetches_nothing() -> None:
    film = pictures.svg([(FIRST, 1.0), (SECOND, 3.0)], SIZE, "two screens")
    root = ElementTree.fromstring(film)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert re.findall(r"(?:https?:|url\(|@import|<image|<script)[^ ]*", film) == ['http://www.w3.org/2000/svg"']
    assert "two &lt;b&gt;&amp;" in film
