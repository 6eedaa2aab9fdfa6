// The operator that benchmarks run: its two paths give the same.

import assert from "node:assert/strict";
import { test } from "node:test";
import Echo from "../../../operators/js/echo.js";
import { TestHost } from "../testing.js";

test("columns and rows count the same", () => {
  const value = (count) => Uint8Array.from({ length: 64 }, (_, i) => (i ? 7 : count));
  const rows = Array.from({ length: 5 }, (_, key) => ({ key, value: value(key) }));
  const counts = (events) => events.map(({ row }) => row.value[0]);
  const host = new TestHost(Echo);
  assert.deepEqual(counts(host.process(rows)), [0, 1, 2, 3, 4]);
  assert.deepEqual(counts(host.process(rows)), [1, 2, 3, 4, 5]);
  assert.deepEqual(counts(host.process([...rows.slice(0, 2), ...rows.slice(0, 2)])), [2, 3, 3, 4]);
  assert.deepEqual(host.state("values", { key: 4 }), { value: value(5) });
});
