"""What is known about the running call of the host."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NoReturn

from howdah.columns import decode_rows
from howdah.errors import Error


class RowKind(IntEnum):
    """What a row of a changelog means. Rows of a stream that is none are inserts."""

    INSERT = 0
    """A new row (+I)."""
    UPDATE_BEFORE = 1
    """What a row was before an update (-U)."""
    UPDATE_AFTER = 2
    """What a row is after an update (+U)."""
    DELETE = 3
    """A row that is gone (-D)."""


_KINDS = tuple(RowKind)


class Record:
    """What is known about the row that is being processed, or the timer that fires, beside its
    fields. Every state of an operator works on the key of its record."""

    __slots__ = (
        "watermark", "_key_type", "_key_fields", "_keys", "_key_rows", "_key_index", "_row",
        "_times", "_kinds",
    )  # fmt: skip
    # States and outputs look at `_key_index`, `_row` and `_times` themselves: a property is a call.
    _keys: Any
    _key_rows: list[Any] | None
    _key_index: Any
    _row: int
    _times: Sequence[int] | None
    _kinds: bytes | None

    def __init__(self, key_type: type, key_fields: list[Any]) -> None:
        self._key_type = key_type
        self._key_fields = key_fields
        self.watermark = -(2**63)
        """No row with an event time at or before it is expected any more."""
        self._end()

    @property
    def key(self) -> Any:
        """The key, of the input's key type."""
        if self._key_rows is None:
            if self._keys is None:
                raise Error("there is a key only while a row or a timer is processed")
            self._key_rows = decode_rows(
                self._key_type, self._key_fields, self._keys.rows, self._keys.columns
            )
        return self._key_rows[self._key_index]

    @property
    def timestamp(self) -> int:
        """The event time of the row, or the time of the timer."""
        return self._times[self._row] if self._times is not None else self.watermark

    @property
    def kind(self) -> RowKind:
        """What the row means if the input is a changelog."""
        return _KINDS[self._kinds[self._row]] if self._kinds is not None else RowKind.INSERT

    @property
    def index(self) -> int:
        """Which of the batch's distinct keys it has."""
        if self._key_index is None:
            self._refuse()
        return self._key_index

    def _refuse(self) -> NoReturn:
        raise Error("a state has a key only while a row or a timer is processed")

    def _begin(self, keys: Any, times: Sequence[int] | None, kinds: bytes | None, watermark: int) -> None:
        self._keys, self._times, self._kinds = keys, times, kinds
        self.watermark = watermark

    def _end(self) -> None:
        self._keys = self._key_rows = self._key_index = None
        self._row = 0
        self._times = self._kinds = None
