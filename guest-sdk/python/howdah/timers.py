"""Timers: the operator asks to be called again for a key, at a time."""

from __future__ import annotations

import copy
from array import array
from collections.abc import Sequence
from typing import Any, Callable, TypeVar

from howdah import contract
from howdah.columns import encode_rows, indices
from howdah.errors import Error, from_host

Handler = TypeVar("Handler", bound=Callable[..., None])


class Timers:
    """A family of timers, declared as an attribute of the operator's class:

        ends = Timers()

        @ends.fired
        def on_end(self, time: int) -> None: ...
    """

    def __init__(self, *, processing_time: bool = False, name: str | None = None) -> None:
        """Timers wait for the watermark, or for the host's clock."""
        self.processing_time = processing_time
        self.name = name or ""
        self._handler: Callable[..., None] | None = None
        self._handle: Any = None
        self._record: Any = None
        self._key_count: int | None = None
        self._changes: dict[tuple[int, int], bool] = {}

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def fired(self, handler: Handler) -> Handler:
        """Declares what happens when a timer fires: a method that takes its time."""
        self._handler = handler
        return handler

    def set(self, time: int) -> None:
        """Sets a timer for the record's key; one that is set already stays as it is."""
        self._changes[self._record.index, time] = True

    def delete(self, time: int) -> None:
        """Removes a timer of the record's key; one that is not set is fine."""
        self._changes[self._record.index, time] = False

    def set_many(self, timers: Sequence[tuple[Any, int]]) -> None:
        """Sets a timer of each key at its time, in one call. Only outside of rows and timers, and
        only of keys of this subtask."""
        self._change_many("set", timers)

    def delete_many(self, timers: Sequence[tuple[Any, int]]) -> None:
        """Removes timers, in one call. Conditions as for `set_many`."""
        self._change_many("delete", timers)

    def _change_many(self, function: str, timers: Sequence[tuple[Any, int]]) -> None:
        if self._key_count is not None:
            raise Error(
                f"timers `{self.name}`: while rows are processed, timers are those of the record's"
                " key; other keys are for `on_barrier`, `on_watermark` and `close`"
            )
        columns = encode_rows(self._record._key_fields, [key for key, _ in timers])
        keys = contract.state.Keys_Explicit(contract.types.KeyColumns(len(timers), columns))
        self._call(function, keys, array("q", [time for _, time in timers]).tobytes())

    def _call(self, function: str, keys: Any, times: bytes) -> None:
        try:
            getattr(self._handle, function)(keys, times)
        except contract.Err as error:
            raise from_host(error) from None

    def _spec(self) -> Any:
        if self._handler is None:
            raise Error(f"timers `{self.name}`: nothing handles them: use @{self.name}.fired")
        domain = contract.operator.TimeDomain
        return contract.operator.TimerSpec(
            self.name, domain.PROCESSING_TIME if self.processing_time else domain.EVENT_TIME
        )

    def _open(self, record: Any) -> Timers:
        live = copy.copy(self)
        live._record = record
        if contract.timers is None:
            raise Error(f"timers `{self.name}`: the component was built without timers")
        try:
            live._handle = contract.timers.TimerService.open(self.name)
        except contract.Err as error:
            raise from_host(error) from None
        live._end()
        return live

    def _begin(self, key_count: int) -> None:
        self._key_count = key_count

    def _commit(self) -> None:
        for wanted, function in ((True, "set"), (False, "delete")):
            changes = [change for change, is_set in self._changes.items() if is_set is wanted]
            if changes:
                keys, times = zip(*changes)
                selected = contract.state.Keys_Selected(indices(keys))
                self._call(function, selected, array("q", times).tobytes())

    def _end(self) -> None:
        self._key_count = None
        self._changes = {}
