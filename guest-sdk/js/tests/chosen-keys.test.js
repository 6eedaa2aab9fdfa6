// States and timers under keys of the operator's choice, in methods without a record.

import assert from "node:assert/strict";
import { test } from "node:test";
import Conformance from "../../../operators/js/conformance.js";
import { TestHost } from "../testing.js";

const later = (key, text, more = {}) => {
  return { key, command: "later", map_key: null, number: null, text, ...more };
};

/** What commands that a barrier carries out come to: key, map key, number, text. */
function atBarrier(host, commands) {
  host.process(commands, { input: "commands" });
  const rows = host.barrier().map(({ row }) => row).filter(({ command }) => command !== "on-barrier");
  return rows.map(({ key, map_key, number, text }) => [key, map_key, number, text]);
}

test("values, lists, maps and sums are written, read and removed in one call for all keys", () => {
  const host = new TestHost(Conformance);
  const numbers = ["value.put", "list.append", "map.put", "reducing.add"].flatMap((name) => [
    later("a", name, { number: 1n, map_key: 7n }),
    later("b", name, { number: 2n, map_key: 8n }),
    later("a", name, { number: 3n, map_key: 5n }),
  ]);
  const reads = (key) => ["value.get", "list.get", "map.entries", "reducing.get"].map((name) => later(key, name));
  const found = atBarrier(host, [...numbers, ...reads("a"), ...reads("c"), later("b", "map.get", { map_key: 8n })]);
  assert.deepEqual(found, [
    ["a", null, 3n, "value.put"],
    ["a", null, 1n, null],
    ["a", null, 3n, null],
    ["b", 8n, 2n, null],
    ["a", 5n, 3n, null],
    ["a", 7n, 1n, null],
    ...[["sum", 4n], ["min", 1n], ["max", 3n], ["count", 2n], ["first", 1n], ["last", 3n]].map(([text, n]) => ["a", null, n, text]),
  ]);
  const removals = ["value.delete", "list.clear", "map.clear", "reducing.clear"].map((name) => later("a", name));
  const lists = ["a", "b"].flatMap((key) => [later(key, "list.get"), later(key, "map.entries")]);
  const left = atBarrier(host, [...removals, later("b", "map.delete", { map_key: 8n }), ...lists]);
  assert.deepEqual(left, [["b", null, 2n, null]]);
});

test("timers are set and deleted in one call for all keys", () => {
  const host = new TestHost(Conformance);
  const timers = [later("a", "event.set", { number: 5n }), later("b", "event.set", { number: 6n })];
  atBarrier(host, timers);
  atBarrier(host, [later("a", "event.delete", { number: 5n })]);
  const fired = host.advanceWatermark(10n).map(({ row }) => [row.key, row.command, row.number]);
  assert.deepEqual(fired, [["b", "event", 6n], ["", "on-watermark", 10n]]);
});

test("while rows are processed, keys of one's choice are refused", () => {
  class Wrong extends Conformance {
    onCommand() {
      this.event.setMany([{ key: "a" }], [1n]);
    }
  }
  assert.throws(() => new TestHost(Wrong).process([later("a", "x")], { input: "commands" }), /timers `event`: while rows/);
});
