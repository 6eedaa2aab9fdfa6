"""Keyed state.

A state is declared as an attribute of the operator's class, and used through `self`. Inside a
handler of rows or timers it works on the key of the record: the first read of a batch loads the
rows of *all* keys of the batch in one call to the host, the others read from that, and what
really changed is written in one call when the batch ends.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Callable, ClassVar, Generic, NamedTuple, TypeVar

from howdah import contract
from howdah.call import Record
from howdah.columns import (
    ColumnView, bits_to_list, decode_rows, encode_rows, indices, views,
)  # fmt: skip
from howdah.errors import Error, from_host
from howdah.rows import FLOAT32, Field, fields_of

Row = TypeVar("Row", bound=tuple[Any, ...])
MapKey = TypeVar("MapKey", bound=tuple[Any, ...])

ALL_ROWS = 2**32 - 1


class Ttl(NamedTuple):
    """How long a row lives."""

    millis: int
    on_read: bool = False
    """Whether a read starts the time anew, as a write does."""


class State(Generic[Row]):
    """What all kinds of state have in common."""

    _resource: ClassVar[str]

    def __init__(
        self,
        row_type: type[Row],
        *,
        name: str | None = None,
        schema_version: int = 1,
        ttl: Ttl | None = None,
    ) -> None:
        self.row_type = row_type
        self.name = name or ""
        self.schema_version = schema_version
        if ttl is not None and not isinstance(ttl, Ttl):
            raise Error(f"a state's ttl is a Ttl, not {ttl!r}: ttl=Ttl(60_000) is a minute")
        self.ttl = ttl
        self.fields: list[Field] = []
        self._handle: Any = None
        self._record: Any = None
        self._key_count: int | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def _declare(self) -> None:
        self.fields = fields_of(self.row_type, f"state `{self.name}`")

    def _check_columns(self, key: list[str], map_key: Sequence[Field] = ()) -> None:
        """Key and fields are columns of one table: no two may have a name, upper and lower case
        alike. `key` has the names of the first input, which are those of the table."""
        columns = [("key field", name) for name in key]
        columns += [("map key field", field.name) for field in map_key]
        columns += [("field", field.name) for field in self.fields]
        seen: dict[str, str] = {}
        for what, name in columns:
            before = seen.setdefault(name.lower(), what)
            if before != what:
                raise Error(
                    f"state `{self.name}`: its {what} `{name}` is called like a {before}: rename it"
                )

    def _spec(self) -> Any:
        kinds = contract.operator
        ttl = None
        if self.ttl is not None:
            update = kinds.TtlUpdate
            ttl = kinds.Ttl(
                self.ttl.millis, update.ON_READ_AND_WRITE if self.ttl.on_read else update.ON_WRITE
            )
        fields = [field.to_contract() for field in self.fields]
        return kinds.StateSpec(self.name, self._kind(), fields, self.schema_version, ttl)

    def _kind(self) -> Any:
        raise NotImplementedError

    def _open(self, record: Record) -> Any:
        """The live state of an operator that is being opened."""
        live = copy.copy(self)
        live._record = record
        try:
            live._handle = getattr(contract.state, self._resource).open(self.name)
        except contract.Err as error:
            raise from_host(error) from None
        live._end()
        return live

    def _begin(self, key_count: int) -> None:
        self._key_count = key_count

    def _commit(self) -> None:
        """Writes what the batch changed."""

    def _end(self) -> None:
        self._key_count = None

    def _call(self, function: str, *arguments: Any) -> Any:
        if self._handle is None:
            raise Error(f"state `{self.name}`: not available before the operator is open")
        try:
            return getattr(self._handle, function)(*arguments)
        except contract.Err as error:
            raise from_host(error) from None

    def _selected(self, keys: Sequence[int]) -> Any:
        """The batch's keys with these ascending indices; all of them need no list."""
        if len(keys) == self._key_count:
            return contract.state.Keys_Current()
        return contract.state.Keys_Selected(indices(keys))

    def _explicit(self, keys: Sequence[Any]) -> Any:
        if self._key_count is not None:
            raise Error(
                f"state `{self.name}`: while rows are processed, a state works on the key of the"
                " record; other keys are for `on_barrier`, `on_watermark` and `close`"
            )
        columns = encode_rows(self._record._key_fields, keys)
        return contract.state.Keys_Explicit(contract.types.KeyColumns(len(keys), columns))

    def _check(self, row: Any) -> None:
        if type(row) is not self.row_type:
            raise Error(
                f"state `{self.name}` has rows of {self.row_type.__name__}, got"
                f" {type(row).__name__}"
            )

    def _rows(self, answer: Any, count: int) -> list[Any]:
        if answer.present is not None and not any(answer.present):
            return [None] * count
        rows = decode_rows(self.row_type, self.fields, count, answer.columns)
        if answer.present is None:
            return rows
        present = bits_to_list(answer.present, count)
        return [row if there else None for row, there in zip(rows, present)]


