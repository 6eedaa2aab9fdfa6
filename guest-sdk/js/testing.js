// Runs an operator in an ordinary JavaScript engine, over states in memory.
//
//     const host = new TestHost(HighestBid);
//     host.process([{ auction: 1, price: 10 }]);   // what it emits: [{ output, row, kind, timestamp }]
//     host.barrier();                              // a crash goes back to here
//     host.crash();
//
// It speaks with the operator in the buffers of the contract, as the real host does.

import { HowdahError, component, encode, fold, valueState, view } from "./howdah.js";

const END_OF_TIME = 2n ** 63n - 1n;
const NO_TIME = -(2n ** 63n);

/** The row types of an operator, as the SDK makes them ready. */
const shapeOf = (row) => valueState(row).shape;
const bytesOf = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
const indices = (values) => bytesOf(Uint32Array.from(values));
const copy = (value) => (typeof structuredClone === "function" ? structuredClone(value) : value);

export class TestHost {
  /** @param operator The class. @param config The operator's table of the pipeline file. */
  constructor(operator, config = {}) {
    this.operator = operator;
    this.config = JSON.stringify(config);
    this.key = shapeOf(operator.key);
    this.watermark = NO_TIME;
    /** What the operator's clock shows. */
    this.now = 0;
    this.logs = [];
    this.metrics = {};
    /** How often the operator called a function of a state, as in `calls["last.get"]`. */
    this.calls = {};
    this.tables = Object.fromEntries(Object.keys(operator.states).map((name) => [name, new Map()]));
    this.timers = Object.fromEntries(Object.keys(operator.timers).map((name) => [name, new Map()]));
    this.keys = null;
    this.checkpoint = 0;
    this.spec = this.call("operator", "describe", this.config);
    this.start(null);
    this.saved = this.snapshot();
  }

  // What a test does.

  /** Hands over rows as one batch, and gives what is emitted. */
  process(rows, { input, timestamps, kinds } = {}) {
    if (!rows.length) return [];
    const names = Object.keys(this.operator.inputs);
    const port = input === undefined ? 0 : names.indexOf(input);
    const { row, key } = this.operator.inputs[names[port]];
    const keyNames = this.key.fields.map(({ name }) => name);
    const of = key ?? keyNames;
    const distinct = new Map();
    const rowKeys = rows.map((row) => {
      const made = Object.fromEntries(keyNames.map((name, i) => [name, row[of[i]]]));
      const id = this.key.id(made);
      if (!distinct.has(id)) distinct.set(id, { index: distinct.size, made });
      return distinct.get(id).index;
    });
    this.keys = [...distinct.values()].map(({ made }) => made);
    const times = BigInt64Array.from(rows, (_, i) => BigInt(timestamps?.[i] ?? 0));
    const batch = {
      rows: rows.length,
      columns: shapeOf(row).encode(rows),
      rowKinds: kinds ? Uint8Array.from(kinds) : null,
    };
    const keys = { rows: this.keys.length, columns: this.key.encode(this.keys) };
    const watermark = Number(this.watermark);
    const given = { port, batch, timestamps: bytesOf(times), watermark, keys, rowKeys: indices(rowKeys) };
    return this.events(this.call("operator", "process", given));
  }

  /** Raises the watermark: fires the timers that are due, then calls `onWatermark`. */
  advanceWatermark(watermark) {
    if (BigInt(watermark) <= this.watermark) return [];
    this.watermark = BigInt(watermark);
    const events = this.fire(false, this.watermark);
    return [...events, ...this.events(this.call("watermarkHandler", "onWatermark", Number(this.watermark)))];
  }

  /** Sets the clock, and fires the timers of processing time that are due. */
  advanceClock(now) {
    this.now = now;
    return this.fire(true, BigInt(now));
  }

  /** Takes a checkpoint, which a crash goes back to. */
  barrier() {
    this.checkpoint += 1;
    const events = this.events(this.call("operator", "onBarrier", this.checkpoint));
    this.saved = this.snapshot();
    return events;
  }

  /** Drops the operator; a new one goes on from the last barrier. */
  crash() {
    const { tables, timers, watermark, checkpoint } = copy(this.saved);
    Object.assign(this, { tables, timers, watermark });
    this.start(checkpoint || null);
  }

  /** Ends the input: fires what is left, then calls `close`. */
  close() {
    return [...this.advanceWatermark(END_OF_TIME), ...this.events(this.call("operator", "close"))];
  }

  /** The row of a key in a state; of a list state the list, of a map state `[mapKey, row]` pairs. */
  state(name, key) {
    return this.tables[name].get(this.key.id(key))?.value ?? null;
  }

