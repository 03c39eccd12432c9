"""Twenty rotations of both passwords under load, by file, variable and command: no job FAILED, ten seconds each.

Where the rotation ends a session in the middle of a registration, its lane waits 15 s more, as after any lost answer.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from slotkeeper.core.ports.source import LOST_ANSWER_WAIT
from slotkeeper.demo.warehouse import Warehouse
from tests.support.least import WAYS, Rotation
from tests.support.mirror import MakeMirror

pytestmark = pytest.mark.chaos
ROTATIONS = 20
LIMIT = 10.0
TABLE = "ods.orders"


@pytest.mark.parametrize("way", WAYS)
def test_twenty_rotations_under_load_end_no_job(
    warehouse: Warehouse,
    make_mirror: MakeMirror,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    way: str,
) -> None:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    mirror = make_mirror(warehouse, TABLE, "mart.t")
    rotation = Rotation(mirror, way, tmp_path, monkeypatch, random.Random(seed)).prepare()
    mirror.start().wait_running()
    for number in range(ROTATIONS):
        done = threading.Event()

        def write(begin: int = number * 1_000_000, over: threading.Event = done) -> None:
            for first in range(begin, begin + 1_000_000, 20):
                if over.wait(0.02):
                    return
                mirror.source(f"INSERT INTO {TABLE} SELECT {first} + n, 'load' FROM generate_series(1, 20) n")

        load = threading.Thread(target=write, daemon=True)
        load.start()
        rotation.rotate(behind=rotation.chance.choice([0.0, 0.0, 1.0]))
        done.set()
        load.join()
        rotation.followed(f"INSERT INTO {TABLE} VALUES ({-number - 1}, 'after')")
    mirror.stop()
    assert mirror.difference() == (0, 0)
    took = list(zip(rotation.seconds, rotation.waited_out, strict=True))
    for lost, limit in ((False, LIMIT), (True, LIMIT + LOST_ANSWER_WAIT)):
        found = sorted(seconds for seconds, waited_out in took if waited_out is lost) or [0.0]
        median, most = found[len(found) // 2], found[-1]
        print(f"way {way}, answer lost {lost}: {len(found)} rotations, median {median:.1f} s, most {most:.1f} s")
        assert found[-1] <= limit
