// Counts in the value of each key: what `cargo xtask bench boundary` measures.
//
// The first eight bytes of a value are a counter. A key without a value gets that of its row;
// otherwise each row adds one to the counter. Emits each row with its key's value after it.
// Works on columns, as hot operators do.

import { Operator, binary, encode, safeInt64, valueState, view } from "../../guest-sdk/js/howdah.js";

const value = { value: binary };
const field = { name: "value", type: binary };

export default class Echo extends Operator {
  static key = { key: safeInt64 };
  static inputs = { input: { row: { key: safeInt64, ...value }, batch: "onBatch" } };
  static outputs = { output: { row: { key: safeInt64, ...value } } };
  static states = { values: valueState(value) };

  onBatch({ rows, columns, timestamps, rowKeys, keys }) {
    const { present, columns: [stored] } = this.values.loadColumns();
    if (present || rows !== keys.rows) {
      this.oneByOne(rows, columns, timestamps, rowKeys, keys.rows, present, stored);
      return;
    }
    const starts = view(Uint32Array, stored.offsets);
    const counters = view(BigInt64Array, stored.data);
    // Values of eight bytes and multiples begin at a counter.
    for (let key = 0; key < rows; key++) counters[starts[key] >> 3] += 1n;
    const data = new Uint8Array(counters.buffer, counters.byteOffset, counters.byteLength);
    const column = { ...stored, data };
    this.values.storeColumns([column]);
    this.output.emitColumns(rows, [columns[0], column], timestamps);
  }

  /** The same for batches with new keys, or several rows of a key. */
  oneByOne(rows, columns, timestamps, rowKeys, keyCount, present, stored) {
    const ends = view(Uint32Array, stored.offsets);
    const given = view(Uint32Array, columns[1].offsets);
    const values = Array.from({ length: keyCount }, (_, key) => {
      const isPresent = !present || (present[key >> 3] >> (key & 7)) & 1;
      return isPresent ? stored.data.slice(ends[key], ends[key + 1]) : null;
    });
    const emitted = [];
    for (let row = 0; row < rows; row++) {
      const key = rowKeys[row];
      if (values[key]) {
        const words = new Uint32Array(values[key].buffer);
        words[0] += 1;
        if (words[0] === 0) words[1] += 1;
      } else values[key] = columns[1].data.slice(given[row], given[row + 1]);
      emitted.push(values[key].slice());
    }
    this.values.storeColumns([encode(field, values)]);
    this.output.emitColumns(rows, [columns[0], encode(field, emitted)], timestamps);
  }
}
