"""The bytes of each column type as MySQL and MariaDB write them in a row, and the value that a SELECT returns.

Sources: MySQL, "Rows_event" and "Table_map_event" in the server's Doxygen pages; my_time_packed_to_binary in
mysys/my_time.cc (its own examples are the negative values of time(2)); decimal2bin in strings/decimal.cc;
sql-common/json_binary.h. Values of 2018 are of tests/fixtures/recordings. Numbers, dates and times were compared once
with what `mariadb-binlog -vv` prints for these bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from slotkeeper.core.sources.mysql import rows
from slotkeeper.core.sources.mysql.events import Mapped, Parser
from slotkeeper.core.sources.mysql.faults import BinlogError, Damaged
from slotkeeper.core.sources.mysql.rows import Decoder, SchemaColumn, columns_of
from slotkeeper.core.sources.mysql.table_map import length_encoded
from tests.support import mysql_bytes as made

CHARSETS = {8: "latin1", 13: "sjis", 35: "ucs2", 36: "cp866", 45: "utf8mb4", 63: "binary"}
UTF8, LATIN1, SJIS, UCS2, CP866, BINARY = 45, 8, 13, 35, 36, 63
NUMERIC = (1, 2, 3, 4, 5, 8, 9, 13, 246)
"""Types that have a bit in the SIGNEDNESS field, in the order of their columns."""


@dataclass(frozen=True)
class Kind:
    """A column type: its type code and metadata in a table map, its optional metadata, and (bytes, value) pairs.

    `native` is a type that only information_schema names (MariaDB).
    """

    name: str
    code: int
    meta: str
    vectors: tuple[tuple[str, Any], ...]
    unsigned: bool = False
    collation: int | None = None
    labels: tuple[str, ...] = ()
    native: str = ""

    @classmethod
    def of(
        cls, name: str, code: int, meta: str, read: Callable[[str], Any], table: str, *, unsigned: bool = False
    ) -> Kind:
        """Return a type whose vectors are written "bytes = value", separated by "|" or by lines."""
        pairs = re.findall(r"([0-9a-f]+) =\s+([^|\n]*[^|\s])", table)
        return cls(name, code, meta, tuple((raw, read(value)) for raw, value in pairs), unsigned)

    @property
    def is_labelled(self) -> bool:
        return self.code == 254 and self.meta[:2] in ("f7", "f8")


LABELS = tuple(f"l{number}" for number in range(1, 301))
POINT = "000000000101000000000000000000f03f0000000000000040"
"""SRID 0, then WKB: POINT(1 2)."""

TABLE = (
    # -- numbers
    Kind.of("tinyint", 1, "", int, """
        00 = 0 | 01 = 1 | ff = -1 | 02 = 2 | fe = -2 | 7f = 127 | 80 = -128 | 81 = -127
    """, unsigned=False),
    Kind.of("tinyint unsigned", 1, "", int, "00 = 0 | 01 = 1 | 7f = 127 | 80 = 128 | ff = 255", unsigned=True),
    Kind.of("smallint", 2, "", int, """
        0000 = 0 | 0100 = 1 | ffff = -1 | 0200 = 2 | feff = -2 | 7f00 = 127 | 80ff = -128 | ff7f = 32767 | 0080 = -32768
        0180 = -32767 | 0102 = 513 | fffd = -513 | ff00 = 255 | 0001 = 256 | 00ff = -256
    """, unsigned=False),
    Kind.of("smallint unsigned", 2, "", int, """
        0000 = 0 | 0100 = 1 | ff7f = 32767 | 0080 = 32768 | ffff = 65535 | 0102 = 513
    """, unsigned=True),
    Kind.of("mediumint", 9, "", int, """
        000000 = 0 | 010000 = 1 | ffffff = -1 | 020000 = 2 | feffff = -2 | 7f0000 = 127 | 80ffff = -128
        ffff7f = 8388607 | 000080 = -8388608 | 010080 = -8388607 | 010203 = 197121 | fffdfc = -197121 | ff0000 = 255
        000100 = 256 | 00ffff = -256
    """, unsigned=False),
    Kind.of("mediumint unsigned", 9, "", int, """
        000000 = 0 | 010000 = 1 | ffff7f = 8388607 | 000080 = 8388608 | ffffff = 16777215 | 010203 = 197121
    """, unsigned=True),
    Kind.of("int", 3, "", int, """
        00000000 = 0 | 01000000 = 1 | ffffffff = -1 | 02000000 = 2 | feffffff = -2 | 7f000000 = 127 | 80ffffff = -128
        ffffff7f = 2147483647 | 00000080 = -2147483648 | 01000080 = -2147483647 | 01020304 = 67305985
        fffdfcfb = -67305985 | ff000000 = 255 | 00010000 = 256 | 00ffffff = -256
    """, unsigned=False),
    Kind.of("int unsigned", 3, "", int, """
        00000000 = 0 | 01000000 = 1 | ffffff7f = 2147483647 | 00000080 = 2147483648 | ffffffff = 4294967295
        01020304 = 67305985
    """, unsigned=True),
    Kind.of("bigint", 8, "", int, """
        0000000000000000 = 0 | 0100000000000000 = 1 | ffffffffffffffff = -1 | 0200000000000000 = 2
        feffffffffffffff = -2 | 7f00000000000000 = 127 | 80ffffffffffffff = -128
        ffffffffffffff7f = 9223372036854775807 | 0000000000000080 = -9223372036854775808
        0100000000000080 = -9223372036854775807 | 0102030405060708 = 578437695752307201
        fffdfcfbfaf9f8f7 = -578437695752307201 | ff00000000000000 = 255 | 0001000000000000 = 256
        00ffffffffffffff = -256
    """, unsigned=False),
    Kind.of("bigint unsigned", 8, "", int, """
        0000000000000000 = 0 | 0100000000000000 = 1 | ffffffffffffff7f = 9223372036854775807
        0000000000000080 = 9223372036854775808 | ffffffffffffffff = 18446744073709551615
        0102030405060708 = 578437695752307201
    """, unsigned=True),
    Kind.of("float", 4, "04", float, """
        00000000 = 0.0 | 0000803f = 1.0 | 000080bf = -1.0 | cdcc8c3f = 1.1 | c3f54840 = 3.14
        01000000 = 1e-45 | 01000080 = -1e-45 | ffff7f00 = 1.1754942e-38
        00008000 = 1.1754944e-38 | ffff7f7f = 3.4028235e+38 | ffff7fff = -3.4028235e+38
        0000804b = 16777216.0 | 0100804b = 16777218.0 | 20bcbe4c = 100000000.0 | 00000080 = -0.0
        cdcccc3d = 0.1 | db0f4940 = 3.1415927 | b81e85c2 = -66.56
        6f12833a = 0.001 | c2160100 = 1e-40 | c2160180 = -1e-40 | 5500005a = 9007290000000000.0 | 446fcec2 = -103.217316
    """),
    Kind.of("double", 5, "08", float, """
        0000000000000000 = 0.0 | 000000000000f03f = 1.0 | 000000000000f0bf = -1.0 | 000000000000f83f = 1.5
        9a9999999999b93f = 0.1 | 0000000000000080 = -0.0 | 0100000000000000 = 5e-324 | 0100000000000080 = -5e-324
        ffffffffffff0f00 = 2.225073858507201e-308 | 0000000000001000 = 2.2250738585072014e-308
        ffffffffffffef7f = 1.7976931348623157e+308 | ffffffffffffefff = -1.7976931348623157e+308
        182d4454fb210940 = 3.141592653589793 | 00000000dc741b41 = 449847.0 | 00003426f56b0c43 = 1000000000000000.0
        350f63bab4697b43 = 1.2345678901234568e+17
    """),
    Kind.of("decimal(1,0)", 246, "0100", str, "81 = 1 | 7e = -1 | 89 = 9 | 76 = -9 | 80 = 0 | 81 = 1 | 7e = -1"),
    Kind.of("decimal(2,0)", 246, "0200", str, """
        8c = 12 | 73 = -12 | e3 = 99 | 1c = -99 | 80 = 0 | 81 = 1 | 7e = -1
    """),
    Kind.of("decimal(3,0)", 246, "0300", str, """
        807b = 123 | 7f84 = -123 | 83e7 = 999 | 7c18 = -999 | 8000 = 0 | 8001 = 1 | 7ffe = -1
    """),
    Kind.of("decimal(4,0)", 246, "0400", str, """
        84d2 = 1234 | 7b2d = -1234 | a70f = 9999 | 58f0 = -9999 | 8000 = 0 | 8001 = 1 | 7ffe = -1
    """),
    Kind.of("decimal(5,0)", 246, "0500", str, """
        803039 = 12345 | 7fcfc6 = -12345 | 81869f = 99999 | 7e7960 = -99999 | 800000 = 0 | 800001 = 1 | 7ffffe = -1
    """),
    Kind.of("decimal(6,0)", 246, "0600", str, """
        81e240 = 123456 | 7e1dbf = -123456 | 8f423f = 999999 | 70bdc0 = -999999 | 800000 = 0 | 800001 = 1 | 7ffffe = -1
    """),
    Kind.of("decimal(7,0)", 246, "0700", str, """
        8012d687 = 1234567 | 7fed2978 = -1234567 | 8098967f = 9999999 | 7f676980 = -9999999 | 80000000 = 0
        80000001 = 1 | 7ffffffe = -1
    """),
    Kind.of("decimal(8,0)", 246, "0800", str, """
        80bc614e = 12345678 | 7f439eb1 = -12345678 | 85f5e0ff = 99999999 | 7a0a1f00 = -99999999 | 80000000 = 0
        80000001 = 1 | 7ffffffe = -1
    """),
    Kind.of("decimal(9,0)", 246, "0900", str, """
        875bcd15 = 123456789 | 78a432ea = -123456789 | bb9ac9ff = 999999999 | 44653600 = -999999999 | 80000000 = 0
        80000001 = 1 | 7ffffffe = -1
    """),
    Kind.of("decimal(1,1)", 246, "0101", str, "81 = 0.1 | 7e = -0.1 | 89 = 0.9 | 76 = -0.9 | 80 = 0.0"),
    Kind.of("decimal(2,2)", 246, "0202", str, """
        8c = 0.12 | 73 = -0.12 | e3 = 0.99 | 1c = -0.99 | 80 = 0.00 | 81 = 0.01 | 7e = -0.01
    """),
    Kind.of("decimal(3,3)", 246, "0303", str, """
        807b = 0.123 | 7f84 = -0.123 | 83e7 = 0.999 | 7c18 = -0.999 | 8000 = 0.000 | 8001 = 0.001 | 7ffe = -0.001
    """),
    Kind.of("decimal(4,4)", 246, "0404", str, """
        84d2 = 0.1234 | 7b2d = -0.1234 | a70f = 0.9999 | 58f0 = -0.9999 | 8000 = 0.0000 | 8001 = 0.0001 | 7ffe = -0.0001
    """),
    Kind.of("decimal(5,5)", 246, "0505", str, """
        803039 = 0.12345 | 7fcfc6 = -0.12345 | 81869f = 0.99999 | 7e7960 = -0.99999 | 800000 = 0.00000
        800001 = 0.00001 | 7ffffe = -0.00001
    """),
    Kind.of("decimal(6,6)", 246, "0606", str, """
        81e240 = 0.123456 | 7e1dbf = -0.123456 | 8f423f = 0.999999 | 70bdc0 = -0.999999 | 800000 = 0.000000
        800001 = 0.000001 | 7ffffe = -0.000001
    """),
    Kind.of("decimal(7,7)", 246, "0707", str, """
        8012d687 = 0.1234567 | 7fed2978 = -0.1234567 | 8098967f = 0.9999999 | 7f676980 = -0.9999999
        80000000 = 0.0000000 | 80000001 = 0.0000001 | 7ffffffe = -0.0000001
    """),
    Kind.of("decimal(8,8)", 246, "0808", str, """
        80bc614e = 0.12345678 | 7f439eb1 = -0.12345678 | 85f5e0ff = 0.99999999 | 7a0a1f00 = -0.99999999
        80000000 = 0.00000000 | 80000001 = 0.00000001 | 7ffffffe = -0.00000001
    """),
    Kind.of("decimal(9,9)", 246, "0909", str, """
        875bcd15 = 0.123456789 | 78a432ea = -0.123456789 | bb9ac9ff = 0.999999999 | 44653600 = -0.999999999
        80000000 = 0.000000000 | 80000001 = 0.000000001 | 7ffffffe = -0.000000001
    """),
    Kind.of("decimal(10,0)", 246, "0a00", str, """
        810dfb38d3 = 1234567891 | 7ef204c72c = -1234567891 | 893b9ac9ff = 9999999999 | 76c4653600 = -9999999999
        8000000000 = 0 | 8100000000 = 1000000000 | 7effffffff = -1000000000 | 8005f5e100 = 100000000
        7ffa0a1eff = -100000000
    """),
    Kind.of("decimal(14,4)", 246, "0e04", str, """
        810dfb38d32694 = 1234567891.9876 | 7ef204c72cd96b = -1234567891.9876 | 893b9ac9ff270f = 9999999999.9999
        76c4653600d8f0 = -9999999999.9999 | 80000000000000 = 0.0000 | 81000000000001 = 1000000000.0001
        7efffffffffffe = -1000000000.0001 | 8005f5e1000000 = 100000000.0000 | 7ffa0a1effffff = -100000000.0000
    """),
    Kind.of("decimal(15,2)", 246, "0f02", str, """
        84d221d9552262 = 1234567891234.98 | 7b2dde26aadd9d = -1234567891234.98 | a70f3b9ac9ff63 = 9999999999999.99
        58f0c46536009c = -9999999999999.99 | 80000000000000 = 0.00 | 80010000000001 = 1000000000.01
        7ffefffffffffe = -1000000000.01 | 800005f5e10000 = 100000000.00 | 7ffffa0a1effff = -100000000.00
    """),
    Kind.of("decimal(17,2)", 246, "1102", str, """
        81e2402f09118062 = 123456789123456.98 | 7e1dbfd0f6ee7f9d = -123456789123456.98
        8f423f3b9ac9ff63 = 999999999999999.99 | 70bdc0c46536009c = -999999999999999.99 | 8000000000000000 = 0.00
        8000010000000001 = 1000000000.01 | 7ffffefffffffffe = -1000000000.01 | 80000005f5e10000 = 100000000.00
        7ffffffa0a1effff = -100000000.00
    """),
    Kind.of("decimal(20,10)", 246, "140a", str, """
        810dfb38d33ade68b109 = 1234567891.9876543219 | 7ef204c72cc521974ef6 = -1234567891.9876543219
        893b9ac9ff3b9ac9ff09 = 9999999999.9999999999 | 76c4653600c4653600f6 = -9999999999.9999999999
        80000000000000000000 = 0.0000000000 | 81000000000000000001 = 1000000000.0000000001
        7efffffffffffffffffe = -1000000000.0000000001 | 8005f5e1000000000000 = 100000000.0000000000
        7ffa0a1effffffffffff = -100000000.0000000000
    """),
    Kind.of("decimal(30,30)", 246, "1e1e", str, """
        bade68b13ade68b13ade68b103db = 0.987654321987654321987654321987
        4521974ec521974ec521974efc24 = -0.987654321987654321987654321987
        bb9ac9ff3b9ac9ff3b9ac9ff03e7 = 0.999999999999999999999999999999
        44653600c4653600c4653600fc18 = -0.999999999999999999999999999999
        8000000000000000000000000000 = 0.000000000000000000000000000000
        8000000000000000000000000001 = 0.000000000000000000000000000001
        7ffffffffffffffffffffffffffe = -0.000000000000000000000000000001
    """),
    Kind.of("decimal(36,18)", 246, "2412", str, """
        875bcd15075bcd153ade68b13ade68b1 = 123456789123456789.987654321987654321
        78a432eaf8a432eac521974ec521974e = -123456789123456789.987654321987654321
        bb9ac9ff3b9ac9ff3b9ac9ff3b9ac9ff = 999999999999999999.999999999999999999
        44653600c4653600c4653600c4653600 = -999999999999999999.999999999999999999
        80000000000000000000000000000000 = 0.000000000000000000
        80000001000000000000000000000001 = 1000000000.000000000000000001
        7ffffffefffffffffffffffffffffffe = -1000000000.000000000000000001
        8000000005f5e1000000000000000000 = 100000000.000000000000000000
        7ffffffffa0a1effffffffffffffffff = -100000000.000000000000000000
    """),
    Kind.of("decimal(65,30)", 246, "411e", str, """
        80bc614e36614a4e36614a4e36614a4e3ade68b13ade68b13ade68b103db =
          12345678912345678912345678912345678.987654321987654321987654321987
        7f439eb1c99eb5b1c99eb5b1c99eb5b1c521974ec521974ec521974efc24 =
          -12345678912345678912345678912345678.987654321987654321987654321987
        85f5e0ff3b9ac9ff3b9ac9ff3b9ac9ff3b9ac9ff3b9ac9ff3b9ac9ff03e7 =
          99999999999999999999999999999999999.999999999999999999999999999999
        7a0a1f00c4653600c4653600c4653600c4653600c4653600c4653600fc18 =
          -99999999999999999999999999999999999.999999999999999999999999999999
        800000000000000000000000000000000000000000000000000000000000 = 0.000000000000000000000000000000
        800000000000000000000001000000000000000000000000000000000001 = 1000000000.000000000000000000000000000001
        7ffffffffffffffffffffffefffffffffffffffffffffffffffffffffffe = -1000000000.000000000000000000000000000001
        80000000000000000000000005f5e1000000000000000000000000000000 = 100000000.000000000000000000000000000000
        7ffffffffffffffffffffffffa0a1effffffffffffffffffffffffffffff = -100000000.000000000000000000000000000000
    """),
    Kind.of("decimal(65,0)", 246, "4100", str, """
        8c149aa440149aa440149aa440149aa440149aa440149aa440149aa440 =
          12345678912345678912345678912345678912345678912345678912345678912
        73eb655bbfeb655bbfeb655bbfeb655bbfeb655bbfeb655bbfeb655bbf =
          -12345678912345678912345678912345678912345678912345678912345678912
        e33b9ac9ff3b9ac9ff3b9ac9ff3b9ac9ff3b9ac9ff3b9ac9ff3b9ac9ff =
          99999999999999999999999999999999999999999999999999999999999999999
        1cc4653600c4653600c4653600c4653600c4653600c4653600c4653600 =
          -99999999999999999999999999999999999999999999999999999999999999999
        8000000000000000000000000000000000000000000000000000000000 = 0
        8000000000000000000000000000000000000000000000000100000000 = 1000000000
        7ffffffffffffffffffffffffffffffffffffffffffffffffeffffffff = -1000000000
        8000000000000000000000000000000000000000000000000005f5e100 = 100000000
        7ffffffffffffffffffffffffffffffffffffffffffffffffffa0a1eff = -100000000
    """),
    Kind.of("decimal(27,9)", 246, "1b09", str, """
        875bcd15075bcd153ade68b1 = 123456789123456789.987654321
        78a432eaf8a432eac521974e = -123456789123456789.987654321
        bb9ac9ff3b9ac9ff3b9ac9ff = 999999999999999999.999999999
        44653600c4653600c4653600 = -999999999999999999.999999999 | 800000000000000000000000 = 0.000000000
        800000010000000000000001 = 1000000000.000000001 | 7ffffffefffffffffffffffe = -1000000000.000000001
        8000000005f5e10000000000 = 100000000.000000000 | 7ffffffffa0a1effffffffff = -100000000.000000000
    """),
    Kind.of("decimal(5,2)", 246, "0502", str, """
        807b62 = 123.98 | 7f849d = -123.98 | 83e763 = 999.99 | 7c189c = -999.99 | 800000 = 0.00 | 800001 = 0.01
        7ffffe = -0.01 | 800100 = 1.00 | 7ffeff = -1.00
    """),
    Kind.of("bit(1)", 16, "0100", int, "00 = 0 | 01 = 1"),
    Kind.of("bit(7)", 16, "0700", int, "00 = 0 | 01 = 1 | 7f = 127 | 40 = 64 | 08 = 8"),
    Kind.of("bit(8)", 16, "0001", int, "00 = 0 | 01 = 1 | ff = 255 | 80 = 128 | 08 = 8"),
    Kind.of("bit(9)", 16, "0101", int, "0000 = 0 | 0001 = 1 | 01ff = 511 | 0100 = 256 | 0108 = 264"),
    Kind.of("bit(16)", 16, "0002", int, "0000 = 0 | 0001 = 1 | ffff = 65535 | 8000 = 32768 | 0708 = 1800"),
    Kind.of("bit(17)", 16, "0102", int, """
        000000 = 0 | 000001 = 1 | 01ffff = 131071 | 010000 = 65536 | 000708 = 1800
    """),
    Kind.of("bit(31)", 16, "0703", int, """
        00000000 = 0 | 00000001 = 1 | 7fffffff = 2147483647 | 40000000 = 1073741824 | 05060708 = 84281096
    """),
    Kind.of("bit(32)", 16, "0004", int, """
        00000000 = 0 | 00000001 = 1 | ffffffff = 4294967295 | 80000000 = 2147483648 | 05060708 = 84281096
    """),
    Kind.of("bit(33)", 16, "0104", int, """
        0000000000 = 0 | 0000000001 = 1 | 01ffffffff = 8589934591 | 0100000000 = 4294967296 | 0005060708 = 84281096
    """),
    Kind.of("bit(63)", 16, "0707", int, """
        0000000000000000 = 0 | 0000000000000001 = 1 | 7fffffffffffffff = 9223372036854775807
        4000000000000000 = 4611686018427387904 | 0102030405060708 = 72623859790382856
    """),
    Kind.of("bit(64)", 16, "0008", int, """
        0000000000000000 = 0 | 0000000000000001 = 1 | ffffffffffffffff = 18446744073709551615
        8000000000000000 = 9223372036854775808 | 0102030405060708 = 72623859790382856
    """),
    # -- dates and times
    Kind.of("year", 13, "", int, """
        00 = 0 | 01 = 1901 | 45 = 1969 | 46 = 1970 | 63 = 1999 | 64 = 2000 | 7c = 2024 | fe = 2154 | ff = 2155
    """),
    Kind.of("date", 10, "", str, """
        000000 = 0000-00-00 | 010000 = 0000-00-01 | 200000 = 0000-01-00 | 00d00f = 2024-00-00 | 5dd00f = 2024-02-29
        21d007 = 1000-01-01 | 9f1f4e = 9999-12-31 | 509f0f = 1999-10-16 | 1fa10f = 2000-08-31 | 210200 = 0001-01-01
    """),
    Kind.of("datetime", 18, "00", str, """
        8000000000 = 0000-00-00 00:00:00 | 8cb2420000 = 1000-01-01 00:00:00 | fef3ff7efb = 9999-12-31 23:59:59
        99b2bac8b8 = 2024-02-29 12:34:56 | 9966a087e0 = 2000-10-16 08:31:32 | 99b2000000 = 2024-00-00 00:00:00
        9902c20000 = 1970-01-01 00:00:00 | 99a13d2089 = 2018-10-30 18:02:09 | 99a1450d71 = 2018-11-02 16:53:49
    """),
    Kind.of("datetime(1)", 18, "01", str, """
        800000000000 = 0000-00-00 00:00:00.0 | 8cb242000000 = 1000-01-01 00:00:00.0
        fef3ff7efb5a = 9999-12-31 23:59:59.9 | 99b2bac8b80a = 2024-02-29 12:34:56.1
        9966a087e000 = 2000-10-16 08:31:32.0 | 99b200000000 = 2024-00-00 00:00:00.0
        9902c2000000 = 1970-01-01 00:00:00.0
    """),
    Kind.of("datetime(2)", 18, "02", str, """
        800000000000 = 0000-00-00 00:00:00.00 | 8cb242000000 = 1000-01-01 00:00:00.00
        fef3ff7efb63 = 9999-12-31 23:59:59.99 | 99b2bac8b80c = 2024-02-29 12:34:56.12
        9966a087e005 = 2000-10-16 08:31:32.05 | 99b200000000 = 2024-00-00 00:00:00.00
        9902c2000000 = 1970-01-01 00:00:00.00
    """),
    Kind.of("datetime(3)", 18, "03", str, """
        80000000000000 = 0000-00-00 00:00:00.000 | 8cb24200000000 = 1000-01-01 00:00:00.000
        fef3ff7efb2706 = 9999-12-31 23:59:59.999 | 99b2bac8b804ce = 2024-02-29 12:34:56.123
        9966a087e001f4 = 2000-10-16 08:31:32.050 | 99b20000000000 = 2024-00-00 00:00:00.000
        9902c200000000 = 1970-01-01 00:00:00.000
    """),
    Kind.of("datetime(4)", 18, "04", str, """
        80000000000000 = 0000-00-00 00:00:00.0000 | 8cb24200000000 = 1000-01-01 00:00:00.0000
        fef3ff7efb270f = 9999-12-31 23:59:59.9999 | 99b2bac8b804d2 = 2024-02-29 12:34:56.1234
        9966a087e001fa = 2000-10-16 08:31:32.0506 | 99b20000000000 = 2024-00-00 00:00:00.0000
        9902c200000000 = 1970-01-01 00:00:00.0000
    """),
    Kind.of("datetime(5)", 18, "05", str, """
        8000000000000000 = 0000-00-00 00:00:00.00000 | 8cb2420000000000 = 1000-01-01 00:00:00.00000
        fef3ff7efb0f4236 = 9999-12-31 23:59:59.99999 | 99b2bac8b801e23a = 2024-02-29 12:34:56.12345
        9966a087e000c5a8 = 2000-10-16 08:31:32.05060 | 99b2000000000000 = 2024-00-00 00:00:00.00000
        9902c20000000000 = 1970-01-01 00:00:00.00000
    """),
    Kind.of("datetime(6)", 18, "06", str, """
        8000000000000000 = 0000-00-00 00:00:00.000000 | 8cb2420000000000 = 1000-01-01 00:00:00.000000
        fef3ff7efb0f423f = 9999-12-31 23:59:59.999999 | 99b2bac8b801e240 = 2024-02-29 12:34:56.123456
        9966a087e000c5af = 2000-10-16 08:31:32.050607 | 99b2000000000000 = 2024-00-00 00:00:00.000000
        9902c20000000001 = 1970-01-01 00:00:00.000001
    """),
    Kind.of("timestamp", 17, "00", str, """
        00000000 = 0000-00-00 00:00:00 | 00000001 = 1970-01-01 00:00:01 | 7fffffff = 2038-01-19 03:14:07
        65e079f0 = 2024-02-29 12:34:56 | 39eabce4 = 2000-10-16 08:31:32 | 386d437f = 1999-12-31 23:59:59
        3b9aca00 = 2001-09-09 01:46:40 | 5aec1a7f = 2018-05-04 08:31:59 | ffffffff = 2106-02-07 06:28:15
    """),
    Kind.of("timestamp(1)", 17, "01", str, """
        0000000000 = 0000-00-00 00:00:00.0 | 0000000100 = 1970-01-01 00:00:01.0 | 7fffffff5a = 2038-01-19 03:14:07.9
        65e079f00a = 2024-02-29 12:34:56.1 | 39eabce400 = 2000-10-16 08:31:32.0 | 386d437f5a = 1999-12-31 23:59:59.9
        3b9aca0000 = 2001-09-09 01:46:40.0
    """),
    Kind.of("timestamp(2)", 17, "02", str, """
        0000000000 = 0000-00-00 00:00:00.00 | 0000000100 = 1970-01-01 00:00:01.00 | 7fffffff63 = 2038-01-19 03:14:07.99
        65e079f00c = 2024-02-29 12:34:56.12 | 39eabce405 = 2000-10-16 08:31:32.05 | 386d437f5a = 1999-12-31 23:59:59.90
        3b9aca0000 = 2001-09-09 01:46:40.00
    """),
    Kind.of("timestamp(3)", 17, "03", str, """
        000000000000 = 0000-00-00 00:00:00.000 | 000000010000 = 1970-01-01 00:00:01.000
        7fffffff2706 = 2038-01-19 03:14:07.999 | 65e079f004ce = 2024-02-29 12:34:56.123
        39eabce401f4 = 2000-10-16 08:31:32.050 | 386d437f2328 = 1999-12-31 23:59:59.900
        3b9aca000000 = 2001-09-09 01:46:40.000
    """),
    Kind.of("timestamp(4)", 17, "04", str, """
        000000000000 = 0000-00-00 00:00:00.0000 | 000000010000 = 1970-01-01 00:00:01.0000
        7fffffff270f = 2038-01-19 03:14:07.9999 | 65e079f004d2 = 2024-02-29 12:34:56.1234
        39eabce401fa = 2000-10-16 08:31:32.0506 | 386d437f2328 = 1999-12-31 23:59:59.9000
        3b9aca000000 = 2001-09-09 01:46:40.0000
    """),
    Kind.of("timestamp(5)", 17, "05", str, """
        00000000000000 = 0000-00-00 00:00:00.00000 | 00000001000000 = 1970-01-01 00:00:01.00000
        7fffffff0f4236 = 2038-01-19 03:14:07.99999 | 65e079f001e23a = 2024-02-29 12:34:56.12345
        39eabce400c5a8 = 2000-10-16 08:31:32.05060 | 386d437f0dbba0 = 1999-12-31 23:59:59.90000
        3b9aca00000000 = 2001-09-09 01:46:40.00000
    """),
    Kind.of("timestamp(6)", 17, "06", str, """
        00000000000000 = 0000-00-00 00:00:00.000000 | 00000001000000 = 1970-01-01 00:00:01.000000
        7fffffff0f423f = 2038-01-19 03:14:07.999999 | 65e079f001e240 = 2024-02-29 12:34:56.123456
        39eabce400c5af = 2000-10-16 08:31:32.050607 | 386d437f0dbba0 = 1999-12-31 23:59:59.900000
        3b9aca00000000 = 2001-09-09 01:46:40.000000
    """),
    Kind.of("time", 19, "00", str, """
        800000 = 00:00:00 | 800001 = 00:00:01 | 7fffff = -00:00:01 | 80c8b8 = 12:34:56 | 7f3748 = -12:34:56
        b46efb = 838:59:59 | 4b9105 = -838:59:59 | 864000 = 100:00:00 | 79c000 = -100:00:00 | 7ff000 = -01:00:00
    """),
    Kind.of("time(1)", 19, "01", str, """
        80000000 = 00:00:00.0 | 80000100 = 00:00:01.0 | 7fffff00 = -00:00:01.0 | 80c8b80a = 12:34:56.1
        7f3747f6 = -12:34:56.1 | b46efb00 = 838:59:59.0 | 4b910500 = -838:59:59.0 | 7fffffa6 = -00:00:00.9
        8000005a = 00:00:00.9 | 86400000 = 100:00:00.0 | 79c00000 = -100:00:00.0 | 7ff00000 = -01:00:00.0
    """),
    Kind.of("time(2)", 19, "02", str, """
        80000000 = 00:00:00.00 | 80000100 = 00:00:01.00 | 80c8b80c = 12:34:56.12 | 7f3747f4 = -12:34:56.12
        b46efb00 = 838:59:59.00 | 4b910500 = -838:59:59.00 | 80000063 = 00:00:00.99 | 86400005 = 100:00:00.05
        79bffffb = -100:00:00.05 | 7ff00000 = -01:00:00.00 | 7fffffff = -00:00:00.01 | 7fffff9d = -00:00:00.99
        7fffff00 = -00:00:01.00 | 7ffffeff = -00:00:01.01 | 7ffffef6 = -00:00:01.10
    """),
    Kind.of("time(3)", 19, "03", str, """
        8000000000 = 00:00:00.000 | 8000010000 = 00:00:01.000 | 7fffff0000 = -00:00:01.000 | 80c8b804ce = 12:34:56.123
        7f3747fb32 = -12:34:56.123 | b46efb0000 = 838:59:59.000 | 4b91050000 = -838:59:59.000
        7fffffd8fa = -00:00:00.999 | 8000002706 = 00:00:00.999 | 86400001f4 = 100:00:00.050
        79bffffe0c = -100:00:00.050 | 7ff0000000 = -01:00:00.000
    """),
    Kind.of("time(4)", 19, "04", str, """
        8000000000 = 00:00:00.0000 | 8000010000 = 00:00:01.0000 | 7fffff0000 = -00:00:01.0000
        80c8b804d2 = 12:34:56.1234 | 7f3747fb2e = -12:34:56.1234 | b46efb0000 = 838:59:59.0000
        4b91050000 = -838:59:59.0000 | 7fffffd8f1 = -00:00:00.9999 | 800000270f = 00:00:00.9999
        86400001fa = 100:00:00.0506 | 79bffffe06 = -100:00:00.0506 | 7ff0000000 = -01:00:00.0000
    """),
    Kind.of("time(5)", 19, "05", str, """
        800000000000 = 00:00:00.00000 | 800001000000 = 00:00:01.00000 | 7fffff000000 = -00:00:01.00000
        80c8b801e23a = 12:34:56.12345 | 7f3747fe1dc6 = -12:34:56.12345 | b46efb000000 = 838:59:59.00000
        4b9105000000 = -838:59:59.00000 | 7ffffff0bdca = -00:00:00.99999 | 8000000f4236 = 00:00:00.99999
        86400000c5a8 = 100:00:00.05060 | 79bfffff3a58 = -100:00:00.05060 | 7ff000000000 = -01:00:00.00000
    """),
    Kind.of("time(6)", 19, "06", str, """
        800000000000 = 00:00:00.000000 | 800001000000 = 00:00:01.000000 | 7fffff000000 = -00:00:01.000000
        80c8b801e240 = 12:34:56.123456 | 7f3747fe1dc0 = -12:34:56.123456 | b46efb000000 = 838:59:59.000000
        4b9105000000 = -838:59:59.000000 | 7ffffff0bdc1 = -00:00:00.999999 | 8000000f423f = 00:00:00.999999
        86400000c5af = 100:00:00.050607 | 79bfffff3a51 = -100:00:00.050607 | 7ff000000000 = -01:00:00.000000
    """),
    # -- labels
    Kind("enum of 1 byte", 254, "f701", (("00", ""), ("01", "a"), ("02", "é"), ("03", "")), collation=LATIN1,
         labels=("a", "é", "")),
    Kind("enum of 1 byte, 255 labels", 254, "f701", (("00", ""), ("01", "l1"), ("7f", "l127"), ("ff", "l255")),
         collation=UTF8, labels=LABELS[:255]),
    Kind("enum of 1 byte, 200 labels", 254, "f701", (("7f", "l127"), ("80", "l128"), ("c8", "l200")),
         collation=UTF8, labels=LABELS[:200]),
    Kind("enum of 2 bytes", 254, "f702", (("0000", ""), ("0100", "l1"), ("0001", "l256"), ("2c01", "l300")),
         collation=UTF8, labels=LABELS),
    Kind("set of 1 byte", 254, "f801", (("00", ""), ("01", "a"), ("02", "b"), ("05", "a,ü"), ("07", "a,b,ü")),
         collation=UTF8, labels=("a", "b", "ü")),
    Kind("set of 8 labels", 254, "f801", (("80", "l8"), ("81", "l1,l8"), ("ff", "l1,l2,l3,l4,l5,l6,l7,l8")),
         collation=UTF8, labels=LABELS[:8]),
    Kind("set of 2 bytes", 254, "f802", (("0000", ""), ("0100", "l1"), ("0001", "l9"), ("0101", "l1,l9")),
         collation=UTF8, labels=LABELS[:9]),
    Kind("set of 3 bytes", 254, "f803", (("000001", "l17"), ("018001", "l1,l16,l17")), collation=UTF8,
         labels=LABELS[:17]),
    Kind("set of 4 bytes", 254, "f804", (("00000001", "l25"), ("01000080", "l1,l32")), collation=UTF8,
         labels=LABELS[:32]),
    Kind("set of 8 bytes", 254, "f808", (("0000000001000000", "l33"), ("0100000000000080", "l1,l64")), collation=UTF8,
         labels=LABELS[:64]),
    # -- characters and bytes
    Kind("char(5) utf8mb4", 254, "fe14", (("00", ""), ("03616263", "abc"), ("06e697a5e69cac", "日本"),
         ("04f09f9880", "😀"), ("03612061", "a a")), collation=UTF8),
    Kind("char(255) latin1", 254, "feff", (("00", ""), ("0180", "€"), ("0181", "\x81"), ("ff" + "e9" * 255, "é" * 255)),
         collation=LATIN1),
    Kind("char(64) utf8mb4", 254, "ee00", (("0000", ""), ("0300616263", "abc"), ("0001" + "61" * 256, "a" * 256)),
         collation=UTF8),
    Kind("char(128) utf8mb4", 254, "de00", (("0000", ""), ("0002" + "61" * 512, "a" * 512)), collation=UTF8),
    Kind("char(255) utf8mb4", 254, "cefc", (("0000", ""), ("fc03" + "f09f9880" * 255, "😀" * 255)), collation=UTF8),
    Kind("char(2) ucs2", 254, "fe04", (("00", ""), ("0400612603", "a☃")), collation=UCS2),
    Kind("char(2) sjis", 254, "fe04", (("00", ""), ("015c", "\\"), ("02815f", "\\"), ("0293fa", "日")), collation=SJIS),
    Kind("char(2) cp866", 254, "fe02", (("0181", "Б"), ("01fc", "ⁿ"), ("01fd", "²")), collation=CP866),
    Kind("binary(4)", 254, "fe04", (("00", bytes(4)), ("0101", b"\1\0\0\0"), ("0400ff0080", b"\0\xff\0\x80")),
         collation=BINARY),
    Kind("binary(255)", 254, "feff", (("00", bytes(255)), ("02ff01", b"\xff\1" + bytes(253))), collation=BINARY),
    Kind("var_string(10)", 253, "fd0a", (("00", ""), ("03616263", "abc")), collation=UTF8),
    Kind("varchar(255) latin1", 15, "ff00", (("00", ""), ("03616263", "abc"), ("02e980", "é€"),
         ("ff" + "61" * 255, "a" * 255)), collation=LATIN1),
    Kind("varchar(256) latin1", 15, "0001", (("0000", ""), ("0300616263", "abc"), ("0001" + "e9" * 256, "é" * 256)),
         collation=LATIN1),
    Kind("varchar(27) utf8mb4", 15, "6c00", (("0b3138383838383838383838", "18888888888"), ("057a682d636e", "zh-cn")),
         collation=UTF8),
    Kind("varchar(30) utf8mb4", 15, "7800", (("0c79616ee997abe5ba86e5ba86", "yan闫庆庆"),), collation=UTF8),
    Kind("varchar(16383) utf8mb4", 15, "fcff", (("0000", ""), ("0201" + "61" * 258, "a" * 258)), collation=UTF8),
    Kind("varbinary(255)", 15, "ff00", (("00", b""), ("03610000", b"a\0\0")), collation=BINARY),
    Kind("varbinary(300)", 15, "2c01", (("0000", b""), ("0300ff0080", b"\xff\0\x80")), collation=BINARY),
    Kind("tinyblob", 252, "01", (("00", b""), ("0300ff80", b"\0\xff\x80"), ("ff" + "00" * 255, bytes(255))),
         collation=BINARY),
    Kind("blob", 252, "02", (("0000", b""), ("0100ff", b"\xff"), ("0201" + "07" * 258, b"\7" * 258),
         ("0180" + "07" * 32769, b"\7" * 32769)), collation=BINARY),
    Kind("mediumblob", 252, "03", (("000000", b""), ("010000ff", b"\xff"), ("030201" + "07" * 66051, b"\7" * 66051)),
         collation=BINARY),
    Kind("longblob", 252, "04", (("00000000", b""), ("01000000ff", b"\xff"),
         ("03020100" + "07" * 66051, b"\7" * 66051)), collation=BINARY),
    Kind("tinytext latin1", 252, "01", (("00", ""), ("0161", "a"), ("01e9", "é")), collation=LATIN1),
    Kind("text utf8mb4", 252, "02", (("0000", ""), ("0200c3a9", "é"), ("0201" + "61" * 258, "a" * 258)),
         collation=UTF8),
    Kind("mediumtext utf8mb4", 252, "03", (("000000", ""), ("020000c3a9", "é")), collation=UTF8),
    Kind("longtext utf8mb4", 252, "04", (("00000000", ""), ("02000000c3a9", "é")), collation=UTF8),
    Kind("point", 255, "04", (("19000000" + POINT, bytes.fromhex(POINT)),)),
    # -- MySQL's JSON: the length, the type's byte, the value
    Kind("json", 245, "04", (
        ("00000000", "null"),  # an empty document
        ("020000000400", "null"), ("020000000401", "true"), ("020000000402", "false"),
        ("0300000005ffff", "-1"), ("03000000050080", "-32768"), ("0300000006ffff", "65535"),
        ("050000000700000080", "-2147483648"), ("0500000008ffffffff", "4294967295"),
        ("09000000090000000000000080", "-9223372036854775808"), ("090000000affffffffffffffff", "18446744073709551615"),
        ("090000000b000000000000f83f", "1.5"), ("090000000b0000000000000040", "2.0"),
        ("090000000b350f63bab4697b43", "1.2345678901234568e17"), ("090000000b6666666666662ac0", "-13.2"),
        ("090000000bc4a5b52e2aee4543", "1.2345678901234568e16"), ("090000000b03eb2af2548b1143", "1234567890123456.8"),
        ("040000000c026869", '"hi"'), ("040000000c02220a", '"\\"\\n"'),
        ("83000000" "0c8001" + "61" * 128, '"' + "a" * 128 + '"'),  # a length of two bytes
        ("05000000" "0000000400", "{}"), ("05000000" "0200000400", "[]"),
        ("0d000000" "00" "01000c00" "0b000100" "050100" "61", '{"a": 1}'),
        ("17000000" "00" "02001600" "12000100" "13000200" "0c1500" "040100" "61" "6262" "00", '{"a": "", "bb": true}'),
        ("12000000" "02" "03001100" "05feff" "0c0d00" "040000" "03e29883", '[-2, "☃", null]'),
        ("0c000000" "02" "01000b00" "070700" "efffffff", "[-17]"),
        ("18000000" "01" "0100000017000000" "13000000" "0400" "0770ffffff" "61626364", '{"abcd": -144}'),
        ("19000000" "03" "0200000018000000" "08ffffffff" "0c12000000" "05" "68656c6c6f", '[4294967295, "hello"]'),
        ("07000000" "0ff604" "0402" "8c22", "12.34"), ("07000000" "0ff604" "0402" "73dd", "-12.34"),
        ("0b000000" "0f0a08" "0000000000bab219", '"2024-02-29"'),
        ("0b000000" "0f0c08" "40e201b8c8bab219", '"2024-02-29 12:34:56.123456"'),
        ("0b000000" "0f0708" "40e201b8c8bab219", '"2024-02-29 12:34:56.123456"'),
        ("0b000000" "0f0b08" "0700008340060000", '"100:02:03.000007"'),
        ("0b000000" "0f0b08" "702ffc7cefffffff", '"-01:02:03.250000"'),
        ("06000000" "0f1003" "010203", '"base64:type16:AQID"'), ("05000000" "0ffc02" "ff00", '"base64:type252:/wA="'),
    )),
    # -- MariaDB's own types
    Kind("uuid", 254, "fe10", (("10123e4567e89b12d3a456426655440000", "123e4567-e89b-12d3-a456-426655440000"),
         ("00", "00000000-0000-0000-0000-000000000000"), ("0112", "12000000-0000-0000-0000-000000000000")),
         collation=BINARY, native="uuid"),
    Kind("inet6", 254, "fe10", (("1020010db8000000000000000000000001", "2001:db8::1"), ("00", "::"),
         ("1000000000000000000000ffffc0a80001", "::ffff:192.168.0.1"),
         ("10000000000000000000000000c0a80001", "::192.168.0.1"),
         ("1000010000000000020000000300000000", "1::2:0:3:0:0"), ("10ffffffffffffffffffffffffffffffff",
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")), collation=BINARY, native="inet6"),
    Kind("inet4", 254, "fe04", (("04c0a80001", "192.168.0.1"), ("00", "0.0.0.0"), ("010a", "10.0.0.0")),
         collation=BINARY, native="inet4"),
    Kind("varchar(100) compressed", 141, "9101", (("0000", ""), ("040000616263", "abc"),
         ("0e00" "8164" "789c4b4ca43d00007a4725e5", "a" * 100), ("0800" "8964" "4b4ca43d0000", "a" * 100)),
         collation=UTF8),
    Kind("blob compressed", 140, "02", (("0000", b""), ("0400" "00ff0080", b"\xff\0\x80"),
         ("0900" "8a0064" "4b4ca43d0000", b"a" * 100), ("0b00" "8c00000064" "4b4ca43d0000", b"a" * 100)),
         collation=BINARY),
)  # fmt: skip


def decoder(kinds: Sequence[Kind]) -> Decoder:
    """A decoder for a table whose table map has all its optional fields."""
    signs = "".join(str(int(one.unsigned)) for one in kinds if one.code in NUMERIC)
    bits = int(signs.ljust((len(signs) + 7) // 8 * 8, "0") or "0", 2).to_bytes((len(signs) + 7) // 8, "big")
    fields = {
        1: bits,
        3: b"".join(made.length(one.collation) for one in kinds if one.collation and not one.is_labelled),
        4: b"".join(made.named(one.name) for one in kinds),
        5: b"".join(_labels(one) for one in kinds if one.meta.startswith("f8") and one.is_labelled),
        6: b"".join(_labels(one) for one in kinds if one.meta.startswith("f7") and one.is_labelled),
        11: b"".join(made.length(one.collation or 0) for one in kinds if one.is_labelled),
    }
    meta = bytes.fromhex("".join(one.meta for one in kinds))
    body = made.table_map([one.code for one in kinds], meta, fields=fields)
    event = Parser().parse(made.event(19, body))
    assert isinstance(event, Mapped) and not event.table.unread
    described = tuple(SchemaColumn(one.name, one.native, one.native, True) for one in kinds)
    return Decoder(columns_of(event.table, described, CHARSETS))


def _labels(kind: Kind) -> bytes:
    charset = "latin-1" if kind.collation == LATIN1 else "utf-8"
    texts = [label.encode(charset) for label in kind.labels]
    return made.length(len(texts)) + b"".join(made.length(len(text)) + text for text in texts)


@pytest.fixture(params=["the shared function", "the function of its bitmap"])
def often(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether rows are decoded by a function that is generated for their bitmap, which happens from the second row
    on."""
    own = bool(request.param != "the shared function")
    monkeypatch.setattr(rows, "OFTEN", 1 if own else 1 << 30)
    return own


