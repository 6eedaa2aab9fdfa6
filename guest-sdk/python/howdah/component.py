"""Makes a component of an operator: the classes that componentize-py looks for."""

from __future__ import annotations

import gc
from typing import Any, Callable

from howdah.errors import Error, to_contract
from howdah.operators import Operator


def exports(operator: type[Operator]) -> dict[str, type]:
    """The exported interfaces, over one operator for each instance."""
    opened: list[Operator] = []

    def reporting(function: Callable[..., Any]) -> Callable[..., Any]:
        """Tells the host of exceptions, with their traceback."""

        def call(self: Any, *arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Exception as error:
                raise to_contract(error) from None

        return call

    def with_operator(method: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if not opened:
                raise Error("`open` must be called first")
            return getattr(opened[0], method)(*arguments)

        return reporting(call)

    def interface(name: str, **functions: Callable[..., Any]) -> type:
        return type(name, (), functions)

    # All that is there so far stays: no collection of garbage needs to look through it again.
    gc.collect()
    gc.freeze()
    return {
        "Operator": interface(
            "Operator",
            describe=reporting(operator._describe),
            open=reporting(lambda context: opened.append(operator._open(context))),
            process=with_operator("_process"),
            on_barrier=with_operator("_on_barrier"),
            close=with_operator("_close"),
        ),
        "TimerHandler": interface("TimerHandler", on_timers=with_operator("_on_timers")),
        "WatermarkHandler": interface(
            "WatermarkHandler", on_watermark=with_operator("_on_watermark")
        ),
        "CheckpointHandler": interface(
            "CheckpointHandler", on_checkpoint_complete=with_operator("_on_checkpoint_complete")
        ),
    }
