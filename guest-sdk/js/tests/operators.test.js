// Every kind of state, timers, types, changelogs and errors, over the test host.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ConfigError, DELETE, Operator, UPDATE_AFTER, UPDATE_BEFORE, binary, boolean, date, decimal, decode, encode, float32,
  float64, int32, int64, listState, mapState, nullable, reducingState, safeInt64, safeTimestamp, timestamp, utf8,
  valueState,
} from "../howdah.js";
import { TestHost } from "../testing.js";

const word = { key: utf8, number: safeInt64, verb: utf8 };
const number = { number: safeInt64 };
const place = { place: safeInt64 };
const total = { total: nullable(int64), least: nullable(int64), count: safeInt64 };

class Kinds extends Operator {
  static key = { key: utf8 };
  static inputs = { words: { row: word, each: "onWord" } };
  static outputs = { answers: { row: { answer: utf8 } }, changes: { row: number, changelog: true } };
  static states = {
    value: valueState(number, { ttlMs: 1000, ttlOnRead: true, schemaVersion: 3 }),
    list: listState(number),
    map: mapState(place, { verb: utf8 }),
    counts: mapState(place, number, { prefetch: ({ number }) => ({ place: number }) }),
    totals: reducingState(total, { total: "sum", least: "min", count: "count" }),
  };
  static timers = { ends: { fired: "onEnd" }, alarms: { fired: "onAlarm", processingTime: true } };

  configure() {
    if (this.config.unknown) throw new ConfigError("`unknown` is no setting");
  }

  onWord(word) {
    this[word.verb](word);
  }

  answer(answer) {
    this.answers.emit({ answer: String(answer) });
  }

  put({ number }) { this.value.put({ number }); }
  get() { this.answer(this.value.get()?.number); }
  delete() { this.value.delete(); }
  append({ number }) { this.list.append({ number }); }
  all() { this.answer(this.list.get().map(({ number }) => number)); }
  clear() { for (const state of [this.list, this.map, this.totals]) state.clear(); }
  enter({ number, verb }) { this.map.put({ place: number }, { verb }); }
  remove({ number }) { this.map.delete({ place: number }); }
  entry({ number }) { this.answer(this.map.get({ place: number })?.verb); }
  entries() { this.answer(this.map.items().map(([{ place }]) => place)); }
  from({ number }) { this.answer(this.map.items({ from: { place: number }, limitRows: 2 }).map(([{ place }]) => place)); }
  count({ number }) { this.counts.put({ place: number }, { number: (this.counts.get({ place: number })?.number ?? 0) + 1 }); }
  add({ number }) { this.totals.add({ total: BigInt(number), least: BigInt(number), count: 0 }); }
  nothing() { this.totals.add({ total: null, least: null, count: 0 }); }
  total() { this.answer(Object.values(this.totals.get() ?? {})); }
  timer({ number }) { this.ends.set(number); }
  untimer({ number }) { this.ends.delete(number); }
  alarm({ number }) { this.alarms.set(this.now() + number); }
  change({ number }) { this.changes.emitUpdate({ number: 0 }, { number }); this.changes.emitDelete({ number }); }
  tell({ number }) { this.log.info(`number ${number}`); this.metrics.counterAdd("words_total", 1); }
  fail({ number }) { throw new RangeError(`cannot take ${number}`); }
  onEnd(time) { this.answer(`end ${time} ${this.value.get()?.number}`); }
  onAlarm(time) { this.answer(`alarm ${time} ${this.record.key.key}`); }
  onWatermark(watermark) { this.answer(`watermark ${watermark}`); }
  onBarrier() { this.answer(JSON.stringify(this.value.getMany([{ key: "a" }, { key: "nobody" }]))); }
}

const wordOf = (line) => ({ key: "a", number: Number(line.split(" ")[1] ?? 0), verb: line.split(" ")[0] });
const answers = (events) => events.map(({ row }) => row.answer);

/** Runs lines like "put 1", all in one batch and each in one. */
function check(script, expected) {
  const words = script.split("; ").map(wordOf);
  assert.deepEqual(answers(new TestHost(Kinds).process(words)), expected);
  const host = new TestHost(Kinds);
  assert.deepEqual(words.flatMap((word) => answers(host.process([word]))), expected);
}

test("a value is what was written last", () => {
  check("get; put 1; get; put 2; get; delete; get", ["undefined", "1", "2", "undefined"]);
});

test("a list keeps the order", () => {
  check("append 2; all; append 1; all; clear; append 3; all", ["2", "2,1", "3"]);
});

test("a map has entries in order", () => {
  check("enter 5; enter 3; enter 9; entries; from 4; remove 5; entry 5; from 1; entries; clear; entry 3; enter 1; entries",
    ["3,5,9", "5,9", "undefined", "3,9", "3,9", "undefined", "1"]);
});

