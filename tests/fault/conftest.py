"""The worlds of incidents."""

from tests.support.nights import make_world as make_world
