"""Fixtures of other folders, with which the outputs are recorded."""

from __future__ import annotations

from tests.integration.conftest import jobs as jobs
from tests.integration.test_schemas import place as place