def read(table: Decoder, body: bytes, often: bool) -> list[Any]:
    """The last of two equal rows, from a new decoder."""
    decodes = Decoder(table.columns)
    _, row = decodes.rows(body * 2, 0, len(body) * 2)
    assert bool(decodes._functions) is often
    return list(row)


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_the_bytes_of_a_value_are_read_as_the_value(kind: Kind, often: bool) -> None:
    table = decoder([kind])
    for raw, value in (*kind.vectors, ("", None)):
        (found,) = read(table, (b"\xff" if value is None else b"\xfe") + bytes.fromhex(raw), often)
        assert repr(found) == repr(value)


def test_a_row_of_all_types_is_read_with_its_nulls(often: bool) -> None:
    """The integers are last, so that a column without its bit of signedness moves theirs."""
    kinds = TABLE[::-1]
    table, width = decoder(kinds), len(kinds)
    for number in range(max(len(kind.vectors) for kind in kinds)):
        chosen = [kind.vectors[number % len(kind.vectors)] for kind in kinds]
        # each column is NULL in some rows in which others are not
        nulls = {place for place in range(width) if number and (place * 7 + number) % 5 == 0}
        body = made.bitmap(sum(1 << place for place in nulls), width)
        body += b"".join(bytes.fromhex(raw) for place, (raw, _) in enumerate(chosen) if place not in nulls)
        wanted = [None if place in nulls else value for place, (_, value) in enumerate(chosen)]
        assert list(map(repr, read(table, body, often))) == list(map(repr, wanted))


