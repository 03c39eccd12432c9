"""Key columns of a PostgreSQL-compatible table: how each type is ordered, cast and spelled.

Pure: `pg` runs what is decided here. Two systems rarely share a collation, so text keys are ordered by their bytes
(`COLLATE "C"`) on both sides; where a column is ordered by bytes already, the plain column is used, so that its
index serves. Other types order alike everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from slotkeeper.core.drivers.pg import MADE_TEXT

FAMILIES = {
    "int1": "integer",
    "int2": "integer",
    "int4": "integer",
    "int8": "integer",
    "oid": "integer",
    "numeric": "numeric",
    "float4": "float",
    "float8": "float",
    "uuid": "uuid",
    "timestamp": "timestamp",
    "smalldatetime": "timestamp",
    "timestamptz": "timestamptz",
    "date": "date",
    "time": "time",
    "bool": "bool",
    "bytea": "bytea",
}
"""Types with one order everywhere; every other type is ordered by the bytes of its text.

int1 (tinyint) and smalldatetime are a DWS's own; a made target keeps them as int2 and timestamp.
"""

PLAIN_TEXT = frozenset({"text", "varchar"})


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A key column: `type` is castable SQL, `by_bytes` says that the server already orders this column by bytes.

    `typname` is empty where the type is not of pg_catalog, whatever it is called.
    """

    name: str
    typname: str
    type: str
    by_bytes: bool

    @property
    def family(self) -> str:
        """Columns of one family are ordered alike on both sides."""
        return FAMILIES.get(self.typname, "text")

    @property
    def text(self) -> str:
        """A template for its text; of a type that somebody made by no cast, which may run anything as our login."""
        return "({0})::text" if self.typname else MADE_TEXT

    @property
    def ordered(self) -> str:
        """A template for the expression to order by; `{0}` is the column or a value already cast to its type.

        >>> KeyColumn("k", "text", "text", False).ordered, KeyColumn("k", "int8", "bigint", False).ordered
        ('(({0})::text) COLLATE "C"', '{0}')
        """
        if self.family != "text" or (self.by_bytes and self.typname in PLAIN_TEXT):
            return "{0}"
        return f'({self.text}) COLLATE "C"'

    def canonical(self, text: str) -> str:
        """One spelling per equal key: servers differ in trailing zeros and in the digits of a float.

        >>> KeyColumn("k", "numeric", "numeric", False).canonical("1.500")
        '1.5'
        >>> KeyColumn("k", "float8", "double precision", False).canonical("0.10000000000000001")
        '0.1'
        """
        if self.family == "numeric" and text[-1:].isdigit():
            value = Decimal(text)
            return "0" if not value else f"{value:f}".rstrip("0").rstrip(".") if "." in text else text
        if self.family == "float" and text[-1:].isdigit():
            return repr(float(text))
        return text

    def of_copy(self, text: str) -> str:
        """The canonical spelling of a key that COPY wrote, which is not the cast to text for every type.

        >>> KeyColumn("k", "bool", "boolean", False).of_copy("t")
        'true'
        >>> KeyColumn("k", "bpchar", "bpchar", False).of_copy("a ")
        'a'
        """
        if self.typname == "bool":
            return {"t": "true", "f": "false"}.get(text, text)
        if self.typname == "inet" and "/" not in text:
            return text + ("/128" if ":" in text else "/32")
        return text.rstrip(" ") if self.typname == "bpchar" else self.canonical(text)
