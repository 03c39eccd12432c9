"""The figures that the issues ask for are measured, recorded, and within their targets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos import figures
from tests.chaos.figures import Figure
from tests.support.product import Product
from tests.support.report import Page

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.mark.parametrize("measure", [figures.many_writers, figures.hanging_dn, figures.idle, figures.huge_transaction])
def test_a_figure_is_within_its_target(
    product: Product, figures_page: Page, measure: Callable[[Product], list[Figure]]
) -> None:
    found = measure(product)
    for figure in found:
        met = "" if figure.met is None else figure.met
        figures_page.add(figure.name, figure.value, figure.target, met)
        print(figure, flush=True)
    assert [figure for figure in found if figure.met is False] == []
