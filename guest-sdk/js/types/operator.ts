// An operator in TypeScript, with all that the SDK has: it compiles, and what is wrong does not.

import {
  ConfigError, Operator, UPDATE_AFTER, binary, boolean, date, decimal, decode, encode, float32, float64, int32, int64,
  listState, mapState, nullable, reducingState, safeInt64, safeTimestamp, timestamp, utf8, valueState, view,
} from "../howdah.js";
import type { Batch, ListState, MapState, Output, ReducingState, Row, Timers, ValueState } from "../howdah.js";
import { TestHost } from "../testing.js";

const word = { key: utf8, number: safeInt64, seen: nullable(safeTimestamp) };
const every = { boolean, int32, int64, float32, float64, decimal: decimal(38, 10), date, timestamp, utf8, binary };
const number = { number: safeInt64 };
const place = { place: safeInt64 };
const total = { total: nullable(int64), counted: safeInt64 };

type Word = Row<typeof word>;
type Number = Row<typeof number>;

const row: Row<typeof every> = {
  boolean: true,
  int32: 1,
  int64: 1n,
  float32: 0.5,
  float64: 0.5,
  decimal: 125n,
  date: 20_000,
  timestamp: 0n,
  utf8: "",
  binary: new Uint8Array(),
};
// @ts-expect-error: an int64 is a bigint.
row.int64 = 1;

class Words extends Operator {
  static key = { key: utf8 };
  static inputs = { words: { row: word, each: "onWord" }, columns: { row: word, batch: "onBatch", key: ["key"] } };
  static outputs = { answers: { row: number }, changes: { row: number, changelog: true } };
  static states = {
    value: valueState(number, { ttlMs: 1000, ttlOnRead: true, schemaVersion: 3 }),
    list: listState(number, { limitRows: 10 }),
    map: mapState(place, number, { prefetch: (word: Word) => ({ place: word.number }) }),
    totals: reducingState(total, { total: "sum", counted: "count" }),
  };
  static timers = { ends: { fired: "onEnd" }, alarms: { fired: "onEnd", processingTime: true } };

  declare value: ValueState<Number>;
  declare list: ListState<Number>;
  declare map: MapState<Row<typeof place>, Number>;
  declare totals: ReducingState<Row<typeof total>>;
  declare answers: Output<Number>;
  declare changes: Output<Number>;
  declare ends: Timers;

  override configure(): void {
    if (this.config.unknown) throw new ConfigError("`unknown` is no setting");
  }

  onWord(word: Word): void {
    const before: Number | null = this.value.get();
    // @ts-expect-error: there may be no row.
    this.value.put({ number: before.number });
    // @ts-expect-error: a number is no text.
    this.value.put({ number: word.key });
    this.list.append({ number: this.list.get().length });
    for (const [at, { number }] of this.map.items({ from: { place: 1 }, limitRows: 2 })) {
      this.map.put(at, { number: number + (this.map.get(at)?.number ?? 0) });
    }
    this.totals.add({ total: word.seen === null ? null : BigInt(word.seen), counted: 1 });
    this.answers.emit({ number: word.number }, { timestamp: this.record.timestamp });
    this.changes.emit({ number: 1 }, { kind: UPDATE_AFTER });
    // @ts-expect-error: there are four kinds.
    this.changes.emit({ number: 1 }, { kind: 4 });
    this.changes.emitUpdate({ number: 1 }, { number: 2 });
    this.ends.set(this.now() + 1000);
    this.log.info(`${this.subtask.parallelism} subtasks`);
    this.metrics.counterAdd("words", 1);
  }

  onBatch(batch: Batch): void {
    const field = { name: "number", type: int64 };
    const numbers = decode(field, batch.columns[1], batch.rows);
    const sum: bigint = Array.from(numbers).reduce((sum, number) => sum + number, 0n);
    const times = view(BigInt64Array, batch.timestamps);
    this.answers.emitColumns(1, [encode(field, [sum])], new Uint8Array(times.buffer, times.byteOffset, 8));
  }

  onEnd(time: bigint): void {
    this.ends.delete(time);
  }

  override onWatermark(watermark: bigint): void {
    this.value.putMany([{ key: "a" }], [{ number: Number(watermark) }]);
  }
}

// @ts-expect-error: every field has a reducer.
reducingState(total, { total: "sum" });
// @ts-expect-error: there is no such reducer.
reducingState(number, { number: "average" });

const host = new TestHost(Words, { unknown: false });
const [event] = host.process([{ key: "a", number: 1, seen: null }], { timestamps: [1n], input: "words" });
const at: bigint = event.timestamp;
host.advanceWatermark(at);
