"""Write howdah operators in Python: typed state, one record at a time.

An operator is a class whose attributes are its inputs, outputs, states and timers, and whose
methods take rows. The SDK makes a WebAssembly component of it that speaks in columns and batches.
"""

from howdah import clock, log, metrics
from howdah.call import Record, RowKind
from howdah.columns import ColumnView, decode, encode
from howdah.contract import types as _types
from howdah.errors import ConfigError, Error, InvalidArgument
from howdah.operators import Operator, Subtask
from howdah.rows import Date, Decimal, Float32, Float64, Int32, Int64, Timestamp, digits
from howdah.state import ListState, LoadedColumns, MapState, ReducingState, Ttl, ValueState
from howdah.streams import Batch, Input, Output
from howdah.timers import Timers

Column = _types.Column
"""The raw buffers of a column: `data`, `offsets` and `validity`."""

__all__ = [
    "Batch", "Column", "ColumnView", "ConfigError", "Date", "Decimal", "Error", "Float32",
    "Float64", "Input", "Int32", "Int64", "InvalidArgument", "ListState", "LoadedColumns",
    "MapState", "Operator", "Output", "Record", "ReducingState", "RowKind", "Subtask",
    "Timers", "Timestamp", "Ttl", "ValueState", "clock", "decode", "digits", "encode", "log",
    "metrics",
]  # fmt: skip
