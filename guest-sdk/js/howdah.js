// Write howdah operators in JavaScript or TypeScript: typed state, one record at a time.
//
// An operator is a class: static tables say which inputs, outputs, states and timers it has, and
// its methods take rows. This module has no imports, so it runs in a component as in a test.

/** Fails the running batch: what it wrote and emitted is dropped. Any exception does the same. */
export class HowdahError extends Error {
  constructor(message, kind = "other") {
    super(message);
    this.name = "HowdahError";
    this.kind = kind;
  }
}

/** The operator's table of the pipeline file is not usable. */
export class ConfigError extends HowdahError {
  constructor(message) {
    super(message, "invalid-config");
    this.name = "ConfigError";
  }
}

const bad = (message) => new HowdahError(message, "invalid-argument");

/** A row that an operator wrote or emitted does not fit. Rows become columns when its method has returned. */
class BadRow extends HowdahError {
  constructor(message) {
    super(message, "invalid-argument");
  }
}

// ---- Types ----

const type = (name, codec, more = {}) => Object.freeze({ name, codec, nullable: false, ...more });

export const boolean = type("boolean", "boolean");
export const int32 = type("int32", "fixed", { array: Int32Array });
/** A `bigint`. */
export const int64 = type("int64", "fixed", { array: BigInt64Array });
/** An int64 column as numbers; one that a number cannot hold exactly is an error. */
export const safeInt64 = type("int64", "safe");
export const float32 = type("float32", "fixed", { array: Float32Array, noKey: true });
export const float64 = type("float64", "fixed", { array: Float64Array, noKey: true });
/** Days since 1970-01-01. */
export const date = type("date", "fixed", { array: Int32Array });
/** Milliseconds since 1970-01-01T00:00 UTC, as a `bigint`. */
export const timestamp = type("timestamp-millis", "fixed", { array: BigInt64Array });
/** The same as numbers, as in `Date.now()`. */
export const safeTimestamp = type("timestamp-millis", "safe");
export const utf8 = type("utf8", "utf8");
/** A `Uint8Array`. */
export const binary = type("binary", "binary");
/** The unscaled value, as a `bigint`: 1.25 is 125n of `decimal(3, 2)`. */
export const decimal = (precision, scale) => {
  if (!(precision >= 1 && precision <= 38 && scale >= 0 && scale <= precision)) {
    throw bad(`decimal(${precision}, ${scale}): the precision is 1 to 38, and the scale at most that`);
  }
  return type("decimal128", "decimal", { precision, scale });
};
/** The same type, of which a row may lack a value: it is `null` then. */
export const nullable = (of) => Object.freeze({ ...of, nullable: true });

// ---- Columns ----

const bytesOf = (array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/** Bytes as an array of numbers, in place if they are aligned. */
export function view(array, bytes) {
  const width = array.BYTES_PER_ELEMENT;
  const length = bytes.byteLength / width;
  if (!Number.isInteger(length)) throw bad(`${bytes.byteLength} bytes are no ${array.name}`);
  const begin = bytes.byteOffset;
  return begin % width ? new array(bytes.slice().buffer) : new array(bytes.buffer, begin, length);
}

/** Numbers as bytes of a type. `set` copies an array at once, where `from` asks an iterator. */
function packed(array, values) {
  const made = new array(values.length);
  made.set(values);
  return bytesOf(made);
}

const bit = (bitmap, row) => (bitmap[row >> 3] >> (row & 7)) & 1;

function bitmapOf(count, isSet) {
  const bitmap = new Uint8Array((count + 7) >> 3);
  for (let i = 0; i < count; i++) if (isSet(i)) bitmap[i >> 3] |= 1 << (i & 7);
  return bitmap;
}

// A mark at the beginning of a text is part of it.
const decoder = globalThis.TextDecoder && new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = globalThis.TextEncoder && new TextEncoder();

function textOf(bytes) {
  if (decoder) return decoder.decode(bytes);
  let text = "";
  for (let i = 0; i < bytes.length; ) {
    const lead = bytes[i++];
    if (lead < 0x80) text += String.fromCharCode(lead);
    else if (lead < 0xe0) text += String.fromCharCode(((lead & 31) << 6) | (bytes[i++] & 63));
    else if (lead < 0xf0) {
      text += String.fromCharCode(((lead & 15) << 12) | ((bytes[i++] & 63) << 6) | (bytes[i++] & 63));
    } else {
      const high = ((lead & 7) << 18) | ((bytes[i++] & 63) << 12);
      text += String.fromCodePoint(high | ((bytes[i++] & 63) << 6) | (bytes[i++] & 63));
    }
  }
  return text;
}

function bytesOfText(text) {
  if (encoder) return encoder.encode(text);
  const bytes = [];
  for (const character of text) {
    const code = character.codePointAt(0);
    if (code < 0x80) bytes.push(code);
    else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63));
    else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    else {
      bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    }
  }
  return Uint8Array.from(bytes);
}

/** A surrogate that no other goes with: there is no such character in UTF-8. */
const HALF_A_PAIR = /[\ud800-\udfff]/u;

const isNull = (value) => value === null || value === undefined;

const SHOWN_LENGTH = 60;
/** A value as its author would write it, for messages. */
function shown(value) {
  if (typeof value === "bigint") return `${value}n`;
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}...` : text;
}

/** What to do about a number of the other kind. */
function otherKind(value, wantsBigInt) {
  if (wantsBigInt && typeof value === "number") return "; it takes a BigInt: `BigInt(value)`";
  if (!wantsBigInt && typeof value === "bigint") return "; it takes a number: `Number(value)`";
  return "";
}

/** Refuses names that nothing looks at: mistyped, they would be left out without a word. */
function checkNames(what, given, known) {
  for (const name of Object.keys(given)) {
    if (!known.includes(name)) throw bad(`${what} has no \`${name}\`; it has ${known.join(", ")}`);
  }
}