  // How it does that.

  start(restoredFrom) {
    this.exports = null;
    const context = { pipeline: "test", operator: this.operator.name, subtask: 0, parallelism: 1 };
    this.call("operator", "open", { ...context, config: this.config, restoredFrom });
  }

  snapshot() {
    const { tables, timers, watermark, checkpoint } = this;
    return copy({ tables, timers, watermark, checkpoint });
  }

  call(exported, name, ...given) {
    this.exports ??= component(this.operator, this.imports());
    try {
      return this.exports[exported][name](...given);
    } catch (error) {
      throw error instanceof Error ? error : new HowdahError(error.message, error.kind);
    } finally {
      this.keys = null;
    }
  }

  fire(processingTime, until) {
    const events = [];
    Object.entries(this.operator.timers).forEach(([name, declared], timer) => {
      if ((declared.processingTime ?? false) !== processingTime) return;
      for (;;) {
        const set = [...this.timers[name]].filter(([, { time }]) => time <= until);
        if (!set.length) return;
        // The first timer of each key.
        set.sort(([, a], [, b]) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
        const due = new Map();
        for (const [id, made] of set) {
          const key = this.key.id(made.key);
          if (!due.has(key)) due.set(key, { id, ...made });
        }
        for (const { id } of due.values()) this.timers[name].delete(id);
        this.keys = [...due.values()].map(({ key }) => key);
        const keys = { rows: this.keys.length, columns: this.key.encode(this.keys) };
        const times = bytesOf(BigInt64Array.from(due.values(), ({ time }) => time));
        const given = { timer, keys, times, watermark: Number(this.watermark) };
        events.push(...this.events(this.call("timerHandler", "onTimers", given)));
      }
    });
    return events;
  }

  events(outputs) {
    const declared = Object.entries(this.operator.outputs);
    return outputs.flatMap(({ port, batch, timestamps }) => {
      const [output, { row }] = declared[port];
      const times = view(BigInt64Array, timestamps);
      return shapeOf(row)
        .decode(batch.columns, batch.rows)
        .map((row, i) => ({ output, row, kind: batch.rowKinds?.[i] ?? 0, timestamp: times[i] }));
    });
  }

  resolve(keys) {
    if (keys.tag === "explicit") return this.key.decode(keys.val.columns, keys.val.rows);
    if (!this.keys) throw new HowdahError("this call has no keys", "invalid-argument");
    return keys.tag === "current" ? this.keys : [...view(Uint32Array, keys.val)].map((i) => this.keys[i]);
  }

  imports() {
    const host = this;
    const resource = (of) => ({ open: (name) => of(name) });
    return {
      state: {
        ValueState: resource((name) => new Table(host, name)),
        ListState: resource((name) => new ListTable(host, name)),
        MapState: resource((name) => new MapTable(host, name)),
        ReducingState: resource((name) => new Table(host, name)),
      },
      timers: { TimerService: resource((name) => new TimerTable(host, name)) },
      clock: { now: () => host.now },
      logging: { enabled: () => true, log: (level, message) => host.logs.push([level, message]) },
      metrics: {
        counterAdd: (name, amount) => (host.metrics[name] = (host.metrics[name] ?? 0) + amount),
        gaugeSet: (name, value) => (host.metrics[name] = value),
        histogramRecord: (name, value) => (host.metrics[name] ??= []).push(value),
      },
    };
  }
}

/** A value or reducing state in memory: key id -> `{ key, value }`. */
class Table {
  constructor(host, name) {
    Object.assign(this, { host, name, declared: host.operator.states[name] });
    this.shape = this.declared.shape;
  }

  table(call) {
    const counted = `${this.name}.${call}`;
    this.host.calls[counted] = (this.host.calls[counted] ?? 0) + 1;
    return this.host.tables[this.name];
  }

  ids(keys) {
    return this.host.resolve(keys).map((key) => ({ key, id: this.host.key.id(key) }));
  }

  rows(found) {
    const fields = this.shape.fields.map(({ name, type }) => ({ name, type: { ...type, nullable: true } }));
    const columns = fields.map((field) => encode(field, found.map((row) => row?.[field.name] ?? null)));
    const present = new Uint8Array((found.length + 7) >> 3);
    found.forEach((row, i) => row && (present[i >> 3] |= 1 << (i & 7)));
    return { present, columns };
  }

  get(keys) {
    const table = this.table("get");
    return this.rows(this.ids(keys).map(({ id }) => table.get(id)?.value ?? null));
  }

  put(keys, columns) {
    const table = this.table("put");
    const ids = this.ids(keys);
    this.shape.decode(columns, ids.length).forEach((value, i) => table.set(ids[i].id, { key: ids[i].key, value }));
  }

