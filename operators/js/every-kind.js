// Every kind of state and a timer: what the tests of all languages run.
//
// Each row has a key, a verb and a number; what is asked for is emitted as a number.

import {
  Operator, listState, mapState, reducingState, safeInt64, safeTimestamp, utf8, valueState,
} from "../../guest-sdk/js/howdah.js";

const number = { number: safeInt64 };
const total = { total: safeInt64, least: safeInt64, count: safeInt64 };
const digits = (numbers) => numbers.reduce((folded, number) => (folded * 10 + number) % 1_000_000_007, 0);

export default class EveryKind extends Operator {
  static key = { key: utf8 };
  static inputs = { words: { row: { key: utf8, verb: utf8, number: safeInt64, at: safeTimestamp }, each: "onWord" } };
  static outputs = { answers: { row: { key: utf8, verb: utf8, answer: safeInt64 } } };
  static states = {
    value: valueState(number),
    list: listState(number),
    map: mapState({ place: safeInt64 }, number),
    totals: reducingState(total, { total: "sum", least: "min", count: "count" }),
  };
  static timers = { ends: { fired: "onEnd" } };

  onWord({ verb, number }) {
    // The state `list` is a field of that name.
    this[verb === "list" ? "all" : verb](number);
  }

  answer(verb, answer) {
    this.answers.emit({ key: this.record.key.key, verb, answer });
  }

  put(number) {
    this.value.put({ number });
  }

  get() {
    this.answer("get", this.value.get()?.number ?? -1);
  }

  delete() {
    this.value.delete();
  }

  append(number) {
    this.list.append({ number });
  }

  all() {
    this.answer("list", digits(this.list.get().map(({ number }) => number)));
  }

  enter(place) {
    this.map.put({ place }, { number: 2 * place });
  }

  remove(place) {
    this.map.delete({ place });
  }

  entry(place) {
    this.answer("entry", this.map.get({ place })?.number ?? -1);
  }

  entries(place) {
    this.answer("entries", digits(this.map.items({ from: { place }, limitRows: 3 }).map(([{ place }]) => place)));
  }

  add(number) {
    this.totals.add({ total: number, least: number, count: 0 });
  }

  total() {
    const row = this.totals.get();
    this.answer("total", row ? row.total * 10_000 + row.least * 1_000 + row.count : -1);
  }

  clear() {
    this.list.clear();
    this.map.clear();
    this.totals.clear();
  }

  timer() {
    this.ends.set(this.record.timestamp + 5_000n);
  }

  fail(number) {
    throw new RangeError(`cannot take ${number}`);
  }

  onEnd(time) {
    this.answer("timer", Number(time));
  }
}
