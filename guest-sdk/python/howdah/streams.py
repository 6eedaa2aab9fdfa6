"""What an operator reads and emits."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Callable, Generic, TypeVar

from howdah import contract
from howdah.call import RowKind
from howdah.columns import ColumnView, decode_rows, encode, encode_rows, views
from howdah.errors import Error, InvalidArgument
from howdah.rows import TIMESTAMP, Field, fields_of

Row = TypeVar("Row", bound=tuple[Any, ...])
Handler = TypeVar("Handler", bound=Callable[..., None])
_EVENT_TIME = Field("event time", TIMESTAMP, False)


class Batch:
    """Rows of an input as columns."""

    __slots__ = ("rows", "columns", "raw", "kinds", "timestamps", "row_keys", "key_count")

    def __init__(self, fields: list[Field], given: Any) -> None:
        self.rows: int = given.batch.rows
        self.raw: list[Any] = given.batch.columns
        """One for each field, with `data`, `offsets` and `validity`."""
        self.columns: dict[str, ColumnView] = views(fields, self.rows, self.raw)
        """The same, by name."""
        self.kinds: bytes | None = given.batch.row_kinds
        """One byte a row, as in `RowKind`; None: every row is an insert."""
        self.timestamps: bytes = given.timestamps
        """Packed 64-bit event times."""
        self.row_keys = memoryview(given.row_keys).cast("I")
        """For each row, which of the batch's distinct keys it has."""
        self.key_count: int = given.keys.rows


class Input(Generic[Row]):
    """A stream that the operator reads, declared as an attribute of its class:

        bids = Input(Bid, key=Auction)

        @bids.each
        def on_bid(self, bid: Bid) -> None: ...
    """

    def __init__(
        self,
        row_type: type[Row],
        *,
        key: type,
        key_fields: Sequence[str] | None = None,
        changelog: bool = False,
        name: str | None = None,
    ) -> None:
        """`key` is a row type: rows are grouped by the fields of the input with the names of its
        fields, or with the names in `key_fields`. `changelog` says that the operator
        understands rows that are not inserts."""
        self.row_type = row_type
        self.key_type = key
        self.key_fields = key_fields
        self.changelog = changelog
        self.name = name or ""
        self._handler: Callable[..., None] | None = None
        self._takes_batches = False
        self.fields: list[Field] = []

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def each(self, handler: Handler) -> Handler:
        """Declares the method that takes the next row."""
        self._handler = handler
        self._takes_batches = False
        return handler

    def batch(self, handler: Handler) -> Handler:
        """Declares the method that takes a whole batch as columns."""
        self._handler = handler
        self._takes_batches = True
        return handler

    def _declare(self) -> None:
        if self._handler is None:
            raise Error(
                f"input `{self.name}`: nothing takes its rows: use @{self.name}.each or"
                f" @{self.name}.batch"
            )
        self.fields = fields_of(self.row_type, f"input `{self.name}`")

    def _key_names(self) -> list[str]:
        """The key fields of the input, checked."""
        key = fields_of(self.key_type, f"key of input `{self.name}`")
        names = list(self.key_fields or [field.name for field in key])
        by_name = {field.name: field for field in self.fields}
        if len(names) != len(key):
            raise Error(f"input `{self.name}`: key_fields must name {len(key)} fields")
        for name, field in zip(names, key):
            found = by_name.get(name)
            if found is None:
                raise Error(
                    f"key field `{name}` is no field of input `{self.name}`, which has"
                    f" {', '.join(by_name)}"
                )
            if found.type != field.type or found.nullable or field.nullable:
                raise Error(
                    f"key field `{name}` is {field.type}, but {found.type} in input"
                    f" `{self.name}`, or one of them may be None"
                )
            if not field.type.key:
                raise Error(f"key field `{name}` is {field.type}: floats are no keys")
        return names

    def _spec(self) -> Any:
        fields = [field.to_contract() for field in self.fields]
        return contract.operator.InputSpec(self.name, fields, self._key_names(), self.changelog)

    def _rows(self, batch: Any) -> list[Any]:
        return decode_rows(self.row_type, self.fields, batch.rows, batch.columns)


class Output(Generic[Row]):
    """A stream that the operator emits, declared as an attribute of its class."""

    def __init__(
        self, row_type: type[Row], *, changelog: bool = False, name: str | None = None
    ) -> None:
        self.row_type = row_type
        self.changelog = changelog
        self.name = name or ""
        self.fields: list[Field] = []
        self._port = 0
        self._record: Any = None

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def emit(
        self, row: Row, *, kind: RowKind = RowKind.INSERT, timestamp: int | None = None
    ) -> None:
        """Emits a row. Its event time is that of the record, if no other is given, and the
        watermark where there is no record."""
        if type(row) is not self.row_type:
            raise Error(
                f"output `{self.name}` has rows of {self.row_type.__name__}, got"
                f" {type(row).__name__}"
            )
        if self.changelog:
            self._kinds.append(kind)
        elif kind:
            raise Error(
                f"a row of kind {kind.name} was emitted, but output `{self.name}` is no"
                " changelog: declare it with changelog=True"
            )
        if timestamp is None:
            record = self._record
            times = record._times
            timestamp = record.watermark if times is None else times[record._row]
        self._rows.append(row)
        self._times.append(timestamp)

    def emit_update(self, before: Row, after: Row) -> None:
        """Emits a change: what the row was, and what it is."""
        self.emit(before, kind=RowKind.UPDATE_BEFORE)
        self.emit(after, kind=RowKind.UPDATE_AFTER)

    def emit_delete(self, row: Row) -> None:
        """Emits that a row is gone."""
        self.emit(row, kind=RowKind.DELETE)

    def emit_columns(
        self, rows: int, columns: list[Any], timestamps: bytes, kinds: bytes | None = None
    ) -> None:
        """Emits rows as columns, with packed 64-bit event times."""
        if len(columns) != len(self.fields):
            raise InvalidArgument(
                f"output `{self.name}` has {len(self.fields)} columns, got {len(columns)}"
            )
        self._flush()
        if self.changelog and kinds is None:
            kinds = bytes(rows)
        self._batches.append((rows, columns, kinds, timestamps))

    def _declare(self) -> None:
        self.fields = fields_of(self.row_type, f"output `{self.name}`")

    def _spec(self) -> Any:
        fields = [field.to_contract() for field in self.fields]
        return contract.operator.OutputSpec(self.name, fields, self.changelog)

    def _open(self, record: Any, port: int) -> Output[Row]:
        live = copy.copy(self)
        live._record = record
        live._port = port
        live._end()
        return live

    def _flush(self) -> None:
        if self._rows:
            columns = encode_rows(self.fields, self._rows)
            kinds = bytes(self._kinds) if self.changelog else None
            times = encode(_EVENT_TIME, self._times).data
            self._batches.append((len(self._rows), columns, kinds, times))
            self._clear_rows()

    def _clear_rows(self) -> None:
        self._rows: list[Any] = []
        self._kinds: list[int] = []
        self._times: list[int] = []

    def _finish(self) -> list[Any]:
        self._flush()
        batch = contract.types.Batch
        return [
            contract.operator.Output(self._port, batch(rows, columns, kinds), times)
            for rows, columns, kinds, times in self._batches
        ]

    def _end(self) -> None:
        self._clear_rows()
        self._batches: list[Any] = []