const CODECS = {
  boolean: {
    decode: (field, column, rows) => Array.from({ length: rows }, (_, i) => bit(column.data, i) === 1),
    encode(field, values) {
      // Anything is true or false to JavaScript, the text "false" is true.
      for (const value of values) if (typeof value !== "boolean") throw bad(`${shown(value)} is no boolean`);
      return { data: bitmapOf(values.length, (i) => values[i]), offsets: null };
    },
    filler: false,
  },
  fixed: {
    decode: (field, column) => view(field.type.array, column.data),
    encode(field, values) {
      const { array, name, noKey: isFloat } = field.type;
      const made = new array(values.length);
      try {
        made.set(values);
      } catch {
        // One of them is no number, or of the other kind: the loop says which.
      }
      for (let i = 0; i < values.length; i++) {
        // An integer that does not fit, or is none, has become another.
        const isRight = isFloat ? typeof values[i] === "number" : made[i] === values[i];
        if (!isRight) throw bad(`${shown(values[i])} is no ${name}${otherKind(values[i], array === BigInt64Array)}`);
      }
      return { data: bytesOf(made), offsets: null };
    },
    filler: 0,
  },
  // Functions of the engine over whole columns: a loop over the halves of each number takes thrice as long.
  safe: {
    decode(field, column) {
      const values = Array.prototype.map.call(view(BigInt64Array, column.data), Number);
      if (!values.every(Number.isSafeInteger)) {
        const row = values.findIndex((value) => !Number.isSafeInteger(value));
        throw bad(`column \`${field.name}\` row ${row}: more than a number holds exactly; use a bigint type`);
      }
      return values;
    },
    encode(field, values) {
      if (!values.every(Number.isSafeInteger)) {
        const value = values.find((value) => !Number.isSafeInteger(value));
        throw bad(`${shown(value)} is no safe integer${otherKind(value, false)}`);
      }
      return { data: packed(BigInt64Array, values.map(BigInt)), offsets: null };
    },
    filler: 0,
  },
  decimal: {
    decode(field, column, rows) {
      const halves = view(BigInt64Array, column.data);
      return Array.from({ length: rows }, (_, i) => (halves[2 * i + 1] << 64n) | BigInt.asUintN(64, halves[2 * i]));
    },
    encode(field, values) {
      const limit = 10n ** BigInt(field.type.precision);
      const halves = new BigInt64Array(2 * values.length);
      values.forEach((value, i) => {
        if (typeof value !== "bigint" || value >= limit || value <= -limit) {
          throw bad(`${shown(value)} does not fit${otherKind(value, true)}`);
        }
        halves[2 * i] = BigInt.asIntN(64, value);
        halves[2 * i + 1] = value >> 64n;
      });
      return { data: bytesOf(halves), offsets: null };
    },
    filler: 0n,
  },
  utf8: {
    decode(field, column, rows) {
      const ends = view(Uint32Array, column.offsets);
      const all = textOf(column.data);
      const values = new Array(rows);
      const ascii = all.length === column.data.length;
      for (let i = 0; i < rows; i++) {
        values[i] = ascii ? all.slice(ends[i], ends[i + 1]) : textOf(column.data.subarray(ends[i], ends[i + 1]));
      }
      return values;
    },
    encode(field, values) {
      for (const value of values) if (typeof value !== "string") throw bad(`${shown(value)} is no text`);
      const all = values.join("");
      const data = bytesOfText(all);
      if (data.length !== all.length) {
        for (const value of values) if (HALF_A_PAIR.test(value)) throw bad(`${shown(value)} has half a surrogate pair`);
        return CODECS.binary.encode(field, values.map(bytesOfText));
      }
      const offsets = new Uint32Array(values.length + 1);
      for (let i = 0; i < values.length; i++) offsets[i + 1] = offsets[i] + values[i].length;
      return { data, offsets: bytesOf(offsets) };
    },
    filler: "",
  },
  binary: {
    decode(field, column, rows) {
      const ends = view(Uint32Array, column.offsets);
      return Array.from({ length: rows }, (_, i) => column.data.subarray(ends[i], ends[i + 1]));
    },
    encode(field, values) {
      const offsets = new Uint32Array(values.length + 1);
      for (let i = 0; i < values.length; i++) {
        if (!(values[i] instanceof Uint8Array)) throw bad(`${shown(values[i])} is no Uint8Array`);
        offsets[i + 1] = offsets[i] + values[i].length;
      }
      const data = new Uint8Array(offsets[values.length]);
      for (let i = 0; i < values.length; i++) data.set(values[i], offsets[i]);
      return { data, offsets: bytesOf(offsets) };
    },
    filler: new Uint8Array(0),
  },
};

/** The values of a column; a null is `null`. */
export function decode(field, column, rows) {
  const values = CODECS[field.type.codec].decode(field, column, rows);
  if (values.length !== rows) throw bad(`column \`${field.name}\` has ${values.length} values, not ${rows}`);
  if (!column.validity) return values;
  return Array.from({ length: rows }, (_, i) => (bit(column.validity, i) ? values[i] : null));
}

/** A column of these values. */
export function encode(field, values) {
  const codec = CODECS[field.type.codec];
  let validity = null;
  let given = values;
  if (field.type.nullable && values.some(isNull)) {
    const filler = field.type.array === BigInt64Array ? 0n : codec.filler;
    validity = bitmapOf(values.length, (i) => !isNull(values[i]));
    given = values.map((value) => value ?? filler);
  }
  try {
    const { data, offsets } = codec.encode(field, given);
    return { data, offsets, validity };
  } catch (error) {
    // Every codec throws at null: looking for it before would cost as much as encoding.
    if (given.some(isNull)) throw bad(`column \`${field.name}\`: null, but its type is not nullable`);
    throw bad(`column \`${field.name}\` is ${field.type.name}: ${error.message}`);
  }
}

