// Two spans of one recording, A and B, compared: the amounts of both as one set, each item of which is of a side.

import { Cells } from "./cells";
import { Data, ItemSet } from "./data";
import { Selection, Store } from "./selection";
import { Sides } from "./sides";
import { sum, Sums } from "./sums";

/** A side's time on a CPU and its waits; the first is known by samples, so chance is in it. */
const STATES = ["A", "B", "A waiting", "B waiting"];
/** Of the amount that chance makes: 95 % are within so many of its standard deviations. */
const WITHIN = 1.96;

/** `mean` is that of a sample's amount. */
interface Twice { set: ItemSet; cells: Cells; mean: number }

/** Whether two spans are compared. */
export const isCompared = (selection: Selection): boolean => selection.base !== null && selection.span !== null;

export class SpanComparison extends Sides {
  /** Amounts of A, by the recording's states. */
  before: Sums | null = null;
  private readonly made = new Map<Cells, Twice>();
  private key = "";
  private factors: [number, number] = [1, 1];
  private isTotal = false;
  private mean = 0;
  private lastId = 0;

  constructor(data: Data, store: Store) {
    super(data, store, ["A", "B"], ["only in A", "only in B"], { ...data, states: STATES });
  }

  protected scale(): string { return this.isTotal ? "amounts of the spans as they are" : "amounts per second of a span"; }
  protected override per(): string { return this.isTotal ? "" : "/s"; }

  protected floor([a, b]: Float64Array): number {
    const [before, after] = this.factors;
    return WITHIN * Math.sqrt(this.mean * (a * before + b * after));
  }

  /** Sums of both sides, from those of B. */
  of(after: Sums, selection: Selection): Sums {
    const { base, span } = selection;
    // What A's sums depend on.
    const key = JSON.stringify({ ...selection, span: base, search: "", zoom: [] });
    if (key !== this.key || !this.before) this.before = sum(this.data, { ...selection, span: base });
    this.key = key;
    this.isTotal = selection.total;
    const seconds = (of: [number, number]) => ((of[1] - of[0]) * this.data.about.data.tick_ns) / 1e9;
    const factors: [number, number] = (this.factors = selection.total ? [1, 1] : [1 / seconds(base!), 1 / seconds(span!)]);
    const { set, cells, mean } = this.twice(after);
    this.mean = mean;
    const sides = [this.before, after];
    const joined = (part: (of: Sums) => Float64Array, scale: [number, number]) => {
      const all = new Float64Array(cells.count);
      sides.forEach((of, side) => { const from = side * after.cells.count; part(of).forEach((value, at) => { all[from + at] = value * scale[side]; }); });
      return all;
    };
    const cell = joined((of) => of.cell, factors);
    const states = new Float64Array(STATES.length);
    cell.forEach((value, at) => { states[set.placeState[cells.place[at]]] += value; });
    const total = states.reduce((all, value) => all + value, 0);
    const sums: Sums = { set, cells, cell, counts: () => joined((of) => of.counts(), [1, 1]), states, total, whole: total, idleLeftOut: 0, count: sides[0].count + after.count, id: --this.lastId };
    this.select(sums, selection);
    return sums;
  }

  /** The places and cells of a set once for each side. */
  private twice({ set, cells }: Sums): Twice {
    let made = this.made.get(cells);
    if (made) return made;
    const places = set.placeNode.length;
    const doubled = (of: Int32Array, more = 0) => { const all = new Int32Array(of.length * 2); all.set(of); all.set(of.map((value) => value + more), of.length); return all; };
    const placeState = Uint8Array.from({ length: places * 2 }, (_, at) => (at >= places ? 1 : 0) + (set.wall && set.placeState[at % places] > 0 ? 2 : 0));
    made = {
      set: Object.create(set, { placeNode: { value: doubled(set.placeNode) }, placeState: { value: placeState }, firstWait: { value: set.wall ? 2 : Infinity } }) as ItemSet,
      cells: { ...cells, group: doubled(cells.group.subarray(0, cells.count)), place: doubled(cells.place.subarray(0, cells.count), places), count: cells.count * 2 },
      mean: meanOf(set),
    };
    this.made.set(cells, made);
    return made;
  }
}

function meanOf({ items, place, placeState, amount, count }: ItemSet): number {
  let [all, samples] = [0, 0];
  for (let item = 0; item < items; item++) {
    if (placeState[place[item]] > 0) continue;
    all += amount[item];
    samples += count[item];
  }
  return all / Math.max(1, samples);
}