class LoadedColumns(NamedTuple):
    """Rows of a state as columns: row `i` belongs to key `i` of the batch."""

    rows: int
    present: bytes | None
    """A 1 bit: the key has a row. None: every key has one."""
    raw: list[Any]
    """One for each field, with `data`, `offsets` and `validity`."""
    columns: dict[str, ColumnView]
    """The same, by name."""

    def is_present(self) -> list[bool]:
        """Whether each key has a row."""
        return [True] * self.rows if self.present is None else bits_to_list(self.present, self.rows)


class ValueState(State[Row]):
    """At most one row for each key."""

    _resource = "ValueState"
    _loaded: list[Row | None] | None
    _writes: dict[int, Row | None]

    def _kind(self) -> Any:
        return contract.operator.StateKind_Value()

    def get(self) -> Row | None:
        """The row of the record's key."""
        key = self._record._key_index
        if key in self._writes:
            return self._writes[key]
        if self._loaded is None:
            if key is None:
                self._record._refuse()
            answer = self._call("get", contract.state.Keys_Current())
            self._loaded = self._rows(answer, self._key_count or 0)
        return self._loaded[key]

    def put(self, row: Row) -> None:
        """Writes the row of the record's key."""
        if type(row) is not self.row_type:
            self._check(row)
        key = self._record._key_index
        if key is None:
            self._record._refuse()
        self._writes[key] = row

    def delete(self) -> None:
        """Removes the row of the record's key; a key without one is fine."""
        self._writes[self._record.index] = None

    def get_many(self, keys: Sequence[Any]) -> list[Row | None]:
        """The rows of these keys, in one call. Only outside of rows and timers, and only keys
        of this subtask."""
        return self._rows(self._call("get", self._explicit(keys)), len(keys))

    def put_many(self, rows: Mapping[Any, Row]) -> None:
        """Writes a row for each key, in one call. Conditions as for `get_many`."""
        for row in rows.values():
            self._check(row)
        keys = self._explicit(list(rows))
        self._call("put", keys, encode_rows(self.fields, list(rows.values())))

    def delete_many(self, keys: Sequence[Any]) -> None:
        """Removes the rows of these keys, in one call. Conditions as for `get_many`."""
        self._call("delete", self._explicit(keys))

    def load_columns(self) -> LoadedColumns:
        """The rows of all keys of the batch, as columns. For handlers of whole batches."""
        answer = self._call("get", contract.state.Keys_Current())
        count = self._key_count or 0
        by_name = views(self.fields, count, answer.columns)
        return LoadedColumns(count, answer.present, answer.columns, by_name)

    def store_columns(self, columns: list[Any], keys: bytes | None = None) -> None:
        """Writes a row for each key of the batch, or for those with these packed indices."""
        state = contract.state
        self._call("put", state.Keys_Current() if keys is None else state.Keys_Selected(keys), columns)

    def _commit(self) -> None:
        loaded, writes = self._loaded, self._writes
        put: list[int] = []
        deleted: list[int] = []
        for key in sorted(writes):
            row = writes[key]
            if row is None:
                if loaded is None or loaded[key] is not None:
                    deleted.append(key)
            elif loaded is None or loaded[key] is None or not _same(loaded[key], row):
                put.append(key)
        if put:
            rows = [row for key in put if (row := writes[key]) is not None]
            self._call("put", self._selected(put), encode_rows(self.fields, rows))
        if deleted:
            self._call("delete", self._selected(deleted))

    def _end(self) -> None:
        super()._end()
        self._loaded = None
        self._writes = {}


def _same(old: Any, new: Any) -> bool:
    """Whether a row need not be written. 0.0 and -0.0 are equal, but not the same."""
    return bool(old == new) and not any(
        value == 0 and type(value) is float and repr(value) != repr(before)
        for before, value in zip(old, new)
    )