  add(keys, columns) {
    const table = this.table("add");
    const ids = this.ids(keys);
    this.shape.decode(columns, ids.length).forEach((row, i) => {
      const { key, id } = ids[i];
      const before = table.get(id)?.value ?? null;
      table.set(id, { key, value: fold(this.shape, this.declared.reducers, before, row) });
    });
  }

  delete(keys) {
    const table = this.table("delete");
    for (const { id } of this.ids(keys)) table.delete(id);
  }

  clear(keys) {
    this.delete(keys);
  }
}

class ListTable extends Table {
  append(keys, keyOf, columns) {
    const table = this.table("append");
    const ids = this.ids(keys);
    const of = view(Uint32Array, keyOf);
    this.shape.decode(columns, of.length).forEach((row, i) => {
      const { key, id } = ids[of[i]];
      if (!table.has(id)) table.set(id, { key, value: [] });
      table.get(id).value.push(row);
    });
  }

  get(keys, limitRows) {
    const table = this.table("get");
    const lists = this.ids(keys).map(({ id }) => (table.get(id)?.value ?? []).slice(0, limitRows));
    const keyOf = indices(lists.flatMap((rows, i) => rows.map(() => i)));
    const rows = lists.flat();
    return { rows: rows.length, keyOf, columns: this.shape.encode(rows), truncated: null };
  }
}

class MapTable extends Table {
  named(keys, keyOf, mapKeys) {
    const ids = this.ids(keys);
    const of = view(Uint32Array, keyOf);
    const decoded = this.declared.mapKey.decode(mapKeys, of.length);
    return decoded.map((mapKey, i) => ({ ...ids[of[i]], mapKey, mapKeyId: this.declared.mapKey.id(mapKey) }));
  }

  /** The entries of a key without one of them. */
  others(table, { id, mapKeyId }) {
    return (table.get(id)?.value ?? []).filter(([mapKey]) => this.declared.mapKey.id(mapKey) !== mapKeyId);
  }

  get(keys, keyOf, mapKeys) {
    const table = this.table("get");
    const found = this.named(keys, keyOf, mapKeys).map(({ id, mapKeyId }) => {
      const entries = table.get(id)?.value ?? [];
      return entries.find(([mapKey]) => this.declared.mapKey.id(mapKey) === mapKeyId)?.[1] ?? null;
    });
    return this.rows(found);
  }

  put(keys, keyOf, mapKeys, columns) {
    const table = this.table("put");
    const named = this.named(keys, keyOf, mapKeys);
    this.shape.decode(columns, named.length).forEach((row, i) => {
      const entries = [...this.others(table, named[i]), [named[i].mapKey, row]];
      entries.sort(([a], [b]) => this.declared.mapKey.compare(a, b));
      table.set(named[i].id, { key: named[i].key, value: entries });
    });
  }

  delete(keys, keyOf, mapKeys) {
    const table = this.table("delete");
    for (const named of this.named(keys, keyOf, mapKeys)) {
      table.set(named.id, { key: named.key, value: this.others(table, named) });
    }
  }

  entries(keys, { from, to }, limitRows) {
    const table = this.table("entries");
    const { mapKey } = this.declared;
    const bound = (columns) => columns && mapKey.decode(columns, 1)[0];
    const [first, end] = [bound(from), bound(to)];
    const lists = this.ids(keys).map(({ id }) =>
      (table.get(id)?.value ?? [])
        .filter(([key]) => (!first || mapKey.compare(key, first) >= 0) && (!end || mapKey.compare(key, end) < 0))
        .slice(0, limitRows),
    );
    const all = lists.flat();
    return {
      rows: all.length,
      keyOf: indices(lists.flatMap((entries, i) => entries.map(() => i))),
      mapKeys: mapKey.encode(all.map(([key]) => key)),
      columns: this.shape.encode(all.map(([, row]) => row)),
      truncated: null,
    };
  }

  clear(keys) {
    const table = this.table("clear");
    for (const { id } of this.ids(keys)) table.delete(id);
  }
}

class TimerTable {
  constructor(host, name) {
    Object.assign(this, { host, name });
  }

  each(keys, times, change) {
    const all = view(BigInt64Array, times);
    this.host.resolve(keys).forEach((key, i) => {
      change(this.host.timers[this.name], `${this.host.key.id(key)} ${all[i]}`, { key, time: all[i] });
    });
  }

  set(keys, times) {
    this.each(keys, times, (timers, id, made) => timers.set(id, made));
  }

  delete(keys, times) {
    this.each(keys, times, (timers, id) => timers.delete(id));
  }
}