/** A row type, made ready: `{ auction: int64, price: int64 }`. */
class Shape {
  constructor(columns, what) {
    if (!columns || typeof columns !== "object") throw bad(`${what}: no row type`);
    this.what = what;
    this.fields = Object.entries(columns).map(([name, type]) => ({ name, type }));
    for (const { name, type } of this.fields) {
      if (!type || !CODECS[type.codec]) throw bad(`${what}: \`${name}\` has no column type`);
    }
    // Functions of a shape's own, since an interpreter looks for fields named in a loop each time.
    const names = this.fields.map(({ name }) => JSON.stringify(name));
    const literal = names.map((name, i) => `${name}: c${i}[i]`).join(", ");
    const columnsOf = names.map((_, i) => `c${i}`).join(", ");
    this.rowsOf = new Function(
      "columns",
      "rows",
      `const [${columnsOf}] = columns, made = new Array(rows);
       for (let i = 0; i < rows; i++) made[i] = { ${literal} };
       return made;`,
    );
    this.values = names.map((name) => new Function("row", `return row[${name}];`));
    const equal = this.fields.map(({ type }, i) => {
      const [a, b] = [`(a[${names[i]}] ?? null)`, `(b[${names[i]}] ?? null)`];
      return type.noKey || type.codec === "binary" ? `sameValues(${a}, ${b})` : `${a} === ${b}`;
    });
    this.same = new Function("sameValues", "a", "b", `return ${equal.join(" && ")};`).bind(null, sameValues);
  }

  decode(columns, rows) {
    if (columns.length !== this.fields.length) {
      throw bad(`got ${columns.length} columns, not ${this.fields.length}`);
    }
    return this.rowsOf(this.fields.map((field, i) => decode(field, columns[i], rows)), rows);
  }

  encode(rows) {
    try {
      return this.fields.map((field, i) => encode(field, rows.map(this.values[i])));
    } catch (error) {
      throw new BadRow(`${this.what}: ${error.message}${this.unknownFields(rows) || this.wrongRow(rows)}`);
    }
  }

  /** The first row that cannot be encoded, for messages. */
  wrongRow(rows) {
    const wrong = rows.find((row) => {
      try {
        this.fields.forEach((field, i) => encode(field, [this.values[i](row)]));
        return false;
      } catch {
        return true;
      }
    });
    const text = JSON.stringify(wrong, (_, value) => (typeof value === "bigint" ? `${value}n` : value));
    return wrong === undefined ? "" : `, in ${text.length > 200 ? `${text.slice(0, 200)}...` : text}`;
  }

  /** Fields of the rows that the row type lacks, for messages: one of them is likely misspelt. */
  unknownFields(rows) {
    const known = this.fields.map(({ name }) => name);
    for (const row of rows) {
      if (!row || typeof row !== "object") return `; ${shown(row)} is no row`;
      const unknown = Object.keys(row).find((name) => !known.includes(name));
      if (unknown !== undefined) return `; a row has \`${unknown}\`, which is no field: they are ${known.join(", ")}`;
    }
    return "";
  }

  /** The same under another name for messages. */
  named(what) {
    return Object.assign(Object.create(Shape.prototype), this, { what });
  }

  /** A string that is the same for the same row only. */
  id(row) {
    return this.fields.map(({ name }) => idOf(row[name])).join();
  }

  compare(a, b) {
    for (const { name } of this.fields) {
      const order = compareValues(a[name], b[name]);
      if (order) return order;
    }
    return 0;
  }

  toContract() {
    return this.fields.map(({ name, type }) => ({ name, type: typeToContract(type), nullable: type.nullable }));
  }
}

function typeToContract({ name, precision, scale }) {
  return name === "decimal128" ? { tag: name, val: { precision, scale } } : { tag: name };
}

function sameValues(a, b) {
  if (a instanceof Uint8Array && b instanceof Uint8Array) return compareValues(a, b) === 0;
  return Object.is(a, b);
}

function idOf(value) {
  if (typeof value === "string") return JSON.stringify(value);
  return value instanceof Uint8Array ? `[${value.join(" ")}]` : String(value);
}

/** The order of the contract: numbers by size, floats in IEEE 754's total order, text byte by byte. */
function compareValues(a, b) {
  if (a instanceof Uint8Array) {
    const length = Math.min(a.length, b.length);
    for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i] - b[i];
    return a.length - b.length;
  }
  if (typeof a === "string") return a === b ? 0 : compareValues(bytesOfText(a), bytesOfText(b));
  if (a < b) return -1;
  if (a > b) return 1;
  if (Object.is(a, b)) return 0;
  const rank = (value) => (Number.isNaN(value) ? 2 : Object.is(value, -0) ? 0 : 1);
  return rank(a) - rank(b);
}

const indices = (values) => packed(Uint32Array, values);

// ---- The running call ----

export const INSERT = 0;
export const UPDATE_BEFORE = 1;
export const UPDATE_AFTER = 2;
export const DELETE = 3;

const END_OF_TIME = 2n ** 63n - 1n;
/** Times cross as numbers outside of buffers; the greatest is rounded up there. */
const toTime = (number) => {
  const time = BigInt(number);
  return time > END_OF_TIME ? END_OF_TIME : time;
};

/** What is known about the row or timer that is being processed, beside its fields. */
class Record {
  constructor(shape) {
    this.shape = shape;
    this.watermark = -(2n ** 63n);
    this.end();
  }

  begin(keys, times, kinds, watermark) {
    this.keys = keys;
    this.times = times;
    this.kinds = kinds;
    this.keyCount = keys.rows;
    this.watermark = toTime(watermark);
  }

  end() {
    this.keys = this.times = this.kinds = this.keyRows = null;
    this.keyCount = 0;
    this.keyIndex = -1;
    this.row = 0;
  }