class ListState(State[Row]):
    """Any number of rows for each key, in the order in which they were added."""

    _resource = "ListState"
    _loaded: list[list[Row]] | None
    _added: dict[int, list[Row]]
    _cleared: set[int]

    def __init__(self, row_type: type[Row], *, limit_rows: int = ALL_ROWS, **options: Any) -> None:
        """`get` gives at most `limit_rows` of a key, oldest first."""
        super().__init__(row_type, **options)
        self.limit_rows = limit_rows

    def _kind(self) -> Any:
        return contract.operator.StateKind_List()

    def append(self, row: Row) -> None:
        """Adds a row to the end of the list of the record's key. Reads nothing."""
        self._check(row)
        self._added.setdefault(self._record.index, []).append(row)

    def get(self) -> list[Row]:
        """The rows of the record's key, oldest first."""
        key = self._record.index
        before: list[Row] = []
        if key not in self._cleared:
            if self._loaded is None:
                self._loaded = self._load(contract.state.Keys_Current(), self._key_count or 0)
            before = self._loaded[key]
        return (before + self._added.get(key, []))[: self.limit_rows]

    def clear(self) -> None:
        """Removes all rows of the record's key."""
        key = self._record.index
        self._cleared.add(key)
        self._added.pop(key, None)

    def get_many(self, keys: Sequence[Any]) -> list[list[Row]]:
        """The lists of these keys, in one call. Only outside of rows and timers, and only keys
        of this subtask."""
        return self._load(self._explicit(keys), len(keys))

    def append_many(self, rows: Sequence[tuple[Any, Row]]) -> None:
        """Adds each row to the list of its key, in one call. Conditions as for `get_many`."""
        keys = self._explicit([key for key, _ in rows])
        columns = encode_rows(self.fields, [row for _, row in rows])
        self._call("append", keys, indices(range(len(rows))), columns)

    def clear_many(self, keys: Sequence[Any]) -> None:
        """Removes all rows of these keys, in one call. Conditions as for `get_many`."""
        self._call("clear", self._explicit(keys))

    def _load(self, keys: Any, count: int) -> list[list[Row]]:
        answer = self._call("get", keys, self.limit_rows)
        lists: list[list[Row]] = [[] for _ in range(count)]
        rows = decode_rows(self.row_type, self.fields, answer.rows, answer.columns)
        for key, row in zip(memoryview(answer.key_of).cast("I"), rows):
            lists[key].append(row)
        return lists

    def _commit(self) -> None:
        if self._cleared:
            self._call("clear", self._selected(sorted(self._cleared)))
        if self._added:
            # In the order of the keys, as all SDKs do: then the same calls give the same table.
            added = sorted(self._added.items())
            keys = [key for key, rows in added for _ in rows]
            rows = [row for _, rows in added for row in rows]
            columns = encode_rows(self.fields, rows)
            self._call("append", contract.state.Keys_Current(), indices(keys), columns)

    def _end(self) -> None:
        super()._end()
        self._loaded = None
        self._added = {}
        self._cleared = set()


