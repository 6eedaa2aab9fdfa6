"""The types and functions of the contract in `wit/`, under one name.

In a component they are those that componentize-py generates. Elsewhere there is no host, and
this module has types with the same names and fields, so that operators run in ordinary tests:
`howdah.testing` puts its own functions in the place of the host's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any

try:
    from componentize_py_types import Err
    from wit_world.exports import operator
    from wit_world.imports import logging, state, types

    IN_COMPONENT = True
except ImportError:
    IN_COMPONENT = False

if IN_COMPONENT:
    # World `stateful-operator` lacks these.
    try:
        from wit_world.imports import clock, metrics, timers
    except ImportError:
        clock = metrics = timers = None
else:

    class Err(Exception):
        """How a call of the contract fails."""

        def __init__(self, value: Any) -> None:
            super().__init__(value)
            self.value = value

    class ErrorKind(Enum):
        NOT_DECLARED = 0
        INVALID_ARGUMENT = 1
        LIMIT_EXCEEDED = 2
        KEY_OUT_OF_RANGE = 3
        STATE_UNAVAILABLE = 4
        INVALID_CONFIG = 5
        OTHER = 6

    class Level(Enum):
        TRACE = 0
        DEBUG = 1
        INFO = 2
        WARN = 3
        ERROR = 4

    class Reducer(Enum):
        SUM = 0
        MIN = 1
        MAX = 2
        COUNT = 3
        FIRST = 4
        LAST = 5

    class TtlUpdate(Enum):
        ON_WRITE = 0
        ON_READ_AND_WRITE = 1

    class TimeDomain(Enum):
        EVENT_TIME = 0
        PROCESSING_TIME = 1

    def _record(name: str, fields: str = "") -> Any:
        """A data class with these fields."""
        annotations = {field: Any for field in fields.split()}
        return dataclass(type(name, (), {"__annotations__": annotations}))

    types = SimpleNamespace(
        Decimal=_record("Decimal", "precision scale"),
        ValueType_Boolean=_record("ValueType_Boolean"),
        ValueType_Int32=_record("ValueType_Int32"),
        ValueType_Int64=_record("ValueType_Int64"),
        ValueType_Float32=_record("ValueType_Float32"),
        ValueType_Float64=_record("ValueType_Float64"),
        ValueType_Decimal128=_record("ValueType_Decimal128", "value"),
        ValueType_Date=_record("ValueType_Date"),
        ValueType_TimestampMillis=_record("ValueType_TimestampMillis"),
        ValueType_Utf8=_record("ValueType_Utf8"),
        ValueType_Binary=_record("ValueType_Binary"),
        Field=_record("Field", "name type nullable"),
        Column=_record("Column", "data offsets validity"),
        Batch=_record("Batch", "rows columns row_kinds"),
        KeyColumns=_record("KeyColumns", "rows columns"),
        Error=_record("Error", "kind message"),
        ErrorKind=ErrorKind,
    )
    state = SimpleNamespace(
        Keys_Current=_record("Keys_Current"),
        Keys_Selected=_record("Keys_Selected", "value"),
        Keys_Explicit=_record("Keys_Explicit", "value"),
        Rows=_record("Rows", "present columns"),
        ListRows=_record("ListRows", "rows key_of columns truncated"),
        MapRows=_record("MapRows", "rows key_of map_keys columns truncated"),
        MapRange=_record("MapRange", "from_ to"),
        ValueState=None,
        ListState=None,
        MapState=None,
        ReducingState=None,
    )
    operator = SimpleNamespace(
        InputSpec=_record("InputSpec", "name fields key changelog"),
        OutputSpec=_record("OutputSpec", "name fields changelog"),
        StateKind_Value=_record("StateKind_Value"),
        StateKind_List=_record("StateKind_List"),
        StateKind_Map=_record("StateKind_Map", "value"),
        StateKind_Reducing=_record("StateKind_Reducing", "value"),
        Ttl=_record("Ttl", "millis update"),
        TtlUpdate=TtlUpdate,
        StateSpec=_record("StateSpec", "name kind fields schema_version ttl"),
        TimerSpec=_record("TimerSpec", "name domain"),
        TimeDomain=TimeDomain,
        Reducer=Reducer,
        Spec=_record("Spec", "inputs outputs states timers"),
        Context=_record("Context", "pipeline operator subtask parallelism config restored_from"),
        Input=_record("Input", "port batch timestamps watermark keys row_keys"),
        Output=_record("Output", "port batch timestamps"),
    )
    Due = _record("Due", "timer keys times watermark")
    logging = SimpleNamespace(Level=Level, log=None, enabled=None)
    metrics = SimpleNamespace(counter_add=None, gauge_set=None, histogram_record=None)
    clock = SimpleNamespace(now=None)
    timers = SimpleNamespace(TimerService=None)
