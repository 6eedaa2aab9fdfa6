"""Runs an operator in an ordinary Python, over states in memory.

    host = TestHost(LastBid)
    assert host.process([bid]) == [Event("output", bid)]
    host.barrier()              # a crash goes back to here
    host.crash()

It speaks with the operator in the buffers of the contract, as the real host does.
"""

from __future__ import annotations

import copy
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from howdah import contract
from howdah.call import RowKind
from howdah.columns import decode_rows, encode_rows, indices, list_to_bits
from howdah.component import exports
from howdah.errors import Error
from howdah.operators import Operator
from howdah.rows import fields_of
from howdah.state import _FOLDS, MapState, ReducingState, State

END_OF_TIME = 2**63 - 1


class Event(NamedTuple):
    """A row that the operator emitted."""

    output: str
    row: Any
    kind: RowKind = RowKind.INSERT
    timestamp: int = 0


class TestHost:
    """An operator with its state, watermark, clock, logs and metrics."""

    __test__ = False  # Not a test, whatever its name.

    def __init__(
        self, operator: type[Operator], config: dict[str, Any] | None = None, subtask: int = 0
    ) -> None:
        self.watermark = -(2**63)
        self.now = 0
        """What the operator's clock shows; set it as you like."""
        self.logs: list[tuple[str, str]] = []
        """Level and message."""
        self.metrics: dict[str, Any] = {}
        """Counters and gauges by name; of histograms, the list of values."""
        self.calls: Counter[tuple[str, str]] = Counter()
        """How often the operator called a function of a state: `calls["last", "get"]`."""
        self._operator = operator
        self._config = json.dumps(config or {})
        self._subtask = subtask
        self._states: dict[str, dict[Any, Any]] = {}
        self._timers: dict[str, set[tuple[int, Any]]] = {}
        self._keys: list[Any] | None = None
        self._checkpoint = 0
        self._exports: dict[str, Any] = {}
        self.spec = self._call_described()
        """What the operator says that it is."""
        self._key_type = operator._inputs[0].key_type
        self._key_fields = fields_of(self._key_type, "key")
        for state in operator._states:
            self._states[state.name] = {}
        for timers in operator._timers:
            self._timers[timers.name] = set()
        self._open(None)
        self._saved = self._snapshot()

    # What a test does.

    def process(
        self,
        rows: Sequence[Any],
        *,
        input: str | None = None,
        timestamps: Sequence[int] | None = None,
        kinds: Sequence[RowKind] | None = None,
    ) -> list[Event]:
        """Hands over rows as one batch, and gives what is emitted."""
        names = [declared.name for declared in self._operator._inputs]
        port = names.index(input) if input is not None else 0
        declared = self._operator._inputs[port]
        if not rows:
            return []
        at = [declared.row_type._fields.index(name) for name in declared._key_names()]
        keys: dict[Any, int] = {}
        row_keys = [keys.setdefault(tuple(row[i] for i in at), len(keys)) for row in rows]
        self._keys = list(keys)
        batch = contract.types.Batch(
            len(rows), encode_rows(declared.fields, rows), None if kinds is None else bytes(kinds)
        )
        given = contract.operator.Input(
            port,
            batch,
            array("q", timestamps or [0] * len(rows)).tobytes(),
            self.watermark,
            contract.types.KeyColumns(len(keys), encode_rows(self._key_fields, self._keys)),
            indices(row_keys),
        )
        return self._events(self._call("Operator", "process", given))

    def advance_watermark(self, watermark: int) -> list[Event]:
        """Raises the watermark: fires the timers of event time that are due, then calls
        `on_watermark`."""
        if watermark <= self.watermark:
            return []
        self.watermark = watermark
        events = self._fire(processing_time=False, until=watermark)
        return events + self._events(self._call("WatermarkHandler", "on_watermark", watermark))

    def advance_clock(self, now: int) -> list[Event]:
        """Sets the clock, and fires the timers of processing time that are due."""
        self.now = max(self.now, now)
        return self._fire(processing_time=True, until=self.now)

    def barrier(self) -> list[Event]:
        """Takes a checkpoint, which a crash goes back to."""
        self._checkpoint += 1
        events = self._events(self._call("Operator", "on_barrier", self._checkpoint))
        self._saved = self._snapshot()
        return events

    def complete_checkpoint(self) -> None:
        """Tells the operator that the last checkpoint is complete."""
        self._call("CheckpointHandler", "on_checkpoint_complete", self._checkpoint)

    def crash(self) -> None:
        """Drops the operator; a new one goes on from the last barrier."""
        saved = copy.deepcopy(self._saved)
        self._states, self._timers, self.watermark, checkpoint = saved
        self._open(checkpoint)

    def close(self) -> list[Event]:
        """Ends the input: fires what is left, then calls `close`."""
        events = self.advance_watermark(END_OF_TIME)
        return events + self._events(self._call("Operator", "close"))

    def state(self, name: str) -> dict[Any, Any]:
        """The rows of a state by key; of a list state lists, of a map state dictionaries."""
        return {
            tuple.__new__(self._key_type, key): value for key, value in self._states[name].items()
        }

    def timers(self, name: str) -> list[tuple[int, Any]]:
        """The timers that are set: time and key, in order."""
        return sorted(self._timers[name])

    # How it does that.

    def _call_described(self) -> Any:
        self._exports = {name: kind() for name, kind in exports(self._operator).items()}
        return self._call("Operator", "describe", self._config)

    def _open(self, restored_from: int | None) -> None:
        self._exports = {name: kind() for name, kind in exports(self._operator).items()}
        context = contract.operator.Context(
            "test", self._operator.__name__, self._subtask, 1, self._config, restored_from
        )
        self._call("Operator", "open", context)

    def _snapshot(self) -> Any:
        state = (self._states, self._timers, self.watermark, self._checkpoint or None)
        return copy.deepcopy(state)

    def _call(self, interface: str, function: str, *arguments: Any) -> Any:
        self._install()
        try:
            return getattr(self._exports[interface], function)(*arguments)
        except contract.Err as error:
            made = Error(error.value.message)
            made.kind = error.value.kind.name
            raise made from None
        finally:
            self._keys = None

    def _install(self) -> None:
        """Makes this host the one that operators speak with."""
        for resource in (_ValueTable, _ListTable, _MapTable, _ReducingTable):
            setattr(contract.state, resource.__name__.strip("_").replace("Table", "State"),
                    _Opener(self, resource))  # fmt: skip
        contract.timers.TimerService = _Opener(self, _TimerTable)
        contract.clock.now = lambda: self.now
        contract.logging.enabled = lambda level: True
        contract.logging.log = lambda level, message: self.logs.append((level.name, message))
        contract.metrics.counter_add = lambda name, amount: self.metrics.update(
            {name: self.metrics.get(name, 0) + amount}
        )
        contract.metrics.gauge_set = lambda name, value: self.metrics.update({name: value})
        contract.metrics.histogram_record = lambda name, value: self.metrics.setdefault(
            name, []
        ).append(value)

    def _fire(self, processing_time: bool, until: int) -> list[Event]:
        events = []
        for index, timers in enumerate(self._operator._timers):
            if timers.processing_time != processing_time:
                continue
            while due := self._next_due(timers.name, until):
                self._keys = list(due)
                given = contract.Due(
                    index,
                    contract.types.KeyColumns(len(due), encode_rows(self._key_fields, list(due))),
                    array("q", due.values()).tobytes(),
                    self.watermark,
                )
                events += self._events(self._call("TimerHandler", "on_timers", given))
        return events

    def _next_due(self, name: str, until: int) -> dict[Any, int]:
        """The first timer of each key, no longer set."""
        due: dict[Any, int] = {}
        for time, key in sorted(self._timers[name]):
            if time <= until:
                due.setdefault(key, time)
        self._timers[name] -= {(time, key) for key, time in due.items()}
        return due

    def _events(self, outputs: Iterable[Any]) -> list[Event]:
        events = []
        for made in outputs:
            declared = self._operator._outputs[made.port]
            batch = made.batch
            rows = decode_rows(declared.row_type, declared.fields, batch.rows, batch.columns)
            kinds = batch.row_kinds or bytes(batch.rows)
            for row, kind, time in zip(rows, kinds, memoryview(made.timestamps).cast("q")):
                events.append(Event(declared.name, row, RowKind(kind), time))
        return events

    def _resolve(self, keys: Any) -> list[Any]:
        """The keys that a call is about."""
        if isinstance(keys, contract.state.Keys_Explicit):
            rows = decode_rows(tuple, self._key_fields, keys.value.rows, keys.value.columns)
            return [tuple(row) for row in rows]
        if self._keys is None:
            raise _refusal("this call has no keys")
        if isinstance(keys, contract.state.Keys_Current):
            return self._keys
        return [self._keys[index] for index in memoryview(keys.value).cast("I")]