class MapState(State[Row], Generic[MapKey, Row]):
    """Rows for each key under map keys.

    `get` asks the host for one entry, unless it is known already: by an earlier `get` or
    `items()` of the batch, or because the state says with `prefetch` which map key a row of an
    input will ask for. Then the entries of the whole batch come in one call.
    """

    _resource = "MapState"
    _batch: tuple[Iterable[Any], Iterable[int]] | None
    _known: dict[int, dict[MapKey, Row | None]]
    """What the host has, as far as it was asked."""
    _complete: set[int]
    """Keys of which all entries are known."""
    _writes: dict[int, dict[MapKey, Row | None]]
    _cleared: set[int]

    def __init__(
        self,
        map_key_type: type[MapKey],
        row_type: type[Row],
        *,
        prefetch: Callable[[Any], MapKey | None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(row_type, **options)
        self.map_key_type = map_key_type
        self.prefetch = prefetch
        self.map_key_fields: list[Field] = []

    def _declare(self) -> None:
        super()._declare()
        self.map_key_fields = fields_of(self.map_key_type, f"map keys of state `{self.name}`")

    def _check_columns(self, key: list[str], map_key: Sequence[Field] = ()) -> None:
        super()._check_columns(key, self.map_key_fields)

    def _kind(self) -> Any:
        return contract.operator.StateKind_Map([field.to_contract() for field in self.map_key_fields])

    def _check_map_key(self, map_key: Any) -> None:
        if type(map_key) is not self.map_key_type:
            raise Error(
                f"state `{self.name}` has map keys of {self.map_key_type.__name__}, got"
                f" {type(map_key).__name__}"
            )

    def get(self, map_key: MapKey) -> Row | None:
        """The row of the record's key under this map key."""
        key = self._record.index
        written = self._writes.get(key)
        if written is not None and map_key in written:
            return written[map_key]
        if key in self._cleared:
            return None
        self._prefetch_batch()
        known = self._known.setdefault(key, {})
        if map_key not in known and key not in self._complete:
            self._check_map_key(map_key)
            self._load([(key, map_key)])
        return known.get(map_key)

    def put(self, map_key: MapKey, row: Row) -> None:
        """Writes an entry of the record's key."""
        self._check_map_key(map_key)
        self._check(row)
        self._writes.setdefault(self._record.index, {})[map_key] = row

    def delete(self, map_key: MapKey) -> None:
        """Removes an entry of the record's key; one that is not there is fine."""
        self._check_map_key(map_key)
        self._writes.setdefault(self._record.index, {})[map_key] = None

    def items(
        self, first: MapKey | None = None, end: MapKey | None = None, limit_rows: int = ALL_ROWS
    ) -> Iterator[tuple[MapKey, Row]]:
        """The entries of the record's key in the order of their map keys, from `first` to
        before `end`. Without limits, the first use loads the entries of all keys of the batch
        in one call; with limits, each use is a call."""
        key = self._record.index
        written = self._writes.get(key, {})
        stored: dict[MapKey, Row | None] = {}
        if key not in self._cleared:
            if first is None and end is None and limit_rows == ALL_ROWS:
                self._load_all()
                stored = self._known[key]
            elif key in self._complete:
                stored = self._known[key]
            else:
                # An entry removed in this batch must not take the place of one that is there.
                removed = sum(row is None for row in written.values())
                selected = contract.state.Keys_Selected(indices([key]))
                limit = min(limit_rows + removed, ALL_ROWS)
                stored = dict(self._entries(selected, 1, first, end, limit)[0])
        merged = {**stored, **written}
        found = sorted(
            (map_key, row)
            for map_key, row in merged.items()
            if row is not None
            and (first is None or map_key >= first)
            and (end is None or map_key < end)
        )
        return islice(found, limit_rows) if limit_rows < len(found) else iter(found)

    def clear(self) -> None:
        """Removes all entries of the record's key."""
        key = self._record.index
        self._cleared.add(key)
        self._writes.pop(key, None)

    def items_many(self, keys: Sequence[Any]) -> list[list[tuple[MapKey, Row]]]:
        """All entries of these keys, in one call. Only outside of rows and timers, and only
        keys of this subtask."""
        return self._entries(self._explicit(keys), len(keys), None, None, ALL_ROWS)

    def get_many(self, entries: Sequence[tuple[Any, MapKey]]) -> list[Row | None]:
        """The row of each key under its map key, in one call. Conditions as for `items_many`."""
        keys, map_keys = self._named(entries)
        answer = self._call("get", keys, indices(range(len(entries))), map_keys)
        return self._rows(answer, len(entries))

    def delete_many(self, entries: Sequence[tuple[Any, MapKey]]) -> None:
        """Removes entries of keys, in one call. Conditions as for `items_many`."""
        keys, map_keys = self._named(entries)
        self._call("delete", keys, indices(range(len(entries))), map_keys)

    def _named(self, entries: Sequence[tuple[Any, MapKey]]) -> tuple[Any, list[Any]]:
        keys = self._explicit([key for key, _ in entries])
        return keys, encode_rows(self.map_key_fields, [map_key for _, map_key in entries])

    def put_many(self, entries: Sequence[tuple[Any, MapKey, Row]]) -> None:
        """Writes entries of keys, in one call. Conditions as for `items_many`."""
        keys = self._explicit([key for key, _, _ in entries])
        map_keys = encode_rows(self.map_key_fields, [entry[1] for entry in entries])
        rows = encode_rows(self.fields, [entry[2] for entry in entries])
        self._call("put", keys, indices(range(len(entries))), map_keys, rows)

    def clear_many(self, keys: Sequence[Any]) -> None:
        """Removes all entries of these keys, in one call. Conditions as for `items_many`."""
        self._call("clear", self._explicit(keys))

    def _begin_rows(self, rows: Iterable[Any], row_keys: Iterable[int]) -> None:
        self._batch = (rows, row_keys)

    def _prefetch_batch(self) -> None:
        if self.prefetch is None or self._batch is None:
            return
        rows, row_keys = self._batch
        self._batch = None
        wanted = {(key, self.prefetch(row)): None for key, row in zip(row_keys, rows)}
        pairs = [(key, map_key) for key, map_key in wanted if map_key is not None]
        for _, map_key in pairs:
            self._check_map_key(map_key)
        if pairs:
            self._load(pairs)

    def _load(self, pairs: list[tuple[int, Any]]) -> None:
        keys = indices(key for key, _ in pairs)
        map_keys = encode_rows(self.map_key_fields, [map_key for _, map_key in pairs])
        answer = self._call("get", contract.state.Keys_Current(), keys, map_keys)
        for (key, map_key), row in zip(pairs, self._rows(answer, len(pairs))):
            self._known.setdefault(key, {})[map_key] = row

    def _load_all(self) -> None:
        count = self._key_count or 0
        if len(self._complete) == count:
            return
        lists = self._entries(contract.state.Keys_Current(), count, None, None, ALL_ROWS)
        self._known = {key: dict(entries) for key, entries in enumerate(lists)}
        self._complete = set(range(count))

    def _entries(
        self, keys: Any, count: int, first: Any, end: Any, limit_rows: int
    ) -> list[list[tuple[Any, Any]]]:
        bounds = [
            None if bound is None else encode_rows(self.map_key_fields, [bound])
            for bound in (first, end)
        ]
        answer = self._call("entries", keys, contract.state.MapRange(*bounds), limit_rows)
        map_keys = decode_rows(
            self.map_key_type, self.map_key_fields, answer.rows, answer.map_keys
        )
        rows = decode_rows(self.row_type, self.fields, answer.rows, answer.columns)
        entries: list[list[tuple[Any, Any]]] = [[] for _ in range(count)]
        for key, map_key, row in zip(memoryview(answer.key_of).cast("I"), map_keys, rows):
            entries[key].append((map_key, row))
        return entries

    def _commit(self) -> None:
        if self._cleared:
            self._call("clear", self._selected(sorted(self._cleared)))
        put: list[tuple[int, Any, Any]] = []
        deleted: list[tuple[int, Any]] = []
        for key, written in sorted(self._writes.items()):
            known = {} if key in self._cleared else self._known.get(key, {})
            nothing_else = key in self._cleared or key in self._complete
            for map_key, row in written.items():
                if row is None:
                    there = known.get(map_key) is not None
                    if there or not (nothing_else or map_key in known):
                        deleted.append((key, map_key))
                elif map_key not in known or not _same(known[map_key], row):
                    put.append((key, map_key, row))
        current = contract.state.Keys_Current()
        if put:
            keys, map_keys, rows = zip(*put)
            self._call(
                "put",
                current,
                indices(keys),
                encode_rows(self.map_key_fields, map_keys),
                encode_rows(self.fields, rows),
            )
        if deleted:
            keys, map_keys = zip(*deleted)
            self._call(
                "delete", current, indices(keys), encode_rows(self.map_key_fields, map_keys)
            )

    def _end(self) -> None:
        super()._end()
        self._batch = None
        self._known = {}
        self._complete = set()
        self._writes = {}
        self._cleared = set()


class ReducingState(State[Row]):
    """One row for each key, which the host folds: only what is added crosses, in one call.

    `reducers` has for each field "sum", "min", "max", "count", "first" or "last".
    """

    _resource = "ReducingState"
    _folded: list[Row | None] | None
    _added: list[tuple[int, Row]]
    _cleared: set[int]

    def __init__(self, row_type: type[Row], *, reducers: Mapping[str, str], **options: Any) -> None:
        super().__init__(row_type, **options)
        self.reducers = dict(reducers)

    def _declare(self) -> None:
        super()._declare()
        names = [field.name for field in self.fields]
        if sorted(self.reducers) != sorted(names):
            raise Error(f"state `{self.name}`: give one reducer for each of {', '.join(names)}")
        try:
            self._folds = [_FOLDS[self.reducers[name]] for name in names]
        except KeyError as error:
            known = ", ".join(_FOLDS)
            raise Error(f"state `{self.name}`: no reducer {error}, there are {known}") from None

    def _kind(self) -> Any:
        reducer = contract.operator.Reducer
        reducers = [reducer[self.reducers[field.name].upper()] for field in self.fields]
        return contract.operator.StateKind_Reducing(reducers)

    def add(self, row: Row) -> None:
        """Folds a row into that of the record's key. What the field of a count holds does not
        matter, unless it is None: that is not counted."""
        self._check(row)
        key = self._record.index
        self._added.append((key, row))
        if self._folded is not None:
            self._folded[key] = self._fold(self._folded[key], row)

    def get(self) -> Row | None:
        """The folded row of the record's key, with what this batch added so far."""
        key = self._record.index
        if self._folded is None:
            answer = self._call("get", contract.state.Keys_Current())
            folded = self._rows(answer, self._key_count or 0)
            for cleared in self._cleared:
                folded[cleared] = None
            for added, row in self._added:
                folded[added] = self._fold(folded[added], row)
            self._folded = folded
        return self._folded[key]

    def clear(self) -> None:
        """Removes the row of the record's key."""
        key = self._record.index
        self._cleared.add(key)
        self._added = [added for added in self._added if added[0] != key]
        if self._folded is not None:
            self._folded[key] = None

    def _fold(self, before: Any, added: Any) -> Any:
        """What the host will do with what is added, for `get` in the same batch."""
        values = [
            fold(field, None if before is None else before[at], added[at])
            for at, (fold, field) in enumerate(zip(self._folds, self.fields))
        ]
        return tuple.__new__(self.row_type, values)

    def get_many(self, keys: Sequence[Any]) -> list[Row | None]:
        """The folded rows of these keys, in one call. Only outside of rows and timers, and only
        keys of this subtask."""
        return self._rows(self._call("get", self._explicit(keys)), len(keys))

    def add_many(self, rows: Sequence[tuple[Any, Row]]) -> None:
        """Folds each row into that of its key, in order, in one call. Conditions as for
        `get_many`."""
        keys = self._explicit([key for key, _ in rows])
        self._call("add", keys, encode_rows(self.fields, [row for _, row in rows]))

    def clear_many(self, keys: Sequence[Any]) -> None:
        """Removes the rows of these keys, in one call. Conditions as for `get_many`."""
        self._call("clear", self._explicit(keys))

    def _commit(self) -> None:
        if self._cleared:
            self._call("clear", self._selected(sorted(self._cleared)))
        if self._added:
            keys, rows = zip(*self._added)
            selected = contract.state.Keys_Selected(indices(keys))
            self._call("add", selected, encode_rows(self.fields, rows))

    def _end(self) -> None:
        super()._end()
        self._folded = None
        self._added = []
        self._cleared = set()


def _sum(field: Field, before: Any, added: Any) -> Any:
    if before is None or added is None:
        return added if before is None else before
    total = before + added
    return struct.unpack("<f", struct.pack("<f", total))[0] if field.type is FLOAT32 else total


def _count(field: Field, before: Any, added: Any) -> Any:
    return (before or 0) + (added is not None)


def _order(value: Any) -> Any:
    """What values are compared by: floats by IEEE 754's total order."""
    if type(value) is float:
        [bits] = struct.unpack("<q", struct.pack("<d", value))
        return bits ^ ((bits >> 63) & 0x7FFF_FFFF_FFFF_FFFF)
    return value


def _min(field: Field, before: Any, added: Any) -> Any:
    if before is None or added is None:
        return added if before is None else before
    return added if _order(added) < _order(before) else before


def _max(field: Field, before: Any, added: Any) -> Any:
    if before is None or added is None:
        return added if before is None else before
    return added if _order(added) > _order(before) else before


def _first(field: Field, before: Any, added: Any) -> Any:
    return added if before is None else before


def _last(field: Field, before: Any, added: Any) -> Any:
    return before if added is None else added


_FOLDS = {"sum": _sum, "min": _min, "max": _max, "count": _count, "first": _first, "last": _last}