test("a reduced row is folded and visible at once", () => {
  check("total; add 5; total; add -7; nothing; total; clear; total; nothing; total",
    ["", "5,5,1", "-2,-7,3", "", ",,1"]);
});

test("entries that rows will ask for come in one call", () => {
  const host = new TestHost(Kinds);
  host.process(["count 1", "count 2", "count 1"].map(wordOf));
  assert.deepEqual(host.calls, { "counts.get": 1, "counts.put": 1 });
  assert.deepEqual(host.state("counts", { key: "a" }), [[{ place: 1 }, { number: 2 }], [{ place: 2 }, { number: 1 }]]);
});

test("timers fire once, in order, before the watermark", () => {
  const host = new TestHost(Kinds);
  host.process(["timer 20", "timer 10", "timer 20", "timer 15", "untimer 15", "put 1"].map(wordOf));
  assert.deepEqual(answers(host.advanceWatermark(30)), ["end 10 1", "end 20 1", "watermark 30"]);
});

test("the clock fires timers of its own", () => {
  const host = new TestHost(Kinds);
  host.advanceClock(1000);
  host.process([wordOf("alarm 50")]);
  assert.deepEqual(answers(host.advanceClock(1049)), []);
  assert.deepEqual(answers(host.advanceClock(1060)), ["alarm 1050 a"]);
});

test("values of any keys can be read outside of rows", () => {
  const host = new TestHost(Kinds);
  host.process([wordOf("put 7")]);
  assert.deepEqual(answers(host.barrier()), ['[{"number":7},null]']);
});

test("changes go to the output that takes them", () => {
  const events = new TestHost(Kinds).process([wordOf("change 3")], { timestamps: [5] });
  const made = events.map(({ kind, row, timestamp }) => [kind, row.number, timestamp]);
  assert.deepEqual(made, [[UPDATE_BEFORE, 0, 5n], [UPDATE_AFTER, 3, 5n], [DELETE, 3, 5n]]);
});

test("logs and metrics reach the host", () => {
  const host = new TestHost(Kinds);
  host.process(["tell 1", "tell 2"].map(wordOf));
  assert.deepEqual(host.logs, [["info", "number 1"], ["info", "number 2"]]);
  assert.deepEqual(host.metrics, { words_total: 2 });
});

test("an exception arrives with its message and stack, and the batch is forgotten", () => {
  const host = new TestHost(Kinds);
  assert.throws(() => host.process(["put 1", "fail 3"].map(wordOf)), /^HowdahError: RangeError: cannot take 3 .*fail.*onWord/);
  assert.deepEqual(answers(host.process([wordOf("get")])), ["undefined"]);
});

test("a configuration is refused before the operator runs", () => {
  assert.throws(() => new TestHost(Kinds, { unknown: true }), (error) => error.kind === "invalid-config");
});

test("every type survives the buffers, with nulls and extremes", () => {
  const columns = {
    flag: [boolean, [true, false]],
    small: [int32, [-(2 ** 31), 2 ** 31 - 1]],
    large: [int64, [-(2n ** 63n), 2n ** 63n - 1n]],
    safe: [safeInt64, [-(2 ** 53) + 1, 2 ** 53 - 1, -1, 2 ** 32]],
    single: [float32, [1.5, Infinity]],
    double: [float64, [-0, 5e-324, NaN]],
    money: [decimal(38, 2), [-(10n ** 38n) + 1n, 10n ** 38n - 1n]],
    day: [date, [-(2 ** 31)]],
    at: [timestamp, [-(2n ** 63n)]],
    text: [utf8, ["", "naïve \0 𝄞", "plain"]],
    data: [binary, [new Uint8Array(0), Uint8Array.of(0, 255)]],
  };
  for (const [name, [type, values]] of Object.entries(columns)) {
    for (const given of [values, [], [null, ...values, null], Array(9).fill(null)]) {
      const field = { name, type: nullable(type) };
      const again = [...decode(field, encode(field, given), given.length)];
      assert.deepEqual(again, given, name);
    }
  }
});

test("a value that does not fit names the column", () => {
  for (const [type, value] of [
    [int32, 2 ** 31], [int64, 1], [safeInt64, 2 ** 53], [decimal(3, 1), 1000n], [utf8, 1], [boolean, null],
  ]) {
    assert.throws(() => encode({ name: "wrong", type }, [value]), /column `wrong`/);
  }
});

