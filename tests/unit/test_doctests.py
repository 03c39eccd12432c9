"""The examples in docstrings give the documented results."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.architecture.checkout import PACKAGES, ROOT, module, sources

MODULES = [module(path, ROOT) for path in sources(ROOT, *PACKAGES) if ">>> " in path.read_text("utf-8")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert tried and not failed