def _refusal(message: str) -> Exception:
    kind = contract.types.ErrorKind.INVALID_ARGUMENT
    return contract.Err(contract.types.Error(kind, message))


class _Opener:
    """Stands for a resource type of the contract."""

    def __init__(self, host: TestHost, table: type) -> None:
        self.host, self.table = host, table

    def open(self, name: str) -> Any:
        return self.table(self.host, name)


class _Table:
    """A state in memory."""

    def __init__(self, host: TestHost, name: str) -> None:
        declared = [state for state in host._operator._states if state.name == name]
        if not declared:
            raise _refusal(f"state `{name}` is not declared")
        self.host, self.name = host, name
        self.declared: State[Any] = declared[0]
        self.fields = self.declared.fields

    def stored(self, function: str) -> dict[Any, Any]:
        self.host.calls[self.name, function] += 1
        return self.host._states[self.name]

    def decoded(self, columns: list[Any], count: int) -> list[Any]:
        return decode_rows(self.declared.row_type, self.fields, count, columns)

    def rows(self, found: list[Any]) -> Any:
        filler = (None,) * len(self.fields)
        rows = [filler if row is None else row for row in found]
        nullable = [field._replace(nullable=True) for field in self.fields]
        present = list_to_bits([row is not None for row in found])
        return contract.state.Rows(None if None not in found else present, encode_rows(nullable, rows))


