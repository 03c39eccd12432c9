"""The expected texts of the stream's decoder are PostgreSQL's own: a real server reads and writes each of them."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from slotkeeper.core.drivers import pg
from slotkeeper.demo.postgres import Server

VECTORS = Path(__file__).parents[1] / "support" / "flink_rows" / "vectors.jsonl"
OUT = {"boolean": "boolout", "character(8)": "bpcharout"}
NOT_HERE = ("json", "jsonb", "roaringbitmap")
"""Types whose texts in the vectors are arbitrary bytes, or that PostgreSQL does not have."""


def test_a_real_postgresql_writes_each_text_of_the_vectors_as_it_stands_there(pg_server: Server) -> None:
    texts: dict[str, set[str]] = {}
    for line in VECTORS.read_text("utf-8").splitlines():
        one = json.loads(line)
        for type_, text in zip(one.get("types", ()), one.get("texts", ()), strict=True):
            if text is not None and type_ not in NOT_HERE:
                texts.setdefault(type_, set()).add(text)
    assert len(texts) > 25
    with closing(pg_server.connect("postgres")) as connection, connection.cursor() as cursor:
        for type_, some in texts.items():
            value = f"t::{type_}"
            shown = f"textin({OUT[type_]}({value}))" if type_ in OUT else f"({value})::text"
            cursor.execute(pg.sql.SQL(f"SELECT t, {shown} FROM unnest(%s) t"), (sorted(some),))
            assert {text: out for text, out in cursor.fetchall() if text != out} == {}, type_
