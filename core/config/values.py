"""Readers for single values of a configuration: return the value or raise `BadValue` with the rule that it violates.

Readers never include the value in their messages, because only the caller knows the key and whether the value is
private.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection
from datetime import datetime
from decimal import Decimal

from slotkeeper.core.domain.access import Right
from slotkeeper.core.domain.cluster import Master
from slotkeeper.core.domain.copy_limit import size_of, size_text
from slotkeeper.core.domain.endpoint import place_of
from slotkeeper.core.domain.spec import (
    CONSTANT_MAX,
    EVERY_DN,
    Computed,
    Constant,
    SoftDelete,
    StartKind,
    slot_name,
    start_at,
)

Reader = Callable[[object], object]

DAY = 86_400_000
WEEK = 7 * DAY
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": DAY}
_DURATION = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([a-z]*)")
_A_DURATION = 'must be a duration such as "500ms", "5s" or "10m", or a number of milliseconds'
_SIZE = re.compile(r"([0-9]{1,12})\s*(m|g|MiB|GiB|)")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNSPEAKABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
NAME_MAX = 40
IDENTIFIER_MAX = 63


class BadValue(ValueError):
    """The rule that a value violates, as "must be ...", without the value."""


def boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise BadValue("must be true or false")


def whole(low: int, high: int) -> Reader:
    """Return a reader of whole numbers in [low, high]."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadValue(f"must be a whole number from {low} to {high}")
        if not low <= value <= high:
            raise BadValue(f"must be from {low} to {high}")
        return value

    return read


def only(allowed: int, because: str) -> Reader:
    """Return a reader that accepts only one whole number; its error gives the reason."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value != allowed:
            raise BadValue(f"must be {allowed}: {because}")
        return value

    return read


def duration(low: int, high: int) -> Reader:
    """Return a reader of durations in milliseconds: "500ms", "5s", "10m", "1h", "1d", or a bare number."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise BadValue(_A_DURATION)
        amount = _milliseconds(str(value))
        if not low <= amount <= high:
            raise BadValue(f"must be from {show_duration(low)} to {show_duration(high)}")
        return amount

    return read


def _milliseconds(text: str) -> int:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise BadValue(_A_DURATION)
    number, unit = match[1], match[2] or "ms"
    if unit not in _UNITS:
        raise BadValue(f"has an unknown unit: use one of {', '.join(_UNITS)}")
    amount = Decimal(number) * _UNITS[unit]
    if amount != int(amount):
        raise BadValue("must be a whole number of milliseconds")
    return int(amount)


def show_duration(milliseconds: int) -> str:
    """Return the shortest text that `duration` converts to this number of milliseconds.

    >>> [show_duration(n) for n in (0, 500, 5000, 600_000, 86_400_000)]
    ['0ms', '500ms', '5s', '10m', '1d']
    """
    for unit in ("d", "h", "m", "s"):
        if milliseconds and milliseconds % _UNITS[unit] == 0:
            return f"{milliseconds // _UNITS[unit]}{unit}"
    return f"{milliseconds}ms"


def memory(low: int, high: int) -> Reader:
    """Return a reader of sizes ("512m", "1g", "512MiB", or a bare number of MiB); it returns Spark's format."""

    def read(value: object) -> str:
        match = _SIZE.fullmatch(str(value).strip())
        if match is None:
            raise BadValue('must be a size such as "512MiB" or "1g", or a number of MiB')
        amount = int(match[1]) * (1024 if match[2] in ("g", "GiB") else 1)
        if not low <= amount <= high:
            raise BadValue(f'must be from "{low}m" to "{high}m"')
        return f"{amount}m"

    return read