  get key() {
    if (this.keyIndex < 0) throw bad("there is a key only while a row or a timer is processed");
    this.keyRows ??= this.shape.decode(this.keys.columns, this.keyCount);
    return this.keyRows[this.keyIndex];
  }

  get timestamp() {
    return this.times && this.keyIndex >= 0 ? this.times[this.row] : this.watermark;
  }

  get kind() {
    return this.kinds ? this.kinds[this.row] : INSERT;
  }

  get index() {
    if (this.keyIndex < 0) throw bad("a state has a key only while a row or a timer is processed");
    return this.keyIndex;
  }
}

// ---- States ----

const ALL_ROWS = 0xffffffff;
const CURRENT = { tag: "current" };

/** Keys of the operator's choice. */
function explicitKeys(record, what, keys) {
  if (record.keyCount) throw bad(`${what}: while rows are processed it works on the key of the record`);
  return { tag: "explicit", val: { rows: keys.length, columns: record.shape.encode(keys) } };
}

/** A value for some of the batch's keys, by index. Not a `Map`: those of the engine take the longer
 * for a number the more of them they have. */
class PerKey {
  constructor(record) {
    this.record = record;
    this.values = null;
  }

  get(key) {
    return this.values?.[key];
  }

  set(key, value) {
    this.values ??= new Array(this.record.keyCount).fill(undefined);
    this.values[key] = value;
  }

  clear() {
    this.values = null;
  }

  /** The keys that have one, in order. */
  keys() {
    const keys = [];
    this.values?.forEach((value, key) => value !== undefined && keys.push(key));
    return keys;
  }
}

/** For rows that each have a key of their own. */
const eachItsOwn = (rows) => indices(rows.map((_, i) => i));

const STATE_OPTIONS = ["schemaVersion", "ttlMs", "ttlOnRead"];
/** Options that states of one kind alone have. */
const OWN_OPTIONS = { list: ["limitRows"], map: ["prefetch"] };

class State {
  constructor(kind, row, options = {}) {
    checkNames(`the options of a ${kind} state`, options, [...STATE_OPTIONS, ...(OWN_OPTIONS[kind] ?? [])]);
    this.kind = kind;
    this.shape = new Shape(row, `${kind} state`);
    this.options = options;
  }

  open(name, record, host) {
    const live = Object.assign(Object.create(Object.getPrototypeOf(this)), this);
    live.name = name;
    live.shape = this.shape.named(`state \`${name}\``);
    live.record = record;
    live.handle = host.state[this.resource].open(name);
    for (const kept of this.perKey) live[kept] = new PerKey(record);
    live.end();
    return live;
  }

  toContract(name) {
    const { schemaVersion = 1, ttlMs, ttlOnRead = false } = this.options;
    const update = ttlOnRead ? "on-read-and-write" : "on-write";
    const ttl = ttlMs === undefined ? null : { millis: ttlMs, update };
    return { name, kind: this.kindToContract(), fields: this.shape.toContract(), schemaVersion, ttl };
  }

  kindToContract() {
    return { tag: this.kind };
  }

  begin() {}

  selected(keys) {
    return keys.length === this.record.keyCount ? CURRENT : { tag: "selected", val: indices(keys) };
  }

  explicit(keys) {
    return explicitKeys(this.record, `state \`${this.name}\``, keys);
  }

  /** Removes what all those keys have that were cleared. */
  clearAll() {
    const cleared = this.cleared.keys();
    if (cleared.length) this.handle.clear(this.selected(cleared));
  }

  rows({ present, columns }, count) {
    if (present?.every((byte) => byte === 0)) return new Array(count).fill(null);
    const rows = this.shape.decode(columns, count);
    return present ? rows.map((row, i) => (bit(present, i) ? row : null)) : rows;
  }
}

class ValueState extends State {
  resource = "ValueState";
  perKey = ["writes"];

  get() {
    const key = this.record.index;
    const written = this.writes.get(key);
    if (written !== undefined) return written;
    this.loaded ??= this.rows(this.handle.get(CURRENT), this.record.keyCount);
    return this.loaded[key];
  }

  put(row) {
    this.writes.set(this.record.index, row);
  }

  delete() {
    this.writes.set(this.record.index, null);
  }

  getMany(keys) {
    return this.rows(this.handle.get(this.explicit(keys)), keys.length);
  }

  putMany(keys, rows) {
    this.handle.put(this.explicit(keys), this.shape.encode(rows));
  }

  deleteMany(keys) {
    this.handle.delete(this.explicit(keys));
  }

  loadColumns() {
    return this.handle.get(CURRENT);
  }

  storeColumns(columns) {
    this.handle.put(CURRENT, columns);
  }

  commit() {
    const put = [];
    const rows = [];
    const deleted = [];
    for (const key of this.writes.keys()) {
      const row = this.writes.get(key);
      const before = this.loaded?.[key];
      if (row === null) {
        if (before !== null) deleted.push(key);
      } else if (!before || !this.shape.same(before, row)) {
        put.push(key);
        rows.push(row);
      }
    }
    if (put.length) this.handle.put(this.selected(put), this.shape.encode(rows));
    if (deleted.length) this.handle.delete(this.selected(deleted));
  }

  end() {
    this.loaded = null;
    this.writes.clear();
  }
}

class ListState extends State {
  resource = "ListState";
  perKey = ["added", "cleared"];

  append(row) {
    const key = this.record.index;
    const added = this.added.get(key);
    if (added) added.push(row);
    else this.added.set(key, [row]);
  }

  get() {
    const key = this.record.index;
    const added = this.added.get(key) ?? [];
    if (this.cleared.get(key)) return [...added];
    this.loaded ??= this.load(CURRENT, this.record.keyCount);
    return [...this.loaded[key], ...added];
  }

  clear() {
    this.cleared.set(this.record.index, true);
    this.added.set(this.record.index, undefined);
  }

  getMany(keys) {
    return this.load(this.explicit(keys), keys.length);
  }

