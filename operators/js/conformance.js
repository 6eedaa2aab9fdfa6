// Does what its rows say, with everything that the contract has, and answers with rows. There is one
// in the language of each SDK, and one test suite for all of them.
//
// A row of `commands` is one call: `list.append` with a number appends it. What it answers has the key,
// command, event time and kind of the row. What there is no row for has no answer. Commands given to
// `later` are held back until the next barrier, and carried out with explicit keys: all of one sort
// together, in the order of `LATER`. Rows of `values` are kept, and answered with the row before.

import {
  HowdahError, Operator, binary, boolean, date, decimal, float32, float64, int32, int64, listState,
  mapState, nullable, reducingState, timestamp, utf8, valueState,
} from "../../guest-sdk/js/howdah.js";

const number = { number: nullable(int64) };
const answer = { key: utf8, command: utf8, map_key: nullable(int64), ...number, text: nullable(utf8) };
const values = {
  boolean: nullable(boolean),
  int32: nullable(int32),
  int64: nullable(int64),
  float32: nullable(float32),
  float64: nullable(float64),
  decimal: nullable(decimal(38, 10)),
  date: nullable(date),
  timestamp: nullable(timestamp),
  utf8: nullable(utf8),
  binary: nullable(binary),
};
const NO_VALUES = Object.fromEntries(Object.keys(values).map((name) => [name, null]));
const folded = Object.fromEntries(["sum", "min", "max", "count", "first", "last"].map((name) => [name, nullable(int64)]));
const REDUCERS = Object.fromEntries(Object.keys(folded).map((name) => [name, name]));
const KINDS = ["+I", "-U", "+U", "-D"];
const LEVELS = ["trace", "debug", "info", "warn", "error"];

const fold = (number) => Object.fromEntries(Object.keys(folded).map((name) => [name, number]));
const place = ({ map_key }) => ({ map_key: map_key ?? 0n });

/** What answers an entry, list and so on, as rows with what differs from null. */
const answers = {
  value: (row) => (row ? [row] : []),
  list: (rows) => rows,
  entry: (at, row) => (row ? [{ map_key: at, ...row }] : []),
  entries: (entries) => entries.map(([{ map_key }, { number }]) => ({ map_key, number })),
  folded: (row) => (row ? Object.keys(folded).map((text) => ({ number: row[text], text })) : []),
};

/** What `later` takes, in the order in which a barrier carries it out: what is done to all rows of one
 * sort, and their keys. What it gives has the answers to each row. */
const LATER = {
  "value.delete": (of, rows, keys) => of.value.deleteMany(keys),
  "value.put": (of, rows, keys) => of.value.putMany(keys, rows.map(({ number, text }) => ({ number, text }))),
  "value.get": (of, rows, keys) => of.value.getMany(keys).map(answers.value),
  "list.clear": (of, rows, keys) => of.list.clearMany(keys),
  "list.append": (of, rows, keys) => of.list.appendMany(keys, rows.map(({ number }) => ({ number }))),
  "list.get": (of, rows, keys) => of.list.getMany(keys).map(answers.list),
  "map.clear": (of, rows, keys) => of.map.clearMany(keys),
  "map.put": (of, rows, keys) => of.map.putMany(keys, rows.map(place), rows.map(({ number }) => ({ number }))),
  "map.delete": (of, rows, keys) => of.map.deleteMany(keys, rows.map(place)),
  "map.get": (of, rows, keys) => {
    return of.map.getMany(keys, rows.map(place)).map((row, i) => answers.entry(rows[i].map_key, row));
  },
  "map.entries": (of, rows, keys) => of.map.itemsMany(keys).map(answers.entries),
  "reducing.clear": (of, rows, keys) => of.reducing.clearMany(keys),
  "reducing.add": (of, rows, keys) => of.reducing.addMany(keys, rows.map(({ number }) => fold(number))),
  "reducing.get": (of, rows, keys) => of.reducing.getMany(keys).map(answers.folded),
  "event.delete": (of, rows, keys) => of.event.deleteMany(keys, rows.map(({ number }) => number ?? 0n)),
  "event.set": (of, rows, keys) => of.event.setMany(keys, rows.map(({ number }) => number ?? 0n)),
  "processing.delete": (of, rows, keys) => of.processing.deleteMany(keys, rows.map(({ number }) => number ?? 0n)),
  "processing.set": (of, rows, keys) => of.processing.setMany(keys, rows.map(({ number }) => number ?? 0n)),
};