def size(low: int, high: int) -> Reader:
    """Return a reader of sizes in bytes: "512KiB", "10MiB", or a bare number of bytes."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise BadValue('must be a size such as "512KiB" or "10MiB", or a number of bytes')
        try:
            amount = size_of(str(value))
        except ValueError as error:
            raise BadValue(str(error)) from None
        if not low <= amount <= high:
            raise BadValue(f"must be from {size_text(low)} to {size_text(high)}")
        return amount

    return read


def text(limit: int = 255) -> Reader:
    """Return a reader of a non-empty single-line string of at most `limit` characters without control characters."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise BadValue("must be text in quotes")
        if not value.strip():
            raise BadValue("must not be empty")
        if _UNSPEAKABLE.search(value):
            raise BadValue("must be one line without control characters")
        if len(value) > limit:
            raise BadValue(f"must have at most {limit} characters")
        return value

    return read


def choice(*allowed: str) -> Reader:
    """Return a reader of one of `allowed`."""
    return one_of(allowed)


def one_of(allowed: Collection[str]) -> Reader:
    """Return a reader of one of `allowed`, a collection that can change until a value is read."""

    def read(value: object) -> str:
        spelled = " or ".join(f'"{word}"' for word in allowed)
        if not isinstance(value, str) or value not in allowed:
            raise BadValue(f"must be {spelled}")
        return value

    return read


def start(value: object) -> str:
    """Read a job's start, according to the rule in `slotkeeper.core.domain.spec`."""
    written = str(text()(value)).strip()
    try:
        start_at(written)
    except ValueError as error:
        raise BadValue(str(error)) from None
    return written


def start_time(value: object) -> str:
    """Read a time in the vendor's format `yyyy-MM-dd hh:mm:ss`; it is in UTC unless an offset is added."""
    written = str(text()(value)).strip()
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        raise BadValue('must be a time such as "2024-11-14 15:48:40" (UTC) or "2024-11-14 15:48:40+08:00"') from None
    return at.isoformat(" ") if at.tzinfo else f"{at.isoformat(' ')}+00:00"


def start_lsn(value: object) -> str:
    """Read LSNs formatted as in the job's `start`, one for all shards or one per shard; reading starts after them."""
    written = str(value) if isinstance(value, int) and not isinstance(value, bool) else str(text()(value)).strip()
    if re.fullmatch(r"\d{1,19}", written):
        return f"{EVERY_DN}={written}"
    try:
        if start_at(written).kind is StartKind.POINTS:
            return written
    except ValueError:
        pass
    raise BadValue('must be an LSN, or LSNs by shard such as "shard_0=10516, shard_1=99"')


def only_true(value: object) -> bool:
    """Read a boolean that must be true."""
    if boolean(value):
        return True
    raise BadValue("must be true: records are applied according to their types, never appended as images")


def host(value: object) -> str:
    """Read a host name or address, or the directory of a Unix socket; reject URLs, which could contain a password."""
    name = str(text()(value))
    if name.startswith("/"):
        return name
    if re.search(r"[\s@/?#,='\"\\]", name):
        raise BadValue("must be a plain host name or address, not a URL or a list")
    return name


def authority(value: object) -> str:
    """Read the path of a file with the authority's certificate.

    libpq's value `system` is rejected: it selects the certificate store that was set when OpenSSL was built, and the
    OpenSSL in psycopg2-binary was built with a folder that exists on no host.
    """
    written = str(text(4096)(value))
    if written == "system":
        raise BadValue("must be a file, such as /etc/ssl/certs/ca-certificates.crt for the system's authorities")
    return written


def slot(value: object) -> str:
    """Read a slot name, according to the rule in `slotkeeper.core.domain.slot`."""
    try:
        return slot_name(str(text()(value)))
    except BadValue:
        raise
    except ValueError:
        raise BadValue("must contain only letters, digits, _ and $, at most 63, and not start with a digit") from None


def section_name(value: str) -> str:
    """Check the name of a source, sink or job, which is used in session names, file names and environment variables."""
    if not _NAME.fullmatch(value) or len(value) > NAME_MAX:
        raise BadValue(f"must consist of letters and digits, parts joined by one _ or -, at most {NAME_MAX} characters")
    return value


