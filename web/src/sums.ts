// Amounts of the selection: by place, by state, by thread. All other views are computed from these.

import { Cells, cellsOf } from "./cells";
import { Data, ItemSet, Kind, range } from "./data";
import { percent } from "./format";
import { Selection } from "./selection";

export interface Sums {
  set: ItemSet;
  cells: Cells;
  /** Amount by cell, only of the selected states and stacks. */
  cell: Float64Array;
  /** Numbers of samples by cell, likewise. */
  counts: () => Float64Array;
  /** Amount of each state in the selected time and threads, whatever states are selected. */
  states: Float64Array;
  /** Σ of the selected. */
  total: number;
  /** Σ whatever states are selected, idle time left out unless it is shown. */
  whole: number;
  /** Idle time that is left out. */
  idleLeftOut: number;
  count: number;
  id: number;
}

let lastId = 0;

/** Which threads are selected; all if none is. */
export function threadMask(data: Data, selection: Selection): Uint8Array {
  const threads = data.about.data.threads;
  const mask = new Uint8Array(Math.max(1, threads.length));
  const wanted = new Set(selection.threads);
  for (let at = 0; at < mask.length; at++) mask[at] = wanted.size === 0 || wanted.has(threads[at]?.tid) ? 1 : 0;
  return mask;
}

/** Part of an item that is inside a span, in whole numbers. */
export function inside(set: ItemSet, data: Data, item: number, from: number, to: number): number {
  return Math.round(partInside(set, data, item, from, to));
}

function partInside(set: ItemSet, data: Data, item: number, from: number, to: number): number {
  const amount = set.amount[item];
  if (set.since[item] === 0) {
    const life = data.about.data.threads[set.thread[item]] ?? { from: 0, to: data.about.data.ticks };
    return (amount * overlap(life.from, life.to, from, to)) / Math.max(1, life.to - life.from);
  }
  const begin = set.since[item] - 1;
  const length = set.length[item];
  if (length === 0) return begin >= from && begin < to ? amount : 0;
  const own = Math.min(amount, length * data.about.data.tick_ns);
  const part = (own * overlap(begin, begin + length, from, to)) / length;
  const rest = amount - own;
  if (rest <= 0) return part;
  const gap = begin - set.gap[item];
  return part + (gap > 0 ? (rest * overlap(set.gap[item], begin, from, to)) / gap : begin >= from && begin < to ? rest : 0);
}

function overlap(a: number, b: number, from: number, to: number): number {
  return Math.max(0, Math.min(b, to) - Math.max(a, from));
}

/** Functions that make a stack count: those of the focus, without those dropped. */
function placeMask(data: Data, set: ItemSet, selection: Selection): Uint8Array | null {
  if (!selection.focus && selection.drop.length === 0) return null;
  const focus = selection.focus ? below(data, (name) => name === selection.focus) : null;
  const dropped = new Set(selection.drop);
  const drop = dropped.size ? below(data, (name) => dropped.has(name)) : null;
  return Uint8Array.from(set.placeNode, (node) => ((!focus || focus[node]) && !(drop && drop[node]) ? 1 : 0));
}

/** Nodes that are functions whose name matches, or below one. */
export function below(data: Data, matches: (name: string) => boolean): Uint8Array {
  const hit = Uint8Array.from(data.names, (name) => (matches(name) ? 1 : 0));
  const flags = new Uint8Array(data.parent.length);
  for (let node = 1; node < flags.length; node++) flags[node] = hit[data.nodeName[node]] | flags[data.parent[node]];
  return flags;
}

export function sum(data: Data, selection: Selection): Sums {
  const set = data.sets[selection.set] ?? data.sets[0];
  return select(data, selection, inTime(data, set, selection));
}

/** Of a wall clock, by item: 1 for waits of the selected lengths, where not all count. */
export function waitMask(data: Data, set: ItemSet, { waits }: Selection): Uint8Array | null {
  if (!waits || !set.wall) return null;
  const tick = data.about.data.tick_ns;
  const [from, to] = [Math.max(1, waits[0] / tick), waits[1] / tick];
  return Uint8Array.from(set.longest, (longest) => (longest >= from && longest < to ? 1 : 0));
}

type Raw = Pick<Sums, "set" | "cells" | "cell"> & { cellCount: Float64Array };
/** A thread's items. */
interface Run { thread: number; from: number; to: number }

