/** Fails the running batch: what it wrote and emitted is dropped. Any exception does the same. */
export class HowdahError extends Error {
  constructor(message: string, kind?: string);
  readonly kind: string;
}
/** The operator's table of the pipeline file is not usable. */
export class ConfigError extends HowdahError {
  constructor(message: string);
}

/** The type of a column whose values are `T`. */
export interface ColumnType<T> {
  readonly name: string;
  readonly nullable: boolean;
  /** Only for the compiler. */
  readonly value?: T;
}
export const boolean: ColumnType<boolean>;
export const int32: ColumnType<number>;
export const int64: ColumnType<bigint>;
/** An int64 column as numbers; one that a number cannot hold exactly is an error. */
export const safeInt64: ColumnType<number>;
export const float32: ColumnType<number>;
export const float64: ColumnType<number>;
/** Days since 1970-01-01. */
export const date: ColumnType<number>;
/** Milliseconds since 1970-01-01T00:00 UTC. */
export const timestamp: ColumnType<bigint>;
/** The same as numbers, as in `Date.now()`. */
export const safeTimestamp: ColumnType<number>;
export const utf8: ColumnType<string>;
export const binary: ColumnType<Uint8Array>;
/** The unscaled value: 1.25 is 125n of `decimal(3, 2)`. */
export function decimal(precision: number, scale: number): ColumnType<bigint>;
/** The same type, of which a row may lack a value. */
export function nullable<T>(of: ColumnType<T>): ColumnType<T | null>;

/** The columns of a row, by name. */
export type RowType = { readonly [name: string]: ColumnType<any> };
/** The rows of a row type. */
export type Row<R extends RowType> = { [K in keyof R]: R[K] extends ColumnType<infer T> ? T : never };

/** The raw buffers of a column, as the contract has them. */
export interface Column {
  data: Uint8Array;
  offsets: Uint8Array | null;
  validity: Uint8Array | null;
}
export interface Field<T> {
  name: string;
  type: ColumnType<T>;
}
/** The values of a column; numbers are a view in place. */
export function decode<T>(field: Field<T>, column: Column, rows: number): ArrayLike<T>;
export function encode<T>(field: Field<T>, values: T[]): Column;
/** Bytes as an array of numbers, in place if they are aligned. */
export function view<A>(array: { new (buffer: ArrayBufferLike, offset: number, length: number): A; readonly BYTES_PER_ELEMENT: number }, bytes: Uint8Array): A;

/** Rows of an input as columns, for the method that `batch` names. */
export interface Batch {
  rows: number;
  columns: Column[];
  rowKinds: Uint8Array | null;
  /** Packed 64-bit event times. */
  timestamps: Uint8Array;
  /** For each row, which of the distinct keys it has. */
  rowKeys: Uint32Array;
  keys: { rows: number; columns: Column[] };
}

export const INSERT: 0;
export const UPDATE_BEFORE: 1;
export const UPDATE_AFTER: 2;
export const DELETE: 3;
export type RowKind = 0 | 1 | 2 | 3;

export interface StateOptions {
  schemaVersion?: number;
  ttlMs?: number;
  /** Whether a read starts the time anew. */
  ttlOnRead?: boolean;
}
/** At most one row for each key. The key is that of the record; the calls that end in `Many` are
 * for methods without one. */
export interface ValueState<V, K = any> {
  get(): V | null;
  put(row: V): void;
  delete(): void;
  getMany(keys: K[]): (V | null)[];
  putMany(keys: K[], rows: V[]): void;
  deleteMany(keys: K[]): void;
  /** The rows of all keys of the batch, for methods that take batches. */
  loadColumns(): { present: Uint8Array | null; columns: Column[] };
  storeColumns(columns: Column[]): void;
}
export interface ListState<V, K = any> {
  append(row: V): void;
  get(): V[];
  clear(): void;
  getMany(keys: K[]): V[][];
  /** Adds row `i` to the list of key `i`. */
  appendMany(keys: K[], rows: V[]): void;
  clearMany(keys: K[]): void;
}
export interface MapState<M, V, K = any> {
  get(mapKey: M): V | null;
  put(mapKey: M, row: V): void;
  delete(mapKey: M): void;
  items(range?: { from?: M | null; to?: M | null; limitRows?: number }): [M, V][];
  clear(): void;
  itemsMany(keys: K[]): [M, V][][];
  /** The entry of key `i` under map key `i`; `putMany` and `deleteMany` name entries in the same way. */
  getMany(keys: K[], mapKeys: M[]): (V | null)[];
  putMany(keys: K[], mapKeys: M[], rows: V[]): void;
  deleteMany(keys: K[], mapKeys: M[]): void;
  clearMany(keys: K[]): void;
}
export interface ReducingState<V, K = any> {
  add(row: V): void;
  get(): V | null;
  clear(): void;
  getMany(keys: K[]): (V | null)[];
  /** Folds row `i` into that of key `i`, in order. */
  addMany(keys: K[], rows: V[]): void;
  clearMany(keys: K[]): void;
}
export type Reducer = "sum" | "min" | "max" | "count" | "first" | "last";

export function valueState<R extends RowType>(row: R, options?: StateOptions): ValueState<Row<R>>;
export function listState<R extends RowType>(row: R, options?: StateOptions & { limitRows?: number }): ListState<Row<R>>;
export function mapState<M extends RowType, R extends RowType>(
  mapKey: M,
  row: R,
  options?: StateOptions & { prefetch?: (row: any) => Row<M> | null },
): MapState<Row<M>, Row<R>>;
export function reducingState<R extends RowType>(
  row: R,
  reducers: { [K in keyof R]: Reducer },
  options?: StateOptions,
): ReducingState<Row<R>>;

export interface Output<V> {
  emit(row: V, options?: { kind?: RowKind; timestamp?: bigint | number }): void;
  emitUpdate(before: V, after: V): void;
  emitDelete(row: V): void;
  emitColumns(rows: number, columns: Column[], timestamps: Uint8Array, kinds?: Uint8Array | null): void;
}
export interface Timers<K = any> {
  set(time: bigint | number): void;
  delete(time: bigint | number): void;
  /** Sets a timer of key `i` at `times[i]`; for methods without a record. */
  setMany(keys: K[], times: (bigint | number)[]): void;
  deleteMany(keys: K[], times: (bigint | number)[]): void;
}

/** A stream operator with keyed state. States, outputs and timers become fields of the instance. */
export class Operator {
  static key: RowType;
  static inputs: { [name: string]: { row: RowType; key?: string[]; changelog?: boolean; each?: string; batch?: string } };
  static outputs: { [name: string]: { row: RowType; changelog?: boolean } };
  static states: { [name: string]: object };
  static timers: { [name: string]: { fired: string; processingTime?: boolean } };
  readonly config: any;
  readonly subtask: { pipeline: string; operator: string; subtask: number; parallelism: number; restoredFrom: number | null };
  readonly record: { readonly key: any; readonly timestamp: bigint; readonly kind: RowKind; readonly watermark: bigint };
  readonly log: { [level in "trace" | "debug" | "info" | "warn" | "error"]: (message: unknown) => void };
  readonly metrics: {
    counterAdd(name: string, amount: number): void;
    gaugeSet(name: string, value: number): void;
    histogramRecord(name: string, value: number): void;
  };
  /** The host's clock: the same in all of one call. */
  now(): number;
  configure(): void;
  open(): void;
  onWatermark(watermark: bigint): void;
  onBarrier(checkpoint: number): void;
  onCheckpointComplete(checkpoint: number): void;
  close(): void;
}
