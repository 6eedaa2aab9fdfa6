"""Rows: named tuples whose fields are columns.

    class Bid(NamedTuple):
        auction: int
        price: Annotated[decimal.Decimal, digits(12, 2)]
        channel: str | None
"""

from __future__ import annotations

import types as python_types
import typing
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Union

from howdah import contract
from howdah.errors import Error


Code = Literal["i", "q", "f", "d"]


@dataclass(frozen=True)
class ColumnType:
    """The type of a column."""

    name: str
    """What the contract calls it."""
    code: Code | Literal[""] = ""
    """The letter that `struct`, `array` and `memoryview` have for a value of fixed width."""
    width_bytes: int = 0
    precision: int = 0
    scale: int = 0
    key: bool = True
    """Whether rows can be grouped by it."""

    def to_contract(self) -> Any:
        types = contract.types
        if self.name == "decimal128":
            return types.ValueType_Decimal128(types.Decimal(self.precision, self.scale))
        name = "".join(word.capitalize() for word in self.name.split("-"))
        return getattr(types, "ValueType_" + name)()

    def __str__(self) -> str:
        if self.name == "decimal128":
            return f"decimal128({self.precision}, {self.scale})"
        return self.name


BOOLEAN = ColumnType("boolean")
INT32 = ColumnType("int32", "i", 4)
INT64 = ColumnType("int64", "q", 8)
FLOAT32 = ColumnType("float32", "f", 4, key=False)
FLOAT64 = ColumnType("float64", "d", 8, key=False)
DATE = ColumnType("date", "i", 4)
TIMESTAMP = ColumnType("timestamp-millis", "q", 8)
UTF8 = ColumnType("utf8")
BINARY = ColumnType("binary")

Int32 = Annotated[int, INT32]
"""A 32-bit signed integer."""
Int64 = Annotated[int, INT64]
"""A 64-bit signed integer; plain `int` is the same."""
Float32 = Annotated[float, FLOAT32]
"""A 32-bit float."""
Float64 = Annotated[float, FLOAT64]
"""A 64-bit float; plain `float` is the same."""
Date = Annotated[int, DATE]
"""Days since 1970-01-01."""
Timestamp = Annotated[int, TIMESTAMP]
"""Milliseconds since 1970-01-01T00:00 UTC."""



def digits(precision: int, scale: int) -> ColumnType:
    """The type of `decimal.Decimal`s with so many digits, and so many of them after the point:
    `Annotated[decimal.Decimal, digits(12, 2)]`."""
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise TypeError(
            f"a decimal of {precision} digits, {scale} after the point: there are 1 to 38 digits,"
            " and at most so many are after the point"
        )
    return ColumnType("decimal128", "", 16, precision, scale)


if typing.TYPE_CHECKING:
    from decimal import Decimal
else:

    class Decimal:
        """`Decimal[precision, scale]`, short for `Annotated[decimal.Decimal, digits(precision,
        scale)]`, which type checkers know too."""

        def __class_getitem__(cls, wanted: tuple[int, int]) -> Any:
            import decimal

            return Annotated[decimal.Decimal, digits(*wanted)]


_PLAIN = {bool: BOOLEAN, int: INT64, float: FLOAT64, str: UTF8, bytes: BINARY}


class Field(NamedTuple):
    """A column of a row type."""

    name: str
    type: ColumnType
    nullable: bool

    def to_contract(self) -> Any:
        return contract.types.Field(self.name, self.type.to_contract(), self.nullable)


def fields_of(row_type: type, what: str) -> list[Field]:
    """The columns of a row type; `what` says in errors what it is for."""
    if not (isinstance(row_type, type) and issubclass(row_type, tuple)):
        raise Error(f"{what}: {row_type!r} is no row type: derive it from typing.NamedTuple")
    hints = typing.get_type_hints(row_type, include_extras=True)
    names = getattr(row_type, "_fields", ())
    if not names:
        raise Error(f"{what}: {row_type.__name__} has no fields")
    return [_field(row_type, name, hints[name]) for name in names]


def _field(row_type: type, name: str, hint: Any) -> Field:
    nullable = False
    if typing.get_origin(hint) in (Union, python_types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        if len(options) == 1:
            nullable, hint = True, options[0]
    if typing.get_origin(hint) is Annotated:
        for extra in typing.get_args(hint)[1:]:
            if isinstance(extra, ColumnType):
                return Field(name, extra, nullable)
    if hint in _PLAIN:
        return Field(name, _PLAIN[hint], nullable)
    raise Error(
        f"{row_type.__name__}.{name}: {hint!r} is no column type; there are bool, int, float,"
        " str, bytes, and of howdah Int32, Int64, Float32, Float64, Decimal[p, s], Date,"
        " Timestamp, and each of them | None"
    )