function runsOf(data: Data, set: ItemSet, selection: Selection): Run[] {
  const mask = threadMask(data, selection);
  return set.runs.filter((run) => mask[run.thread]);
}

function inTime(data: Data, set: ItemSet, selection: Selection): Raw {
  const cells = cellsOf(data, set, selection.group);
  const { span } = selection;
  const runs = runsOf(data, set, selection);
  const waits = waitMask(data, set, selection);
  if (!span && !waits && set.isCounted && cells.of === set.place && runs.length === set.runs.length) {
    return { set, cells, cell: set.amount.slice(), cellCount: set.count.slice() };
  }
  const raw = { set, cells, cell: new Float64Array(cells.count), cellCount: new Float64Array(cells.count) };
  const add = (item: number, amount: number, count: number) => {
    if (waits && waits[item] === 0) return;
    const at = cells.of[item];
    raw.cell[at] += amount;
    raw.cellCount[at] += count;
  };
  if (span) runs.forEach((run) => move(data, set, run, { old: [span[0], span[0]], now: span }, add));
  else if (waits) for (const { from, to } of runs) for (let item = from; item < to; item++) add(item, set.amount[item], set.count[item]);
  else runs.forEach((run) => addAll(raw, run));
  return raw;
}

/** Sums of a selection that changes: a drag changes only what is between the old and the new ends of its span. */
export class RunningSums {
  private last: { key: string; selection: Selection; span: [number, number]; sums: Sums; filter: Filter; runs: MovedRun[]; moving: Moving } | null = null;

  constructor(readonly data: Data) {}

  of(selection: Selection): Sums {
    const { data, last } = this;
    const { span, set, group, threads, states, waits, idle, focus, drop } = selection;
    // Lengths are asked of each wait.
    if (waits) return sum(data, selection);
    const key = JSON.stringify([set, group, threads, states, idle, focus, drop]);
    if (span && last?.key === key && span[0] < last.span[1] && span[1] > last.span[0]) return this.moved(span);
    const sums = sum(data, selection);
    if (!span) this.last = null;
    else {
      const filter = filterOf(data, sums.set, selection);
      const runs = runsOf(data, sums.set, selection).map((run) => movedRun(sums.set, run));
      this.last = { key, selection, span, sums, filter, runs, moving: new Moving(sums, filter) };
    }
    return sums;
  }

  /** The last sums with another span: they share their arrays, so the last ones are no longer valid. */
  private moved(span: [number, number]): Sums {
    const { data } = this;
    const { sums: last, selection, runs, moving } = this.last!;
    const sums = { ...last };
    const ends = { old: this.last!.span, now: span };
    moving.total = moving.count = 0;
    const add = (item: number, amount: number, count: number) => moving.add(item, amount, count);
    for (const run of runs) {
      if (run.hasLengths) move(data, sums.set, run, ends, add);
      else movePoints(data, sums.set, run, ends, moving);
    }
    sums.total += moving.total;
    sums.count += moving.count;
    // Who drags looks at amounts: numbers of samples are counted afresh where they are asked for.
    let counts: Float64Array | null = null;
    sums.counts = () => (counts ??= sum(data, { ...selection, span }).counts());
    const { idleLeftOut, whole } = wholeOf(data, sums.states, this.last!.filter);
    Object.assign(sums, { idleLeftOut, whole, id: ++lastId });
    Object.assign(this.last!, { sums, span });
    return sums;
  }
}

/** A thread's items, and which of them are moments. */
interface MovedRun extends Run { timed: number; hasLengths: boolean }

function movedRun(set: ItemSet, run: Run): MovedRun {
  const timed = firstTimed(set, run);
  let at = timed;
  while (at < run.to && set.length[at] === 0) at++;
  return { ...run, timed, hasLengths: at < run.to };
}

/** Sums over the thread's life are the first items. */
function firstTimed(set: ItemSet, run: Run): number {
  let timed = run.from;
  while (timed < run.to && set.since[timed] === 0) timed++;
  return timed;
}

/** What a cell counts for: a state, and whether the state is selected; nothing where its stacks are left out. */
const LEFT_OUT = 255;

