"""The class that operators derive from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

from howdah import contract
from howdah.call import Record
from howdah.columns import decode_rows
from howdah.errors import ConfigError, Error, InvalidArgument
from howdah.rows import fields_of
from howdah.state import MapState, State
from howdah.streams import Batch, Input, Output
from howdah.timers import Timers


@dataclass(frozen=True)
class Subtask:
    """Where an instance of an operator finds itself."""

    pipeline: str
    """The name of the pipeline."""
    operator: str
    """The name of the operator in the pipeline."""
    index: int
    """Which of the parallel subtasks this is, from 0."""
    parallelism: int
    """How many subtasks there are."""
    restored_from: int | None
    """The checkpoint that the state comes from; None on a fresh start."""


class Operator:
    """A stream operator with keyed state.

    Inputs, outputs, states and timers are attributes of the class. What an instance keeps in
    attributes of its own is a cache: after a failure it is gone, and a new instance goes on from
    the last completed checkpoint.
    """

    record: Record
    """What is known about the row or timer that is being processed."""
    config: dict[str, Any]
    """The operator's table of the pipeline file."""
    subtask: Subtask | None
    """Where this instance finds itself; None while the operator is only asked what it is."""

    _live: list[State[Any] | Timers]
    _live_outputs: list[Output[Any]]

    _inputs: ClassVar[list[Input[Any]]]
    _outputs: ClassVar[list[Output[Any]]]
    _states: ClassVar[list[State[Any]]]
    _timers: ClassVar[list[Timers]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        declared: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            declared.update(vars(base))
        for name, value in vars(cls).items():
            taken = hasattr(Operator, name) or name in Operator.__annotations__
            if taken and isinstance(value, (Input, Output, State, Timers)):
                raise Error(f"`{name}` of {cls.__name__} is a name of every operator: rename it")

        def of(kind: type) -> list[Any]:
            return [value for value in declared.values() if isinstance(value, kind)]

        cls._inputs, cls._outputs = of(Input), of(Output)
        cls._states, cls._timers = of(State), of(Timers)

    # What an author may override.

    def configure(self) -> None:
        """Checks `self.config`. Also runs when the operator is only asked what it is. Raise
        `ConfigError` if it is not usable."""

    def open(self) -> None:
        """Once for each instance, before anything else."""

    def on_watermark(self, watermark: int) -> None:
        """The watermark has risen to this, and all timers at or before it have fired."""

    def on_barrier(self, checkpoint: int) -> None:
        """A barrier has reached the operator: what it holds back in its own attributes, it must
        let go of here."""

    def on_checkpoint_complete(self, checkpoint: int) -> None:
        """The operator will never go back to before this checkpoint. No state can be changed."""

    def close(self) -> None:
        """The input has ended."""

    # What the component calls.

    @classmethod
    def _describe(cls, config: str) -> Any:
        """The spec of the operator."""
        if not cls._inputs:
            raise Error(f"{cls.__name__} has no input: declare one with `Input`")
        cls._declare()
        for state in cls._states:
            state._check_columns(cls._inputs[0]._key_names())
        operator = cls._configured(config)
        operator.subtask = None
        operator.configure()
        return contract.operator.Spec(
            [declared._spec() for declared in cls._inputs],
            [declared._spec() for declared in cls._outputs],
            [declared._spec() for declared in cls._states],
            [declared._spec() for declared in cls._timers],
        )

    @classmethod
    def _declare(cls) -> None:
        columns: list[Input[Any] | Output[Any] | State[Any]]
        columns = [*cls._inputs, *cls._outputs, *cls._states]
        for declared in columns:
            declared._declare()

    @classmethod
    def _configured(cls, config: str) -> Operator:
        operator = cls()
        try:
            operator.config = json.loads(config or "{}")
        except ValueError as error:
            raise ConfigError(f"configuration: {error}") from error
        return operator

    @classmethod
    def _open(cls, context: Any) -> Operator:
        """An operator with its live states."""
        operator = cls._configured(context.config)
        operator.subtask = Subtask(
            context.pipeline,
            context.operator,
            context.subtask,
            context.parallelism,
            context.restored_from,
        )
        key_type = cls._inputs[0].key_type
        cls._declare()
        operator.record = Record(key_type, fields_of(key_type, "key"))
        names = {id(value): name for base in cls.__mro__ for name, value in vars(base).items()}
        operator._live = []
        operator._live_outputs = []
        keyed: list[State[Any] | Timers] = [*cls._states, *cls._timers]
        for declared in keyed:
            live = declared._open(operator.record)
            operator._live.append(live)
            setattr(operator, names[id(declared)], live)
        for port, output in enumerate(cls._outputs):
            live_output = output._open(operator.record, port)
            operator._live_outputs.append(live_output)
            setattr(operator, names[id(output)], live_output)
        operator.configure()
        operator.open()
        return operator

    def _run(self, handle: Any, handler: Any, key_count: int | None = None) -> list[Any]:
        """Runs a handler, then writes what it changed and gives what it emitted. `handler` is the
        author's function in it, for messages."""
        live, outputs = self._live, self._live_outputs
        try:
            if key_count is not None:
                for state in live:
                    state._begin(key_count)
            handle()
            try:
                if key_count is not None:
                    for state in live:
                        state._commit()
                return [made for output in outputs for made in output._finish()]
            except InvalidArgument as error:
                # What it wrote and emitted becomes columns when it has returned.
                raise InvalidArgument(f"{error}; from {_place(handler)}") from None
        finally:
            self.record._end()
            for state in live:
                state._end()
            for output in outputs:
                output._end()

    def _process(self, given: Any) -> list[Any]:
        inputs = type(self)._inputs
        if given.port >= len(inputs):
            raise Error(f"there is no input {given.port}")
        declared = inputs[given.port]
        self.record._begin(given.keys, None, given.batch.row_kinds, given.watermark)

        def handle() -> None:
            assert declared._handler is not None
            if declared._takes_batches:
                declared._handler(self, Batch(declared.fields, given))
            else:
                self._each(declared, given)

        return self._run(handle, declared._handler, given.keys.rows)

    def _each(self, declared: Input[Any], given: Any) -> None:
        rows = declared._rows(given.batch)
        row_keys = memoryview(given.row_keys).cast("I").tolist()
        for state in self._live:
            if isinstance(state, MapState):
                state._begin_rows(rows, row_keys)
        record, handler = self.record, declared._handler
        record._times = memoryview(given.timestamps).cast("q").tolist()
        assert handler is not None
        for record._row, record._key_index, row in zip(count(), row_keys, rows):
            handler(self, row)

    def _on_timers(self, due: Any) -> list[Any]:
        declared = type(self)._timers[due.timer]
        times = memoryview(due.times).cast("q")
        self.record._begin(due.keys, times, None, due.watermark)

        def handle() -> None:
            assert declared._handler is not None
            for index, time in enumerate(times):
                self.record._row = self.record._key_index = index
                declared._handler(self, time)

        return self._run(handle, declared._handler, due.keys.rows)

    def _on_watermark(self, watermark: int) -> list[Any]:
        self.record.watermark = watermark
        return self._run(lambda: self.on_watermark(watermark), self.on_watermark)

    def _on_barrier(self, checkpoint: int) -> list[Any]:
        return self._run(lambda: self.on_barrier(checkpoint), self.on_barrier)

    def _on_checkpoint_complete(self, checkpoint: int) -> None:
        self._run(lambda: self.on_checkpoint_complete(checkpoint), self.on_checkpoint_complete)

    def _close(self) -> list[Any]:
        return self._run(self.close, self.close)


def _place(handler: Any) -> str:
    """Where a function of the author is."""
    code = getattr(handler, "__code__", None)
    if code is None:
        return str(handler)
    return f"{code.co_name} ({code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno})"


def key_rows(operator: type[Operator], columns: Any) -> list[Any]:
    """The keys of key columns."""
    key_type = operator._inputs[0].key_type
    return decode_rows(key_type, fields_of(key_type, "key"), columns.rows, columns.columns)