/** What a row does to its key. What it gives are the answers. */
const COMMANDS = {
  "value.put": (of, { number, text }) => of.value.put({ number, text }),
  "value.get": (of) => answers.value(of.value.get()),
  "value.delete": (of) => of.value.delete(),
  "list.append": (of, { number }) => of.list.append({ number }),
  "list.get": (of) => answers.list(of.list.get()),
  "list.clear": (of) => of.list.clear(),
  "map.put": (of, row) => of.map.put(place(row), { number: row.number }),
  "map.get": (of, row) => answers.entry(row.map_key, of.map.get(place(row))),
  "map.delete": (of, row) => of.map.delete(place(row)),
  "map.entries": (of) => answers.entries(of.map.items()),
  "map.range": (of, { map_key, number, text }) => {
    const range = { from: map_key === null ? null : { map_key }, to: number === null ? null : { map_key: number } };
    return answers.entries(of.map.items(text === null ? range : { ...range, limitRows: Number(text) }));
  },
  "map.clear": (of) => of.map.clear(),
  "reducing.add": (of, { number }) => of.reducing.add(fold(number)),
  "reducing.get": (of) => answers.folded(of.reducing.get()),
  "reducing.clear": (of) => of.reducing.clear(),
  "event.set": (of, { number }) => of.event.set(number ?? 0n),
  "event.delete": (of, { number }) => of.event.delete(number ?? 0n),
  "processing.set": (of, { number }) => of.processing.set(number ?? 0n),
  "processing.delete": (of, { number }) => of.processing.delete(number ?? 0n),
  now: (of) => [{ number: BigInt(of.now()) }],
  watermark: (of) => [{ number: of.record.watermark }],
  kind: (of) => [{ text: KINDS[of.record.kind] }],
  config: (of) => [{ text: of.config.greeting ?? null }],
  context: (of) => {
    const { pipeline, operator, subtask, parallelism, restoredFrom } = of.subtask;
    const number = restoredFrom === null || restoredFrom === undefined ? null : BigInt(restoredFrom);
    return [{ map_key: BigInt(subtask), number: BigInt(parallelism), text: pipeline }, { number, text: operator }];
  },
  emit: (of, row) => {
    of.results.emit({ ...row, key: of.record.key.key }, { kind: of.record.kind, timestamp: row.number ?? 0n });
  },
  later: (of, row) => {
    of.heldBack.push({ ...row, key: of.record.key.key, command: row.text });
  },
  log: (of, { number, text }) => of.log[LEVELS[Number(number ?? 2n)]](text),
  counter: (of, { number }) => of.metrics.counterAdd("commands_total", Number(number)),
  gauge: (of, { number }) => of.metrics.gaugeSet("level_bytes", Number(number)),
  histogram: (of, { number }) => of.metrics.histogramRecord("wait_ms", Number(number)),
  fail: (of, { text }) => {
    throw new HowdahError(text);
  },
  crash: (of, { text }) => {
    throw new RangeError(text);
  },
};

export default class Conformance extends Operator {
  static key = { key: utf8 };
  static inputs = {
    commands: { row: answer, changelog: true, each: "onCommand" },
    values: { row: { key: utf8, ...values }, each: "onValues" },
  };
  static outputs = { results: { row: answer, changelog: true }, echoes: { row: { key: utf8, ...values } } };
  static states = {
    value: valueState({ ...number, text: nullable(utf8) }),
    list: listState(number),
    map: mapState({ map_key: int64 }, number),
    reducing: reducingState(folded, REDUCERS),
    stored: valueState(values),
  };
  static timers = { event: { fired: "onEvent" }, processing: { fired: "onProcessing", processingTime: true } };

  heldBack = [];

  onCommand(row) {
    const { command } = row;
    const obey = COMMANDS[command];
    if (!obey) throw new HowdahError(`unknown command ${command}`);
    this.answer(this.record.key.key, command, obey(this, row), this.record.kind);
  }

  onValues({ key, ...row }) {
    this.echoes.emit({ key, ...(this.stored.get() ?? NO_VALUES) });
    this.stored.put(row);
  }

  onEvent(time) {
    this.announce(this.record.key.key, "event", time);
  }

  onProcessing(time) {
    this.announce(this.record.key.key, "processing", time);
  }

  onWatermark(watermark) {
    this.announce("", "on-watermark", watermark);
  }

  onBarrier(checkpoint) {
    this.carryOut();
    this.announce("", "on-barrier", BigInt(checkpoint));
  }

  onCheckpointComplete(checkpoint) {
    this.log.info(`checkpoint ${checkpoint} is complete`);
  }

  close() {
    this.carryOut();
    this.announce("", "close", 0n);
  }

  announce(key, command, number) {
    this.answer(key, command, [{ number }], 0);
  }

  answer(key, command, rows, kind) {
    for (const row of rows ?? []) {
      this.results.emit({ key, command, map_key: null, number: null, text: null, ...row }, { kind });
    }
  }

  /** Does what was held back. */
  carryOut() {
    for (const [command, obey] of Object.entries(LATER)) {
      const rows = this.heldBack.filter((row) => row.command === command);
      if (!rows.length) continue;
      const given = obey(this, rows, rows.map(({ key }) => ({ key })));
      given?.forEach((of, i) => this.answer(rows[i].key, command, of, 0));
    }
    this.heldBack = [];
  }
}
