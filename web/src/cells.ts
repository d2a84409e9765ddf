// Small tables of numbers: pairs that become one index, and the amounts' cells of a way of grouping threads.

import { Data, ItemSet } from "./data";
import { Selection } from "./selection";

/** Indices of pairs of small numbers, in the order in which they were first asked for. */
export class Pairs {
  private slots: Int32Array;
  private mask: number;
  first: Int32Array;
  second: Int32Array;
  length = 0;

  constructor(room = 1024) {
    let size = 1024;
    while (size < room * 2) size *= 2;
    this.slots = new Int32Array(size).fill(-1);
    this.mask = size - 1;
    this.first = new Int32Array(size / 2);
    this.second = new Int32Array(size / 2);
  }

  index(first: number, second: number): number {
    for (let at = this.hash(first, second); ; at = (at + 1) & this.mask) {
      const found = this.slots[at];
      if (found < 0) return this.add(at, first, second);
      if (this.first[found] === first && this.second[found] === second) return found;
    }
  }

  private hash(first: number, second: number): number {
    const mixed = Math.imul(first, 0x9e3779b1) ^ Math.imul(second + 0x7f4a7c15, 0x85ebca6b);
    return (mixed ^ (mixed >>> 15)) & this.mask;
  }

  private add(slot: number, first: number, second: number): number {
    if (this.length === this.first.length) {
      this.grow();
      return this.index(first, second);
    }
    this.slots[slot] = this.length;
    this.first[this.length] = first;
    this.second[this.length] = second;
    return this.length++;
  }

  private grow(): void {
    const longer = (values: Int32Array) => { const more = new Int32Array(values.length * 2); more.set(values); return more; };
    [this.first, this.second] = [longer(this.first), longer(this.second)];
    this.mask = this.mask * 2 + 1;
    this.slots = new Int32Array(this.mask + 1).fill(-1);
    for (let i = 0; i < this.length; i++) {
      let at = this.hash(this.first[i], this.second[i]);
      while (this.slots[at] >= 0) at = (at + 1) & this.mask;
      this.slots[at] = i;
    }
  }
}

/** Amounts are summed by cell: a group of threads and a place. */
export interface Cells {
  groups: string[];
  group: Int32Array; place: Int32Array;
  /** Each item's cell. */
  of: Int32Array;
  count: number;
}

/** Pairs of a group and a place in a table at most. */
const DENSE = 1 << 23;

const known = new WeakMap<ItemSet, Map<string, Cells>>();

/** The cells of a set's items; made once for each way of grouping. */
export function cellsOf(data: Data, set: ItemSet, grouping: Selection["group"]): Cells {
  const made = known.get(set) ?? new Map<string, Cells>();
  known.set(set, made);
  let cells = made.get(grouping);
  if (!cells) made.set(grouping, (cells = makeCells(set, groupsOf(data, grouping))));
  return cells;
}

function makeCells(set: ItemSet, { groups, of }: { groups: string[]; of: Int32Array }): Cells {
  const places = set.placeNode.length;
  if (groups.length === 1) {
    const place = set.isCounted ? set.place : Int32Array.from({ length: places }, (_, at) => at);
    return { groups, group: new Int32Array(places), place, of: set.place, count: places };
  }
  if (groups.length * places <= DENSE) return denseCells(set, groups, of);
  const pairs = new Pairs(Math.min(set.items, places * 2));
  const cell = new Int32Array(set.items);
  for (let item = 0; item < set.items; item++) cell[item] = pairs.index(of[set.thread[item]], set.place[item]);
  return { groups, group: pairs.first, place: pairs.second, of: cell, count: pairs.length };
}

/** The same by a table of all pairs. */
function denseCells(set: ItemSet, groups: string[], of: Int32Array): Cells {
  const places = set.placeNode.length;
  const index = new Int32Array(groups.length * places);
  for (const { thread, from, to } of set.runs) {
    const first = of[thread] * places;
    for (let item = from; item < to; item++) index[first + set.place[item]] = 1;
  }
  // In the order of groups and frames: sums over all then go through memory in order.
  const order = byNode(set);
  const [group, place]: number[][] = [[], []];
  for (let first = 0, number = 0; number < groups.length; first += places, number++) {
    for (const at of order) {
      if (index[first + at] === 0) continue;
      place.push(at);
      index[first + at] = group.push(number);
    }
  }
  const cell = new Int32Array(set.items);
  for (const { thread, from, to } of set.runs) {
    const first = of[thread] * places;
    for (let item = from; item < to; item++) cell[item] = index[first + set.place[item]] - 1;
  }
  return { groups, group: Int32Array.from(group), place: Int32Array.from(place), of: cell, count: group.length };
}

/** Places in the order of their nodes: those of each node are counted first. */
function byNode({ placeNode }: ItemSet): Int32Array {
  const next = new Int32Array(placeNode.reduce((most, node) => Math.max(most, node), 0) + 2);
  for (const node of placeNode) next[node + 1]++;
  for (let node = 1; node < next.length; node++) next[node] += next[node - 1];
  const order = new Int32Array(placeNode.length);
  placeNode.forEach((node, place) => (order[next[node]++] = place));
  return order;
}

/** Groups of threads for the flame graph, and each thread's group. */
function groupsOf(data: Data, grouping: Selection["group"]): { groups: string[]; of: Int32Array } {
  const threads = data.about.data.threads;
  const of = new Int32Array(Math.max(1, threads.length));
  // Labels are frames.
  if (grouping === "none" || grouping === "label" || threads.length === 0) return { groups: [""], of };
  const names: string[] = [];
  const index = new Map<string, number>();
  const most = grouping === "thread" ? 200 : 60;
  threads.forEach((thread, at) => {
    let name = grouping === "thread" ? `${thread.comm} ${thread.tid}` : thread.comm;
    if (!index.has(name) && names.length >= most) name = "other threads";
    if (!index.has(name)) index.set(name, names.push(name) - 1);
    of[at] = index.get(name)!;
  });
  return { groups: names, of };
}