/** Amounts by cell while the span's ends move. */
class Moving {
  total = 0;
  count = 0;
  /** By cell: twice its state, and one more if it counts. Each look at memory costs: there are as few as can be. */
  private readonly role: Uint8Array;
  /** The role that all cells have, as in a recording of CPU time; -1 where they differ. */
  private readonly only: number;

  constructor(readonly sums: Sums, { mask, wanted }: Filter) {
    const { set, cells } = sums;
    this.role = new Uint8Array(cells.count);
    for (let at = 0; at < cells.count; at++) {
      const place = cells.place[at];
      const state = set.placeState[place];
      this.role[at] = mask && !mask[place] ? LEFT_OUT : 2 * state + wanted[state];
    }
    const [first] = this.role;
    this.only = first !== LEFT_OUT && this.role.every((role) => role === first) ? first : -1;
  }

  add(item: number, amount: number, count: number): void {
    const { cells, cell, states } = this.sums;
    const at = cells.of[item];
    const role = this.role[at];
    if (role === LEFT_OUT) return;
    states[role >> 1] += amount;
    if ((role & 1) === 0) return;
    cell[at] += amount;
    this.total += amount;
    this.count += count;
  }

  /** Whole items that come in, or with `sign` -1 go out: the same as `add`, with all at hand. */
  addPoints(from: number, to: number, sign: number): void {
    if (this.only > 0 && this.only % 2 === 1) return this.addAlike(from, to, sign);
    const { set: { amount, count }, cells: { of }, cell, states } = this.sums;
    const { role: roles } = this;
    let [total, counted] = [0, 0];
    for (let item = from; item < to; item++) {
      const at = of[item];
      const role = roles[at];
      if (role === LEFT_OUT) continue;
      const by = sign * amount[item];
      states[role >> 1] += by;
      if ((role & 1) === 0) continue;
      cell[at] += by;
      total += by;
      counted += sign * count[item];
    }
    [this.total, this.count] = [this.total + total, this.count + counted];
  }

  /** The same where all cells count and have one state. */
  private addAlike(from: number, to: number, sign: number): void {
    const { set: { amount, count }, cells: { of }, cell, states } = this.sums;
    let [total, counted] = [0, 0];
    for (let item = from; item < to; item++) {
      const by = sign * amount[item];
      cell[of[item]] += by;
      total += by;
      counted += count[item];
    }
    states[this.only >> 1] += total;
    this.total += total;
    this.count += sign * counted;
  }
}