  appendMany(keys, rows) {
    this.handle.append(this.explicit(keys), eachItsOwn(rows), this.shape.encode(rows));
  }

  clearMany(keys) {
    this.handle.clear(this.explicit(keys));
  }

  load(keys, count) {
    const { rows, keyOf, columns } = this.handle.get(keys, this.options.limitRows ?? ALL_ROWS);
    const lists = Array.from({ length: count }, () => []);
    const of = view(Uint32Array, keyOf);
    this.shape.decode(columns, rows).forEach((row, i) => lists[of[i]].push(row));
    return lists;
  }

  commit() {
    this.clearAll();
    // In the order of the keys, as all SDKs do: then the same calls give the same table.
    const added = this.added.keys();
    if (!added.length) return;
    const keys = added.flatMap((key) => this.added.get(key).map(() => key));
    const rows = added.flatMap((key) => this.added.get(key));
    this.handle.append(CURRENT, indices(keys), this.shape.encode(rows));
  }

  end() {
    this.loaded = null;
    this.added.clear();
    this.cleared.clear();
  }
}

class MapState extends State {
  resource = "MapState";
  perKey = ["entries", "cleared"];

  constructor(mapKey, row, options) {
    super("map", row, options);
    this.mapKey = new Shape(mapKey, "map keys");
  }

  kindToContract() {
    return { tag: "map", val: this.mapKey.toContract() };
  }

  begin(rows, rowKeys) {
    this.batch = { rows, rowKeys };
  }

  /** The entries of a key by the id of their map key: `{ mapKey, known, written }`. */
  of(key) {
    let entries = this.entries.get(key);
    if (!entries) this.entries.set(key, (entries = new Map()));
    return entries;
  }

  entry(key, mapKey) {
    const entries = this.of(key);
    const id = this.mapKey.id(mapKey);
    let entry = entries.get(id);
    if (!entry) entries.set(id, (entry = { mapKey, known: undefined, written: undefined }));
    return entry;
  }

  get(mapKey) {
    const key = this.record.index;
    this.fetchAhead();
    const entry = this.entry(key, mapKey);
    if (entry.written !== undefined) return entry.written;
    if (this.cleared.get(key)) return null;
    if (entry.known === undefined && this.complete) entry.known = null;
    if (entry.known === undefined) this.fetch([[key, entry]]);
    return entry.known;
  }

  put(mapKey, row) {
    this.entry(this.record.index, mapKey).written = row;
  }

  delete(mapKey) {
    this.entry(this.record.index, mapKey).written = null;
  }

  clear() {
    const key = this.record.index;
    this.cleared.set(key, true);
    for (const entry of this.of(key).values()) entry.written = undefined;
  }

  /** The entries of the record's key in order, as `[mapKey, row]`. Without bounds, the first use
   * loads those of all keys of the batch in one call; with bounds, each use is a call. */
  items({ from = null, to = null, limitRows = ALL_ROWS } = {}) {
    const key = this.record.index;
    const merged = new Map();
    const isBounded = from || to || limitRows !== ALL_ROWS;
    if (!this.cleared.get(key)) {
      if (!isBounded) this.loadAll();
      if (isBounded && !this.complete) {
        const removed = [...this.of(key).values()].filter((entry) => entry.written === null).length;
        const limit = Math.min(limitRows + removed, ALL_ROWS);
        const [found] = this.load({ tag: "selected", val: indices([key]) }, 1, from, to, limit);
        for (const [mapKey, row] of found) merged.set(this.mapKey.id(mapKey), [mapKey, row]);
      }
    }
    for (const [id, { mapKey, known, written }] of this.of(key)) {
      const row = written !== undefined ? written : this.cleared.get(key) || !this.complete ? undefined : known;
      if (row) merged.set(id, [mapKey, row]);
      else if (row === null) merged.delete(id);
    }
    return [...merged.values()]
      .filter(([mapKey]) => !from || this.mapKey.compare(mapKey, from) >= 0)
      .filter(([mapKey]) => !to || this.mapKey.compare(mapKey, to) < 0)
      .sort(([a], [b]) => this.mapKey.compare(a, b))
      .slice(0, limitRows);
  }

  itemsMany(keys) {
    return this.load(this.explicit(keys), keys.length, null, null, ALL_ROWS);
  }

  getMany(keys, mapKeys) {
    const answer = this.handle.get(this.explicit(keys), eachItsOwn(keys), this.mapKey.encode(mapKeys));
    return this.rows(answer, keys.length);
  }

  putMany(keys, mapKeys, rows) {
    const encoded = this.mapKey.encode(mapKeys);
    this.handle.put(this.explicit(keys), eachItsOwn(keys), encoded, this.shape.encode(rows));
  }

  deleteMany(keys, mapKeys) {
    this.handle.delete(this.explicit(keys), eachItsOwn(keys), this.mapKey.encode(mapKeys));
  }

  clearMany(keys) {
    this.handle.clear(this.explicit(keys));
  }

  fetchAhead() {
    if (!this.options.prefetch || !this.batch) return;
    const { rows, rowKeys } = this.batch;
    this.batch = null;
    const wanted = [];
    rows.forEach((row, i) => {
      const mapKey = this.options.prefetch(row);
      const entry = mapKey && this.entry(rowKeys[i], mapKey);
      if (!entry || entry.known !== undefined) return;
      entry.known = null;
      wanted.push([rowKeys[i], entry]);
    });
    if (wanted.length) this.fetch(wanted);
  }

  fetch(wanted) {
    const keys = indices(wanted.map(([key]) => key));
    const mapKeys = this.mapKey.encode(wanted.map(([, entry]) => entry.mapKey));
    const rows = this.rows(this.handle.get(CURRENT, keys, mapKeys), wanted.length);
    wanted.forEach(([, entry], i) => (entry.known = rows[i]));
  }

