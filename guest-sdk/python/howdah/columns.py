"""Columns: the raw buffers of a batch, as views, as lists, and back.

Numbers are read in place (`memoryview.cast`): no Python object is made before a value is
looked at. Text, bytes and decimals are made when `values` is asked for them.
"""

from __future__ import annotations

import decimal
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, repeat
from struct import Struct, error as StructError, pack
from typing import Any, Callable

from howdah import contract
from howdah.errors import Error, InvalidArgument
from howdah.rows import Field

_BITS = [tuple(bool(byte >> bit & 1) for bit in range(8)) for byte in range(256)]
_DECIMAL = Struct("<Qq")
_CONTEXT = decimal.Context(prec=76)
_new = tuple.__new__
_SHOWN_LENGTH = 200


def bits_to_list(bitmap: bytes, rows: int) -> list[bool]:
    """The bits of a bitmap as a list."""
    return list(chain.from_iterable(map(_BITS.__getitem__, bitmap)))[:rows]


def list_to_bits(values: Sequence[Any]) -> bytes:
    """A bitmap of the truth of each value."""
    digits = "".join("1" if value else "0" for value in reversed(values))
    return int(digits or "0", 2).to_bytes((len(values) + 7) // 8, "little")


class ColumnView:
    """A column of a batch or of a state's rows."""

    __slots__ = ("field", "rows", "raw")

    def __init__(self, field: Field, rows: int, raw: Any) -> None:
        self.field = field
        self.rows = rows
        self.raw = raw
        """`data`, `offsets` and `validity`, as they crossed the boundary."""

    def view(self) -> memoryview[int] | memoryview[float]:
        """The values of a column of fixed width, in place; a null has any value."""
        code = self.field.type.code
        if not code:
            raise Error(f"column `{self.field.name}` is {self.field.type}: it has no view")
        return memoryview(self.raw.data).cast(code)

    def offsets(self) -> memoryview[int]:
        """Where each text or bytes value begins in `raw.data`; the last is its end."""
        if self.raw.offsets is None:
            raise InvalidArgument(f"column `{self.field.name}` has no offsets")
        return memoryview(self.raw.offsets).cast("I")

    def values(self) -> list[Any]:
        """The values as Python objects; a null is None."""
        return decode(self.field, self.rows, self.raw)


def decode(field: Field, rows: int, column: Any) -> list[Any]:
    """The values of a column as Python objects; a null is None."""
    values = _DECODE.get(field.type.name, _decode_fixed)(field, rows, column)
    if len(values) != rows:
        raise InvalidArgument(f"column `{field.name}` has {len(values)} values, not {rows}")
    if column.validity is not None:
        valid = bits_to_list(column.validity, rows)
        return [value if there else None for value, there in zip(values, valid)]
    return values


def _decode_fixed(field: Field, rows: int, column: Any) -> list[Any]:
    if len(column.data) != rows * field.type.width_bytes:
        raise InvalidArgument(
            f"column `{field.name}` has {len(column.data)} bytes for {rows} rows of {field.type}"
        )
    code = field.type.code
    assert code
    return memoryview(column.data).cast(code).tolist()


def _decode_boolean(field: Field, rows: int, column: Any) -> list[bool]:
    return bits_to_list(column.data, rows)


def _decode_decimal(field: Field, rows: int, column: Any) -> list[decimal.Decimal]:
    scale = -field.type.scale
    return [
        decimal.Decimal((high << 64) | low).scaleb(scale, _CONTEXT)
        for low, high in _DECIMAL.iter_unpack(column.data)
    ]


def _ranges(column: Any) -> Iterable[tuple[int, int]]:
    ends = memoryview(column.offsets).cast("I").tolist()
    return zip(ends, ends[1:])


def _decode_utf8(field: Field, rows: int, column: Any) -> list[str]:
    data = column.data
    text = data.decode()
    if len(text) == len(data):
        return [text[begin:end] for begin, end in _ranges(column)]
    return [data[begin:end].decode() for begin, end in _ranges(column)]


def _decode_binary(field: Field, rows: int, column: Any) -> list[bytes]:
    data = column.data
    return [data[begin:end] for begin, end in _ranges(column)]


_DECODE: dict[str, Callable[[Field, int, Any], list[Any]]] = {
    "boolean": _decode_boolean,
    "decimal128": _decode_decimal,
    "utf8": _decode_utf8,
    "binary": _decode_binary,
}


def encode(field: Field, values: Sequence[Any]) -> Any:
    """A column of these values."""
    validity = None
    if field.nullable and None in values:
        validity = list_to_bits([value is not None for value in values])
        filler = _FILLER.get(field.type.name, 0)
        values = [filler if value is None else value for value in values]
    try:
        data, offsets = _ENCODE.get(field.type.name, _encode_fixed)(field, values)
    except (TypeError, ValueError, OverflowError, AttributeError, StructError) as error:
        # Every encoder fails at None: looking for it before would cost as much as encoding.
        if not field.nullable and None in values:
            raise InvalidArgument(
                f"column `{field.name}`: None, but its type does not say `| None`"
            ) from None
        raise InvalidArgument(f"column `{field.name}` is {field.type}: {error}") from error
    return contract.types.Column(data, offsets, validity)


def _encode_fixed(field: Field, values: Sequence[Any]) -> tuple[bytes, None]:
    return pack(f"<{len(values)}{field.type.code}", *values), None


def _encode_boolean(field: Field, values: Sequence[Any]) -> tuple[bytes, None]:
    # Anything is true or false to Python, the text "false" is true.
    if not set(map(type, values)) <= {bool}:
        wrong = next(value for value in values if type(value) is not bool)
        raise TypeError(f"{wrong!r} is no bool")
    return list_to_bits(values), None


def _encode_decimal(field: Field, values: Sequence[Any]) -> tuple[bytes, None]:
    scale, limit = field.type.scale, 10**field.type.precision
    packed = bytearray()
    for value in values:
        if not isinstance(value, decimal.Decimal):
            raise TypeError(f"{value!r} is no decimal.Decimal")
        scaled = value.scaleb(scale, _CONTEXT)
        unscaled = int(scaled)
        if unscaled != scaled or not -limit < unscaled < limit:
            raise ValueError(f"{value} does not fit")
        packed += unscaled.to_bytes(16, "little", signed=True)
    return bytes(packed), None


def _offsets(lengths: Iterable[int]) -> bytes:
    return array("I", accumulate(lengths, initial=0)).tobytes()


def _encode_utf8(field: Field, values: Sequence[Any]) -> tuple[bytes, bytes]:
    text = "".join(values)
    if text.isascii():
        return text.encode(), _offsets(map(len, values))
    return _encode_binary(field, [value.encode() for value in values])


def _encode_binary(field: Field, values: Sequence[Any]) -> tuple[bytes, bytes]:
    data, offsets = b"".join(values), _offsets(map(len, values))
    if memoryview(offsets).cast("I")[-1] != len(data):
        # Some are views of wider items, and have more bytes than items.
        offsets = _offsets(memoryview(value).nbytes for value in values)
    return data, offsets


_ENCODE: dict[str, Callable[[Field, Sequence[Any]], tuple[bytes, Any]]] = {
    "boolean": _encode_boolean,
    "decimal128": _encode_decimal,
    "utf8": _encode_utf8,
    "binary": _encode_binary,
}
_FILLER: dict[str, Any] = {
    "boolean": False, "utf8": "", "binary": b"", "decimal128": decimal.Decimal(0),
}  # fmt: skip


def decode_rows(row_type: type, fields: list[Field], rows: int, columns: list[Any]) -> list[Any]:
    """The rows of columns, as named tuples."""
    if len(columns) != len(fields):
        raise InvalidArgument(
            f"{row_type.__name__}: got {len(columns)} columns, not {len(fields)}"
        )
    decoded = [decode(field, rows, column) for field, column in zip(fields, columns)]
    return list(map(_new, repeat(row_type), zip(*decoded)))


def encode_rows(fields: list[Field], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The columns of rows."""
    if not rows:
        return [encode(field, ()) for field in fields]
    try:
        return [encode(field, values) for field, values in zip(fields, zip(*rows))]
    except InvalidArgument as error:
        raise InvalidArgument(f"{error}, in {_wrong_row(fields, rows)}") from error.__cause__


def _wrong_row(fields: list[Field], rows: Sequence[tuple[Any, ...]]) -> str:
    """The first row that cannot be encoded, for messages."""
    for row in rows:
        try:
            for field, value in zip(fields, row):
                encode(field, (value,))
        except InvalidArgument:
            text = repr(row)
            return text if len(text) <= _SHOWN_LENGTH else text[:_SHOWN_LENGTH] + "..."
    return "all rows together"


def views(fields: list[Field], rows: int, columns: list[Any]) -> dict[str, ColumnView]:
    """Columns by name."""
    return {
        field.name: ColumnView(field, rows, column) for field, column in zip(fields, columns)
    }


def indices(values: Iterable[int]) -> bytes:
    """Packed 32-bit indices."""
    return array("I", values).tobytes()