def identifier(value: object) -> str:
    """Read the name of a table or schema, without quotes or dots."""
    name = str(text()(value))
    if "." in name or any(quote in name for quote in "\"'`\\"):
        raise BadValue("must be a plain name without dots or quotes")
    if len(name.encode()) > IDENTIFIER_MAX:
        raise BadValue(f"must have at most {IDENTIFIER_MAX} bytes")
    return name


def _refuse_long(*names: str) -> None:
    if any(len(name.encode()) > IDENTIFIER_MAX for name in names):
        raise BadValue(f"must have names of at most {IDENTIFIER_MAX} bytes")


def table(value: object) -> str:
    """Read a `schema.table` of the source, exactly as written.

    DWS, "Subscribing to Hybrid Data Warehouse Binlog": the name of such a table contains no special characters "such as
    periods and double quotation marks". Names are sent in quotes, so all other characters are allowed.
    """
    name = str(text()(value))
    if '"' in name:
        raise BadValue("must be schema.table without double quotes: names are used exactly as written")
    parts = name.split(".")
    if len(parts) != 2:
        raise BadValue("must be schema.table, with exactly one dot: a table name cannot contain one")
    if not all(part.strip() for part in parts):
        raise BadValue("must be schema.table")
    _refuse_long(*parts)
    return name