/** `move` for a thread whose timed items are moments: those between the old and the new ends come in or go out. */
function movePoints(data: Data, set: ItemSet, run: MovedRun, ends: Ends, moving: Moving): void {
  change(data, set, [run.from, run.timed], ends, (item, amount, count) => moving.add(item, amount, count));
  const first = (tick: number) => {
    let [low, high] = [run.timed, run.to];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (set.since[middle] <= tick) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const [[oldFrom, oldTo], [nowFrom, nowTo]] = [ends.old, ends.now];
  moving.addPoints(first(Math.min(oldFrom, nowFrom)), first(Math.max(oldFrom, nowFrom)), nowFrom < oldFrom ? 1 : -1);
  moving.addPoints(first(Math.min(oldTo, nowTo)), first(Math.max(oldTo, nowTo)), nowTo > oldTo ? 1 : -1);
}

function addAll({ set, cells: { of }, cell, cellCount }: Raw, { from, to }: Run): void {
  const { amount, count } = set;
  for (let item = from; item < to; item++) {
    const at = of[item];
    cell[at] += amount[item];
    cellCount[at] += count[item];
  }
}

/** A span before and after. */
interface Ends { old: [number, number]; now: [number, number] }
type Add = (item: number, amount: number, count: number) => void;

/** Changes the amounts from those of one span to those of another: only items that reach what is between their ends. */
function move(data: Data, set: ItemSet, run: Run, ends: Ends, add: Add): void {
  const { old, now } = ends;
  const timed = firstTimed(set, run);
  change(data, set, [run.from, timed], ends, add);
  const between = [0, 1].map((end) => range(set, timed, run.to, [Math.min(old[end], now[end]), Math.max(old[end], now[end])]));
  const [[first, mid], [next, end]] = between;
  change(data, set, [first, mid], ends, add);
  change(data, set, [Math.max(mid, next), end], ends, add);
}

/** Whole numbers only: sums stay exact. */
function change(data: Data, set: ItemSet, [from, to]: number[], { old, now }: Ends, add: Add): void {
  const { amount, count, since, length } = set;
  const [[oldFrom, oldTo], [nowFrom, nowTo]] = [old, now];
  for (let item = from; item < to; item++) {
    const begin = since[item];
    if (length[item] > 0 || begin === 0) {
      const [more, less] = [inside(set, data, item, nowFrom, nowTo), inside(set, data, item, oldFrom, oldTo)];
      if (more !== less) add(item, more - less, partOf(count[item], more / amount[item]) - partOf(count[item], less / amount[item]));
      continue;
    }
    const sign = (begin > nowFrom && begin <= nowTo ? 1 : 0) - (begin > oldFrom && begin <= oldTo ? 1 : 0);
    if (sign !== 0) add(item, sign * amount[item], sign * count[item]);
  }
}

function partOf(count: number, part: number): number {
  return Number.isFinite(part) ? Math.round(1024 * count * part) / 1024 : 0;
}

/** Places and states that count. */
interface Filter { mask: Uint8Array | null; wanted: Uint8Array; leavesIdleOut: boolean }

function filterOf(data: Data, set: ItemSet, selection: Selection): Filter {
  const idle = data.states.indexOf("idle");
  const wanted = Uint8Array.from(data.states, (state, at) =>
    selection.states.length ? (selection.states.includes(state) ? 1 : 0) : at !== idle || selection.idle ? 1 : 0);
  return { mask: placeMask(data, set, selection), wanted, leavesIdleOut: idle >= 0 && !selection.idle };
}

function wholeOf(data: Data, states: Float64Array, { leavesIdleOut }: Filter): { idleLeftOut: number; whole: number } {
  const idleLeftOut = leavesIdleOut ? states[data.states.indexOf("idle")] : 0;
  return { idleLeftOut, whole: states.reduce((a, b) => a + b, 0) - idleLeftOut };
}

/** Applies states and functions to the amounts by cell. */
function select(data: Data, selection: Selection, { set, cells, cell, cellCount }: Raw): Sums {
  const states = new Float64Array(data.states.length);
  const filter = filterOf(data, set, selection);
  const { mask, wanted } = filter;
  let [total, count] = [0, 0];
  for (let at = 0; at < cell.length; at++) {
    if (cell[at] === 0) continue;
    const place = cells.place[at];
    const state = set.placeState[place];
    if (mask && !mask[place]) {
      cell[at] = cellCount[at] = 0;
      continue;
    }
    states[state] += cell[at];
    if (!wanted[state]) cell[at] = cellCount[at] = 0;
    else {
      total += cell[at];
      count += cellCount[at];
    }
  }
  return { set, cells, cell, counts: () => cellCount, states, total, ...wholeOf(data, states, filter), count, id: ++lastId };
}

/** Places with an amount. */
export function shownPlaces(sums: Sums): Uint8Array {
  const shown = new Uint8Array(sums.set.placeNode.length);
  for (let at = 0; at < sums.cell.length; at++) if (sums.cell[at] > 0) shown[sums.cells.place[at]] = 1;
  return shown;
}

export interface FunctionRow { name: number; own: Float64Array; total: Float64Array; ownSum: number; totalSum: number }

/**
 * Own amounts by name, of one state or of all (-1). With `isUser` the kernel's own time is that of the function outside of it
 * that called it.
 */
export function ownByName(data: Data, { set, cells, cell }: Sums, wanted = -1, isUser = false): Float64Array {
  const own = new Float64Array(data.names.length);
  const { nodeName, kinds, parent } = data;
  for (let at = 0; at < cell.length; at++) {
    const place = cells.place[at];
    if (cell[at] === 0 || (wanted >= 0 && set.placeState[place] !== wanted)) continue;
    const node = set.placeNode[place];
    let owner = node;
    while (isUser && owner !== 0 && kinds[nodeName[owner]] === Kind.Kernel) owner = parent[owner];
    own[nodeName[owner === 0 ? node : owner]] += cell[at];
  }
  return own;
}

/** The names with the greatest amounts, greatest first. */
export function greatest(own: Float64Array, count: number): number[] {
  const first: number[] = [];
  own.forEach((value, name) => {
    if (value <= 0 || (first.length === count && value <= own[first[count - 1]])) return;
    let at = first.length;
    while (at > 0 && own[first[at - 1]] < value) at--;
    first.splice(at, 0, name);
    if (first.length > count) first.pop();
  });
  return first;
}

/** Own and total amounts by function and state. Waits count as own time of the innermost function outside the kernel. */
export function functions(data: Data, sums: Sums): FunctionRow[] {
  const { set, cells, cell } = sums;
  const [states, nodes] = [data.states.length, data.parent.length];
  const totals = new Float64Array(nodes * states);
  const rows = new Map<number, FunctionRow>();
  const row = (name: number) => {
    let found = rows.get(name);
    if (!found) rows.set(name, (found = { name, own: new Float64Array(states), total: new Float64Array(states), ownSum: 0, totalSum: 0 }));
    return found;
  };
  const used = new Set<number>();
  for (let at = 0; at < cell.length; at++) {
    if (cell[at] === 0) continue;
    const [node, state] = [set.placeNode[cells.place[at]], set.placeState[cells.place[at]]];
    totals[node * states + state] += cell[at];
    used.add(state);
    let owner = node;
    if (state >= set.firstWait) {
      while (owner !== 0 && data.kinds[data.nodeName[owner]] === Kind.Kernel) owner = data.parent[owner];
      if (owner === 0) owner = node;
    }
    const of = row(data.nodeName[owner]);
    of.own[state] += cell[at];
    of.ownSum += cell[at];
  }
  const inUse = [...used];
  for (let node = nodes - 1; node > 0; node--) {
    for (const state of inUse) totals[data.parent[node] * states + state] += totals[node * states + state];
  }
  // A function that is on the path already is recursion: it counts once.
  const open = new Int32Array(data.names.length);
  const path: number[] = [];
  for (let node = 1; node < nodes; node++) {
    while (path.length && data.end[path[path.length - 1]] <= node) open[data.nodeName[path.pop()!]]--;
    const name = data.nodeName[node];
    if (open[name] === 0) {
      let of: FunctionRow | undefined;
      for (const state of inUse) {
        const amount = totals[node * states + state];
        if (amount === 0) continue;
        of ??= row(name);
        of.total[state] += amount;
        of.totalSum += amount;
      }
    }
    open[name]++;
    path.push(node);
  }
  return [...rows.values()];
}

export interface Found { share: number; amount: number; places: number; names: number; error: string; hit: Uint8Array | null }

/** The share of all stacks with a function that matches, over the whole tree. */
export function search(data: Data, sums: Sums, text: string): Found {
  const none = { share: 0, amount: 0, places: 0, names: 0, error: "", hit: null };
  if (!text) return none;
  let pattern: RegExp;
  try {
    pattern = new RegExp(text, /[A-Z]/.test(text) ? "" : "i");
  } catch (error) {
    return { ...none, error: String((error as Error).message).replace(/^Invalid regular expression: /, "") };
  }
  const hit = new Uint8Array(data.names.length);
  data.names.forEach((name, at) => { if (pattern.test(name)) hit[at] = 1; });
  const flags = new Uint8Array(data.parent.length);
  let places = 0;
  for (let node = 1; node < flags.length; ) {
    if (!hit[data.nodeName[node]]) {
      node++;
      continue;
    }
    // All that it calls is part of it.
    places++;
    flags.fill(1, node, data.end[node]);
    node = data.end[node];
  }
  let amount = 0;
  const { set, cells, cell } = sums;
  for (let at = 0; at < cell.length; at++) if (flags[set.placeNode[cells.place[at]]]) amount += cell[at];
  const names = hit.reduce((sum, one) => sum + one, 0);
  return { share: sums.total > 0 ? amount / sums.total : 0, amount, places, names, error: "", hit };
}

/** States by share in words. */
export function mix(data: Data, sums: Sums, selection: Selection): string {
  const wanted = (state: string) => (selection.states.length ? selection.states.includes(state) : state !== "idle" || selection.idle);
  const parts = [...sums.states].map((value, state) => ({ value, state })).filter((part) => part.value > 0 && wanted(data.states[part.state])).sort((a, b) => b.value - a.value);
  const all = parts.reduce((whole, part) => whole + part.value, 0);
  return parts.slice(0, 4).map(({ value, state }) => `${data.states[state]} ${percent(value, all)}`).join(" · ") || "nothing recorded";
}