  loadAll() {
    if (this.complete) return;
    this.complete = true;
    this.load(CURRENT, this.record.keyCount, null, null, ALL_ROWS).forEach((found, key) => {
      for (const [mapKey, row] of found) this.entry(key, mapKey).known = row;
    });
  }

  load(keys, count, from, to, limitRows) {
    const bound = (mapKey) => (mapKey ? this.mapKey.encode([mapKey]) : null);
    const answer = this.handle.entries(keys, { from: bound(from), to: bound(to) }, limitRows);
    const entries = Array.from({ length: count }, () => []);
    const of = view(Uint32Array, answer.keyOf);
    const mapKeys = this.mapKey.decode(answer.mapKeys, answer.rows);
    this.shape.decode(answer.columns, answer.rows).forEach((row, i) => entries[of[i]].push([mapKeys[i], row]));
    return entries;
  }

  commit() {
    const put = [];
    const deleted = [];
    for (const key of this.entries.keys()) {
      const isCleared = this.cleared.get(key);
      for (const { mapKey, known, written } of this.entries.get(key).values()) {
        if (written === undefined) continue;
        const before = isCleared || (known === undefined && this.complete) ? null : known;
        if (written === null) {
          if (before !== null) deleted.push([key, mapKey]);
        } else if (!before || !this.shape.same(before, written)) put.push([key, mapKey, written]);
      }
    }
    this.clearAll();
    const keys = (of) => indices(of.map(([key]) => key));
    const mapKeys = (of) => this.mapKey.encode(of.map(([, mapKey]) => mapKey));
    if (put.length) this.handle.put(CURRENT, keys(put), mapKeys(put), this.shape.encode(put.map(([, , row]) => row)));
    if (deleted.length) this.handle.delete(CURRENT, keys(deleted), mapKeys(deleted));
  }

  end() {
    this.batch = null;
    this.entries.clear();
    this.complete = false;
    this.cleared.clear();
  }
}

const FOLDS = {
  sum: (type, before, added) => (type.array === Float32Array ? Math.fround(before + added) : before + added),
  min: (type, before, added) => (compareValues(added, before) < 0 ? added : before),
  max: (type, before, added) => (compareValues(added, before) > 0 ? added : before),
  first: (type, before) => before,
  last: (type, before, added) => added,
};

/** What the host makes of a row and one that is added. */
export function fold(shape, reducers, before, added) {
  const folded = {};
  for (const { name, type } of shape.fields) {
    const [had, value] = [before?.[name], added[name]];
    if (reducers[name] === "count") {
      const one = type.codec === "fixed" ? 1n : 1;
      folded[name] = (had ?? one - one) + (isNull(value) ? one - one : one);
    } else if (isNull(had) || isNull(value)) folded[name] = (isNull(had) ? value : had) ?? null;
    else folded[name] = FOLDS[reducers[name]](type, had, value);
  }
  return folded;
}

class ReducingState extends State {
  resource = "ReducingState";
  perKey = ["cleared"];

  constructor(row, reducers, options) {
    super("reducing", row, options);
    this.reducers = reducers;
    for (const { name } of this.shape.fields) {
      if (reducers[name] !== "count" && !FOLDS[reducers[name]]) throw bad(`field \`${name}\` has no known reducer`);
    }
  }

  kindToContract() {
    return { tag: "reducing", val: this.shape.fields.map(({ name }) => this.reducers[name]) };
  }

  add(row) {
    const key = this.record.index;
    this.added.push([key, row]);
    if (this.folded) this.folded[key] = fold(this.shape, this.reducers, this.folded[key], row);
  }

  get() {
    const key = this.record.index;
    if (!this.folded) {
      this.folded = this.rows(this.handle.get(CURRENT), this.record.keyCount);
      for (const cleared of this.cleared.keys()) this.folded[cleared] = null;
      for (const [added, row] of this.added) {
        this.folded[added] = fold(this.shape, this.reducers, this.folded[added], row);
      }
    }
    return this.folded[key];
  }

  clear() {
    const key = this.record.index;
    this.cleared.set(key, true);
    this.added = this.added.filter(([added]) => added !== key);
    if (this.folded) this.folded[key] = null;
  }

  getMany(keys) {
    return this.rows(this.handle.get(this.explicit(keys)), keys.length);
  }

  addMany(keys, rows) {
    this.handle.add(this.explicit(keys), this.shape.encode(rows));
  }

  clearMany(keys) {
    this.handle.clear(this.explicit(keys));
  }

  commit() {
    this.clearAll();
    if (!this.added.length) return;
    const keys = indices(this.added.map(([key]) => key));
    this.handle.add({ tag: "selected", val: keys }, this.shape.encode(this.added.map(([, row]) => row)));
  }

  end() {
    this.folded = null;
    this.added = [];
    this.cleared.clear();
  }
}

/** At most one row for each key. */
export const valueState = (row, options) => new ValueState("value", row, options);
/** Any number of rows for each key, in the order in which they were added. */
export const listState = (row, options) => new ListState("list", row, options);
/** Rows for each key under map keys. `prefetch` says which map key a row of an input will ask for. */
export const mapState = (mapKey, row, options) => new MapState(mapKey, row, options);
/** One row for each key, which the host folds. */
export const reducingState = (row, reducers, options) => new ReducingState(row, reducers, options);

/** Timers of one family. */
class Timers {
  constructor(name, record, host) {
    this.name = name;
    this.record = record;
    this.handle = host.timers.TimerService.open(name);
    this.end();
  }

  set(time) {
    this.change(time, true);
  }

  delete(time) {
    this.change(time, false);
  }

  setMany(keys, times) {
    this.changeMany("set", keys, times);
  }

  deleteMany(keys, times) {
    this.changeMany("delete", keys, times);
  }

  changeMany(change, keys, times) {
    const explicit = explicitKeys(this.record, `timers \`${this.name}\``, keys);
    this.handle[change](explicit, bytesOf(BigInt64Array.from(times, BigInt)));
  }