test("a value of another type is refused in every column", () => {
  const values = [true, 7, 1.5, 7n, "7", "\ud800", new Uint8Array(1), new Int32Array(1), {}, [7], new Date(0)];
  const taken = [
    [boolean, [true]], [int32, [7]], [int64, [7n]], [safeInt64, [7]], [float32, [7, 1.5]], [float64, [7, 1.5]],
    [decimal(9, 2), [7n]], [date, [7]], [timestamp, [7n]], [safeTimestamp, [7]], [utf8, ["7"]],
    [binary, [values[6]]],
  ];
  for (const [type, good] of taken) {
    for (const value of values) {
      const field = { name: "wrong", type };
      if (good.includes(value)) encode(field, [value]);
      else assert.throws(() => encode(field, [good[0], value]), /column `wrong` is /, `${type.name}: ${String(value)}`);
    }
  }
});

test("a mark at the beginning of a text is part of it", () => {
  const field = { name: "text", type: utf8 };
  assert.deepEqual(decode(field, encode(field, ["\ufeffa", "\ufeff"]), 2), ["\ufeffa", "\ufeff"]);
});

/** An operator with one input of `{ key }`, and what else is declared. */
function declared(declarations) {
  class Declared extends Operator {
    static key = { key: safeInt64 };
    static inputs = { words: { row: { key: safeInt64 }, each: "onWord" } };
    onWord() {}
    onEnd() {}
  }
  return Object.assign(Declared, declarations);
}

test("a mistyped option or handler is refused before anything runs", () => {
  const row = { key: safeInt64 };
  for (const [declarations, message] of [
    [() => ({ states: { seen: listState(row, { ttl: 1 }) } }), /list state has no `ttl`; it has schemaVersion, ttlMs/],
    [() => ({ states: { seen: valueState(row, { limitRows: 1 }) } }), /value state has no `limitRows`/],
    [() => ({ outputs: { found: { rows: row } } }), /output `found` has no `rows`; it has row, changelog/],
    [() => ({ timers: { ends: { fired: "onEndd" } } }), /timers `ends`: Declared has no method `onEndd`/],
    [() => ({ timers: { ends: { fire: "onEnd" } } }), /timers `ends` has no `fire`; it has fired/],
  ]) {
    assert.throws(() => new TestHost(declared(declarations())), message);
  }
});

test("a state that takes the place of something else is refused", () => {
  const row = { key: safeInt64 };
  for (const [name, declarations] of [
    ["record", { states: { record: valueState({ total: int64 }) } }],
    ["onWord", { states: { onWord: valueState({ total: int64 }) } }],
    ["same", { states: { same: valueState({ total: int64 }) }, outputs: { same: { row } } }],
  ]) {
    assert.throws(() => new TestHost(declared(declarations)), new RegExp(`\`${name}\` of Declared .* rename it`));
  }
});

test("a row that does not fit names its state or output, the value and the field that is none", () => {
  class Wrong extends Operator {
    static key = { key: safeInt64 };
    static inputs = { words: { row: { key: safeInt64, word: utf8 }, each: "onWord" } };
    static outputs = { found: { row: { at: safeInt64, word: utf8 } } };
    static states = { best: valueState({ price: int64 }) };
    onWord({ word }) {
      if (word === "put") this.best.put({ prise: 1n });
      if (word === "number") this.best.put({ price: 1 });
      if (word === "emit") this.found.emit({ at: 2000n, word });
    }
  }
  for (const [word, message] of [
    ["put", /state `best`: column `price`: null.*; a row has `prise`, which is no field: they are price/],
    ["number", /state `best`: column `price` is int64: 1 is no int64; it takes a BigInt/],
    ["emit", /output `found`: column `at` is int64: 2000n is no safe integer; it takes a number: `Number\(value\)`/],
  ]) {
    assert.throws(() => new TestHost(Wrong).process([{ key: 1, word }]), message);
  }
});

test("a value that does not fit is shown with its row, and with the method that wrote it", () => {
  class Wrong extends Operator {
    static key = { key: safeInt64 };
    static inputs = { words: { row: { key: safeInt64, word: utf8 }, each: "onWord" } };
    static outputs = { found: { row: { at: safeInt64 } } };
    onWord({ key, word }) {
      this.found.emit({ at: word === "b" ? 2.5 : key });
    }
  }
  const rows = [{ key: 1, word: "a" }, { key: 2, word: "b" }];
  assert.throws(() => new TestHost(Wrong).process(rows), /2\.5 is no safe integer, in \{"at":2\.5\}; from Wrong\.onWord/);
});

test("a field of a state called like a key field is refused", () => {
  const key = { key: safeInt64 };
  const input = { input: { row: key, each: "onRow" } };
  for (const [state, what] of [
    [valueState({ Key: int64 }), "its field `Key` is called like a key field"],
    [mapState(key, number), "its map key field `key` is called like a key field"],
    [mapState(number, number), "its field `number` is called like a map key field"],
  ]) {
    class Clash extends Operator {
      static key = key;
      static inputs = input;
      static states = { kept: state };
      onRow() {}
    }
    assert.throws(() => new TestHost(Clash), new RegExp(`state \`kept\`: ${what}: rename it`));
  }
});
