import type { Operator, RowKind } from "./howdah.js";

/** A row that the operator emitted. */
export interface Event<V = any> {
  /** The name of the output. */
  output: string;
  row: V;
  kind: RowKind;
  timestamp: bigint;
}

/** Runs an operator in an ordinary JavaScript engine, over states in memory. */
export class TestHost {
  /** `config` is the operator's table of the pipeline file. */
  constructor(operator: new () => Operator, config?: object);
  /** What the operator's clock shows, in milliseconds. */
  now: number;
  readonly watermark: bigint;
  /** Level and message. */
  readonly logs: [level: string, message: string][];
  /** Counters and gauges by name; of histograms, the list of values. */
  readonly metrics: { readonly [name: string]: any };
  /** How often the operator called a function of a state, as in `calls["last.get"]`. */
  readonly calls: { readonly [call: string]: number };
  /** What the operator says that it is, as the contract has it. */
  readonly spec: any;
  /** Hands over rows as one batch, and gives what is emitted. Without `input`, of the first one. */
  process(rows: object[], options?: { input?: string; timestamps?: (bigint | number)[]; kinds?: RowKind[] }): Event[];
  /** Raises the watermark: fires the timers that are due, then calls `onWatermark`. */
  advanceWatermark(watermark: bigint | number): Event[];
  /** Sets the clock, and fires the timers of processing time that are due. */
  advanceClock(now: number): Event[];
  /** Takes a checkpoint, which a crash goes back to. */
  barrier(): Event[];
  /** Drops the operator; a new one goes on from the last barrier. */
  crash(): void;
  /** Ends the input: fires what is left, then calls `close`. */
  close(): Event[];
  /** The row of a key in a state, or null; of a list state the list, of a map state `[mapKey, row]` pairs. */
  state(name: string, key: object): any;
}