  change(time, isSet) {
    const key = this.record.index;
    this.changes.set(`${key} ${time}`, { key, time: BigInt(time), isSet });
  }

  begin() {}

  commit() {
    for (const [isSet, change] of [[true, "set"], [false, "delete"]]) {
      const changes = [...this.changes.values()].filter((made) => made.isSet === isSet);
      if (!changes.length) continue;
      const keys = { tag: "selected", val: indices(changes.map(({ key }) => key)) };
      this.handle[change](keys, bytesOf(BigInt64Array.from(changes, ({ time }) => time)));
    }
  }

  end() {
    this.changes = new Map();
  }
}

/** Takes the rows that an operator emits on one output. */
class Output {
  constructor(name, { row, changelog = false }, port, record) {
    Object.assign(this, { name, changelog, port, record, shape: new Shape(row, `output \`${name}\``) });
    this.end();
  }

  emit(row, options) {
    const kind = options?.kind ?? INSERT;
    const timestamp = options?.timestamp;
    if (this.changelog) this.kinds.push(kind);
    else if (kind) throw bad(`a row that is no insert was emitted, but output \`${this.name}\` is no changelog`);
    this.times.push(timestamp === undefined ? this.record.timestamp : BigInt(timestamp));
    this.rows.push(row);
  }

  emitUpdate(before, after) {
    this.emit(before, { kind: UPDATE_BEFORE });
    this.emit(after, { kind: UPDATE_AFTER });
  }

  emitDelete(row) {
    this.emit(row, { kind: DELETE });
  }

  emitColumns(rows, columns, timestamps, kinds = null) {
    this.flush();
    const rowKinds = this.changelog ? (kinds ?? new Uint8Array(rows)) : null;
    this.made.push({ port: this.port, batch: { rows, columns, rowKinds }, timestamps });
  }

  flush() {
    if (!this.rows.length) return;
    const { rows, kinds, times } = this;
    this.rows = [];
    this.emitColumns(rows.length, this.shape.encode(rows), packed(BigInt64Array, times), packed(Uint8Array, kinds));
    [this.kinds, this.times] = [[], []];
  }

  /** Hands over what was emitted. */
  finish(made) {
    this.flush();
    for (let i = 0; i < this.made.length; i++) made.push(this.made[i]);
  }

  end() {
    [this.rows, this.kinds, this.times, this.made] = [[], [], [], []];
  }
}

// ---- Operators ----

/** A stream operator with keyed state. What an instance keeps in fields that are no states is a
 * cache: gone after a failure. */
export class Operator {
  static key = {};
  static inputs = {};
  static outputs = {};
  static states = {};
  static timers = {};

  configure() {}
  open() {}
  onWatermark() {}
  onBarrier() {}
  onCheckpointComplete() {}
  close() {}
}

/** Refuses a handler that the operator lacks. */
function checkHandler(operator, of, handler) {
  if (typeof operator.prototype[handler] !== "function") {
    throw bad(`${of}: ${operator.name} has no method \`${handler}\``);
  }
}

function describeInput(operator, name, input) {
  checkNames(`input \`${name}\``, input, ["row", "key", "changelog", "each", "batch"]);
  const { row, key, changelog = false, each, batch } = input;
  const shape = new Shape(row, `input \`${name}\``);
  const keys = Object.entries(operator.key);
  const names = key ?? keys.map(([field]) => field);
  names.forEach((field, i) => {
    const found = row[field];
    if (!found) throw bad(`key field \`${field}\` is no field of input \`${name}\``);
    const [, wanted] = keys[i];
    if (found.name !== wanted.name || found.nullable || wanted.nullable || wanted.noKey) {
      throw bad(`key field \`${field}\` is ${wanted.name}, but ${found.name} in input \`${name}\`, or no key type`);
    }
  });
  checkHandler(operator, `input \`${name}\``, each ?? batch);
  return { name, fields: shape.toContract(), key: names, changelog };
}

function describeOutput(name, output) {
  checkNames(`output \`${name}\``, output, ["row", "changelog"]);
  const { row, changelog = false } = output;
  return { name, fields: new Shape(row, `output \`${name}\``).toContract(), changelog };
}

function describeTimers(operator, name, timers) {
  checkNames(`timers \`${name}\``, timers, ["fired", "processingTime"]);
  checkHandler(operator, `timers \`${name}\``, timers.fired);
  return { name, domain: timers.processingTime ? "processing-time" : "event-time" };
}

/** What an operator has under these names is the SDK's. */
const OWN_NAMES = ["config", "subtask", "record", "now", "metrics", "log"];

/** States, timers and outputs become fields of the operator: one name cannot be two of them. */
function checkFields(operator) {
  const taken = new Set(OWN_NAMES);
  for (const names of [operator.states, operator.timers, operator.outputs].map(Object.keys)) {
    for (const name of names) {
      if (taken.has(name) || name in operator.prototype) {
        throw bad(`\`${name}\` of ${operator.name} is a state, timers or an output, and something else; rename it`);
      }
      taken.add(name);
    }
  }
}

/** Key and fields are columns of one table: no two may have a name, upper and lower case alike. The key is called
 * as in the first input. */
function checkColumns(key, name, state) {
  const columns = [
    ...key.map((column) => ["key field", column]),
    ...(state.mapKey?.fields ?? []).map((field) => ["map key field", field.name]),
    ...state.shape.fields.map((field) => ["field", field.name]),
  ];
  columns.forEach(([what, column], i) => {
    const [before] = columns.slice(0, i).find(([, other]) => other.toLowerCase() === column.toLowerCase()) ?? [];
    if (before) throw bad(`state \`${name}\`: its ${what} \`${column}\` is called like a ${before}: rename it`);
  });
}