class _ValueTable(_Table):
    def get(self, keys: Any) -> Any:
        stored = self.stored("get")
        return self.rows([stored.get(key) for key in self.host._resolve(keys)])

    def put(self, keys: Any, columns: list[Any]) -> None:
        resolved = self.host._resolve(keys)
        self.stored("put").update(zip(resolved, self.decoded(columns, len(resolved))))

    def delete(self, keys: Any) -> None:
        stored = self.stored("delete")
        for key in self.host._resolve(keys):
            stored.pop(key, None)

    clear = delete


class _ListTable(_Table):
    def append(self, keys: Any, key_of: bytes, columns: list[Any]) -> None:
        stored, resolved = self.stored("append"), self.host._resolve(keys)
        key_indices = memoryview(key_of).cast("I")
        for index, row in zip(key_indices, self.decoded(columns, len(key_indices))):
            stored.setdefault(resolved[index], []).append(row)

    def get(self, keys: Any, limit_rows: int) -> Any:
        stored = self.stored("get")
        lists = [stored.get(key, [])[:limit_rows] for key in self.host._resolve(keys)]
        key_of = indices(index for index, rows in enumerate(lists) for _ in rows)
        rows = [row for rows in lists for row in rows]
        return contract.state.ListRows(len(rows), key_of, encode_rows(self.fields, rows), None)

    def clear(self, keys: Any) -> None:
        stored = self.stored("clear")
        for key in self.host._resolve(keys):
            stored.pop(key, None)


class _MapTable(_Table):
    declared: MapState[Any, Any]

    def named(self, keys: Any, key_of: bytes, map_keys: list[Any]) -> list[tuple[Any, Any]]:
        resolved = self.host._resolve(keys)
        key_indices = memoryview(key_of).cast("I")
        decoded = decode_rows(
            self.declared.map_key_type, self.declared.map_key_fields, len(key_indices), map_keys
        )
        return [(resolved[index], map_key) for index, map_key in zip(key_indices, decoded)]

    def get(self, keys: Any, key_of: bytes, map_keys: list[Any]) -> Any:
        stored, named = self.stored("get"), self.named(keys, key_of, map_keys)
        return self.rows([stored.get(key, {}).get(map_key) for key, map_key in named])

    def put(self, keys: Any, key_of: bytes, map_keys: list[Any], columns: list[Any]) -> None:
        stored, named = self.stored("put"), self.named(keys, key_of, map_keys)
        for (key, map_key), row in zip(named, self.decoded(columns, len(named))):
            stored.setdefault(key, {})[map_key] = row

    def delete(self, keys: Any, key_of: bytes, map_keys: list[Any]) -> None:
        stored = self.stored("delete")
        for key, map_key in self.named(keys, key_of, map_keys):
            stored.get(key, {}).pop(map_key, None)

    def entries(self, keys: Any, range: Any, limit_rows: int) -> Any:
        stored = self.stored("entries")
        fields = self.declared.map_key_fields
        first, end = (
            None if bound is None else decode_rows(self.declared.map_key_type, fields, 1, bound)[0]
            for bound in (range.from_, range.to)
        )
        key_of, map_keys, rows = [], [], []
        for index, key in enumerate(self.host._resolve(keys)):
            found = sorted(
                map_key
                for map_key in stored.get(key, {})
                if (first is None or map_key >= first) and (end is None or map_key < end)
            )[:limit_rows]
            key_of += [index] * len(found)
            map_keys += found
            rows += [stored[key][map_key] for map_key in found]
        columns = encode_rows(self.fields, rows)
        packed = indices(key_of)
        return contract.state.MapRows(len(rows), packed, encode_rows(fields, map_keys), columns, None)

    def clear(self, keys: Any) -> None:
        stored = self.stored("clear")
        for key in self.host._resolve(keys):
            stored.pop(key, None)


class _ReducingTable(_ValueTable):
    declared: ReducingState[Any]

    def add(self, keys: Any, columns: list[Any]) -> None:
        stored, resolved = self.stored("add"), self.host._resolve(keys)
        folds = [_FOLDS[self.declared.reducers[field.name]] for field in self.fields]
        for key, added in zip(resolved, self.decoded(columns, len(resolved))):
            before = stored.get(key) or [None] * len(folds)
            values = [fold(*rest) for fold, *rest in zip(folds, self.fields, before, added)]
            stored[key] = tuple.__new__(self.declared.row_type, values)


class _TimerTable:
    def __init__(self, host: TestHost, name: str) -> None:
        self.host, self.name = host, name

    def changes(self, keys: Any, times: bytes) -> set[tuple[int, Any]]:
        return set(zip(memoryview(times).cast("q"), self.host._resolve(keys)))

    def set(self, keys: Any, times: bytes) -> None:
        self.host._timers[self.name] |= self.changes(keys, times)

    def delete(self, keys: Any, times: bytes) -> None:
        self.host._timers[self.name] -= self.changes(keys, times)


__all__ = ["END_OF_TIME", "Event", "TestHost"]
