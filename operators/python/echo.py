"""Counts in the value of each key: what `cargo xtask bench boundary` measures.

The first eight bytes of a value are a counter. A key without a value gets that of its row;
otherwise each row adds one to the counter. Emits each row with its key's value after it.
Works on columns, as hot operators do.
"""

from array import array
from typing import NamedTuple

from howdah import Batch, Column, Input, Operator, Output, ValueState, encode


class Row(NamedTuple):
    key: int
    value: bytes


class Key(NamedTuple):
    key: int


class Value(NamedTuple):
    value: bytes


class Echo(Operator):
    """The operator."""

    input = Input(Row, key=Key)
    output = Output(Row)
    values = ValueState(Value)

    @input.batch
    def on_batch(self, batch: Batch) -> None:
        loaded = self.values.load_columns()
        one_row_a_key = array("I", range(batch.rows)).tobytes() == batch.row_keys.tobytes()
        if one_row_a_key and loaded.present is None:
            stored = loaded.columns["value"]
            data = bytearray(stored.raw.data)
            counters = memoryview(data)[: len(data) & ~7].cast("q")
            # Values of eight bytes and multiples begin at a counter.
            for start in stored.offsets()[:-1]:
                counters[start >> 3] += 1
            column = Column(bytes(data), stored.raw.offsets, None)
            self.values.store_columns([column])
            self.output.emit_columns(batch.rows, [batch.raw[0], column], batch.timestamps)
        else:
            self.one_by_one(batch, loaded.columns["value"].values(), loaded.is_present())

    def one_by_one(self, batch: Batch, values: list[bytes], present: list[bool]) -> None:
        """The same for batches with new keys, or several rows of a key."""
        emitted = []
        for row, key in zip(batch.columns["value"].values(), batch.row_keys):
            if present[key]:
                count = int.from_bytes(values[key][:8], "little") + 1
                row = count.to_bytes(8, "little") + values[key][8:]
            values[key], present[key] = row, True
            emitted.append(row)
        [field] = self.values.fields
        self.values.store_columns([encode(field, values)])
        column = encode(field, emitted)
        self.output.emit_columns(batch.rows, [batch.raw[0], column], batch.timestamps)