function parseConfig(config) {
  try {
    return JSON.parse(config || "{}");
  } catch (error) {
    throw new ConfigError(`configuration: ${error.message}`);
  }
}

/** What an operator says that it is. */
export function describe(operator, config) {
  const asked = new operator();
  asked.config = parseConfig(config);
  asked.configure();
  const inputs = Object.entries(operator.inputs);
  if (!inputs.length) throw bad(`${operator.name} has no inputs`);
  checkFields(operator);
  const described = inputs.map(([name, input]) => describeInput(operator, name, input));
  for (const [name, state] of Object.entries(operator.states)) checkColumns(described[0].key, name, state);
  return {
    inputs: described,
    outputs: Object.entries(operator.outputs).map(([name, output]) => describeOutput(name, output)),
    states: Object.entries(operator.states).map(([name, state]) => state.toContract(name)),
    timers: Object.entries(operator.timers).map(([name, timers]) => describeTimers(operator, name, timers)),
  };
}

/** An operator at work. */
class Driver {
  constructor(operator, context, host) {
    const made = new operator();
    const record = new Record(new Shape(operator.key, "key"));
    const open = (declared, live) => Object.entries(declared).map(([name, of], i) => (made[name] = live(name, of, i)));
    this.operator = made;
    this.record = record;
    this.states = [
      ...open(operator.states, (name, state) => state.open(name, record, host)),
      ...open(operator.timers, (name) => new Timers(name, record, host)),
    ];
    this.outputs = open(operator.outputs, (name, output, port) => new Output(name, output, port, record));
    this.inputs = Object.entries(operator.inputs).map(([name, input]) => {
      return { ...input, name, shape: new Shape(input.row, `input \`${name}\``) };
    });
    this.timers = Object.values(operator.timers);
    made.config = parseConfig(context.config);
    made.subtask = context;
    made.record = record;
    made.now = () => host.clock.now();
    made.metrics = host.metrics;
    const write = (level) => (message) => host.logging.enabled(level) && host.logging.log(level, String(message));
    made.log = Object.fromEntries(["trace", "debug", "info", "warn", "error"].map((level) => [level, write(level)]));
    made.configure();
    made.open();
  }

  /** Runs a method, then writes what it changed and gives what it emitted. */
  run(method, handle) {
    try {
      handle(this.operator);
      if (this.record.keyCount) for (const state of this.states) state.commit();
      const made = [];
      for (const output of this.outputs) output.finish(made);
      return made;
    } catch (error) {
      if (error instanceof BadRow) error.message += `; from ${this.operator.constructor.name}.${method}`;
      throw error;
    } finally {
      this.record.end();
      for (const state of this.states) state.end();
      for (const output of this.outputs) output.end();
    }
  }

  process({ port, batch, timestamps, watermark, keys, rowKeys }) {
    const input = this.inputs[port];
    if (!input) throw bad(`there is no input ${port}`);
    const { record } = this;
    const of = view(Uint32Array, rowKeys);
    return this.run(input.batch ?? input.each, (operator) => {
      if (input.batch) {
        record.begin(keys, null, batch.rowKinds, watermark);
        const { rows, columns, rowKinds } = batch;
        operator[input.batch]({ rows, columns, rowKinds, timestamps, rowKeys: of, keys, shape: input.shape });
        return;
      }
      record.begin(keys, view(BigInt64Array, timestamps), batch.rowKinds, watermark);
      const rows = input.shape.decode(batch.columns, batch.rows);
      for (const state of this.states) state.begin(rows, of);
      for (let i = 0; i < rows.length; i++) {
        record.row = i;
        record.keyIndex = of[i];
        operator[input.each](rows[i]);
      }
    });
  }

  onTimers({ timer, keys, times, watermark }) {
    const { record } = this;
    const { fired } = this.timers[timer];
    return this.run(fired, (operator) => {
      record.begin(keys, view(BigInt64Array, times), null, watermark);
      for (let i = 0; i < keys.rows; i++) {
        record.row = record.keyIndex = i;
        operator[fired](record.timestamp);
      }
    });
  }

  onWatermark(watermark) {
    this.record.watermark = toTime(watermark);
    return this.run("onWatermark", (operator) => operator.onWatermark(this.record.watermark));
  }
}

/** Tells the host of exceptions, with their stack. */
function reporting(call) {
  return (given) => {
    try {
      return call(given);
    } catch (error) {
      // What the host answered goes back to it as it is.
      const thrown = error?.payload ?? error;
      if (thrown && typeof thrown.kind === "string" && !(thrown instanceof Error)) throw thrown;
      const name = error instanceof HowdahError || !error?.name ? "" : `${error.name}: `;
      const stack = error?.stack ? ` (${String(error.stack).trim().split(/\s*\n\s*/).slice(0, 8).join(" < ")})` : "";
      throw { kind: error?.kind ?? "other", message: `${name}${error?.message ?? String(error)}${stack}` };
    }
  };
}

/** The exports of a component, over one operator for each instance. `host` has its imports. */
export function component(operator, host) {
  let driver = null;
  const opened = () => {
    if (!driver) throw bad("`open` must be called first");
    return driver;
  };
  return {
    operator: {
      describe: reporting((config) => describe(operator, config)),
      open: reporting((context) => {
        driver = new Driver(operator, context, host);
      }),
      process: reporting((input) => opened().process(input)),
      onBarrier: reporting((checkpoint) => opened().run("onBarrier", (running) => running.onBarrier(checkpoint))),
      close: reporting(() => opened().run("close", (running) => running.close())),
    },
    timerHandler: { onTimers: reporting((due) => opened().onTimers(due)) },
    watermarkHandler: { onWatermark: reporting((watermark) => opened().onWatermark(watermark)) },
    checkpointHandler: {
      onCheckpointComplete: reporting((checkpoint) => {
        opened().run("onCheckpointComplete", (running) => running.onCheckpointComplete(checkpoint));
      }),
    },
  };
}