def table_patterns(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise BadValue('must be a list such as ["shop.tmp_*"]')
    return tuple(table(one) for one in value)


def target(value: object) -> str:
    """Read a `schema.table` of the sink, exactly as written: the first dot separates two names of valid length."""
    name = str(text()(value))
    schema, _, own = name.partition(".")
    if not schema.strip() or not own.strip():
        raise BadValue("must be schema.table")
    for part in (schema, own):
        if part.startswith('"') and part.endswith('"'):
            raise BadValue("must be schema.table without quotes: each name is used exactly as written")
        _refuse_long(part)
    if own.startswith("slotkeeper_") or own.endswith("__slotkeeper_copy"):
        raise BadValue("must not have a name reserved for Slotkeeper: slotkeeper_..., or ...__slotkeeper_copy")
    return name


def mapping(value: object) -> tuple[tuple[str, str], ...]:
    """Read pairs of source column and target column, in the order written; names are used exactly as written."""
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
        raise BadValue('must be a table such as { id = "order_id", state = "state" }')
    if not value:
        raise BadValue("must name at least one column and include the key columns")
    pairs = tuple((str(text()(source)), str(text()(into))) for source, into in value.items())
    _refuse_long(*(name for pair in pairs for name in pair))
    if len({into for _, into in pairs}) < len(pairs):
        raise BadValue("must not map two columns to one")
    return pairs


_CONSTANT = re.compile(rf"[A-Za-z0-9_.:-]{{1,{CONSTANT_MAX}}}")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def constant(value: object) -> Constant:
    """Read a column and its constant value: a whole number, or text that needs no escapes anywhere."""
    given = dict(value) if isinstance(value, dict) else {}
    column, it = given.pop("column", None), given.pop("value", None)
    if given or column is None or it is None:
        raise BadValue('must be a table such as { column = "shop_id", value = "eu_1" }')
    if not isinstance(column, str) or not _COLUMN.fullmatch(column):
        raise BadValue("column: must have only letters, digits and _, at most 63, and not start with a digit")
    if isinstance(it, int) and not isinstance(it, bool) and -(2**63) <= it < 2**63:
        return Constant(column, it)
    if not isinstance(it, str) or not _CONSTANT.fullmatch(it):
        raise BadValue(f"value: must be a whole number, or text of letters, digits, _ . : -, at most {CONSTANT_MAX}")
    return Constant(column, it)


def soft_delete(value: object) -> SoftDelete:
    """Read the names of the columns of a soft delete; an omitted name has its default."""
    given = dict(value) if isinstance(value, dict) else {"": value}
    names = {one: str(column(given.pop(one))) for one in ("deleted_at", "op") if one in given}
    if given:
        raise BadValue('must be a table such as { deleted_at = "deleted_at", op = "op" }')
    made = SoftDelete(**names)
    if made.deleted_at == made.op:
        raise BadValue("must name two columns")
    return made


def compute(value: object) -> tuple[Computed, ...]:
    """Read computed columns: their names, each with an expression of the supported subset."""
    from slotkeeper.core.domain import expressions  # the parser's import takes half a second

    if not isinstance(value, dict) or not value or not all(isinstance(one, str) for one in value.values()):
        raise BadValue('must be a table such as { email = "md5(salt() || email)" }')
    found = []
    for name, sql in value.items():
        try:
            found.append(expressions.read(str(column(name)), str(sql)))
        except ValueError as error:
            raise BadValue(f"{name}: {error}") from None
    return tuple(found)


def column(value: object) -> str:
    """Read the name of a column that Slotkeeper writes."""
    if not isinstance(value, str) or not _COLUMN.fullmatch(value):
        raise BadValue("must be a column: letters, digits and _, at most 63, not starting with a digit")
    return value


def hosts(value: object) -> tuple[str, ...]:
    """Read a list of host names or addresses, each with or without a port."""
    if not isinstance(value, list) or not value:
        raise BadValue('must be a list such as ["be1.example.org", "be2.example.org:18040"]')
    written = tuple(str(host(one)) for one in value)
    for one in written:
        try:
            _, port = place_of(one)
        except ValueError:
            port = -1
        if not 0 <= port <= 65_535:
            raise BadValue(f"{one}: the port must be a number from 1 to 65535")
    return written


def statement(value: object) -> str:
    """Read a SELECT, on any number of lines."""
    if not isinstance(value, str) or not value.strip() or len(value) > 65_536 or "\0" in value:
        raise BadValue("must be a SELECT of at most 65,536 characters")
    return value


def names(value: object) -> tuple[str, ...]:
    """Read a list of column names, used exactly as written."""
    if not isinstance(value, list) or not value or len(set(map(str, value))) < len(value):
        raise BadValue('must be a list of different column names, such as ["id", "line"]')
    found = tuple(str(text()(one)) for one in value)
    _refuse_long(*found)
    return found


def words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise BadValue('must be a list of names, such as ["ann"]')
    return tuple(str(text()(one)) for one in value)


def rights(value: object) -> tuple[str, ...]:
    return tuple(str(one_of([right.value for right in Right])(one)) for one in words(value))


def tables(value: object) -> tuple[str, ...]:
    """Read a list of tables of the sink, each as schema.table."""
    if not isinstance(value, list):
        raise BadValue('must be a list of tables, such as ["dim.products"]')
    return tuple(target(one) for one in value)


def row_filter(value: object) -> str:
    """Read an SQL condition on the row's own columns only; other conditions could change their result for a row."""
    from slotkeeper.core import row_filter as filters  # the parser's import takes half a second

    condition = str(text(4096)(value))
    try:
        return filters.read(condition).text
    except filters.WrongFilter as error:
        raise BadValue(str(error)) from None


def env_name(value: object) -> str:
    if not isinstance(value, str) or not _ENV_NAME.fullmatch(value):
        raise BadValue("must be the name of an environment variable (letters, digits and _)")
    return value


def master(value: object) -> str:
    """Read a Spark master of a supported kind."""
    try:
        return Master.parse(str(text()(value))).text
    except ValueError as error:
        raise BadValue(str(error)) from None


def spark_setting(value: object) -> str:
    """Read the value of a Spark setting as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return str(text()(value))


def command(value: object) -> str:
    """Read a command whose arguments are quoted as in a shell; it is run without a shell."""
    line = str(text(4096)(value))
    try:
        words = shlex.split(line)
    except ValueError:
        raise BadValue("is not a command: a quote is not closed") from None
    if not words:
        raise BadValue("must not be empty")
    return line
