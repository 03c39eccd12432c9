"""The worlds of incidents."""

from tests.support.scenes import make_world as make_world
