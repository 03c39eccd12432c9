"""Fixtures of other folders, which the outputs are recorded over."""

from __future__ import annotations

from tests.integration.conftest import jobs as jobs
from tests.integration.test_schemas import place as place