@pytest.mark.parametrize("kind", [one for one in TABLE if one.code in (18, 246)], ids=lambda kind: kind.name)
def test_an_expression_and_the_function_that_it_replaces_read_the_same(kind: Kind) -> None:
    convert = decoder([kind]).columns[0].form.convert
    assert convert is not None
    assert [convert(bytes.fromhex(raw)) for raw, _ in kind.vectors] == [value for _, value in kind.vectors]


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_a_value_without_its_last_byte_is_damaged(kind: Kind) -> None:
    raw = bytes.fromhex(kind.vectors[-1][0])
    with pytest.raises(Damaged):
        decoder([kind]).rows(b"\xfe" + raw[:-1], 0, len(raw))


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (Kind("enum", 254, "f701", (), collation=UTF8, labels=("a",)), "02"),
        (Kind("set", 254, "f801", (), collation=UTF8, labels=("a", "b")), "04"),
        (Kind("set", 254, "f808", (), collation=UTF8, labels=LABELS[:63]), "0000000000000080"),
    ],
)
def test_a_number_beyond_the_labels_is_damaged(kind: Kind, raw: str) -> None:
    with pytest.raises(Damaged, match="label"):
        decoder([kind]).rows(b"\xfe" + bytes.fromhex(raw), 0, 1 + len(raw) // 2)


@pytest.mark.parametrize(
    ("code", "meta", "ok"),
    [
        (246, "4100", True), (246, "411e", True), (246, "4126", True), (246, "4200", False), (246, "4127", False),
        (246, "0000", False), (246, "0203", False), (16, "0008", True), (16, "0000", False), (16, "0108", False),
        (19, "06", True), (19, "07", False), (18, "06", True), (18, "07", False), (17, "06", True), (17, "07", False),
    ],
)  # fmt: skip
def test_only_a_type_that_a_server_has_is_decoded(code: int, meta: str, ok: bool) -> None:
    """DECIMAL has 65 digits, 38 of them after the point; BIT has 64 bits; a second has 6 digits."""
    if ok:
        assert decoder([Kind("c", code, meta, ())]).names == ("c",)
        return
    with pytest.raises(BinlogError, match="is not a valid server type"):
        decoder([Kind("c", code, meta, ())])


@pytest.mark.parametrize(
    ("raw", "number"), [("fa", 250), ("fc0102", 513), ("fd010203", 197_121), ("fe0102030405060708", 578437695752307201)]
)
def test_a_length_has_as_many_bytes_as_its_first_byte_says(raw: str, number: int) -> None:
    assert length_encoded(bytes.fromhex("00" + raw + "ff"), 1) == (number, 1 + len(raw) // 2)
