// Amounts of the selection: by place, by state, by thread. All other views are computed from these.

import { Cells, cellsOf } from "./cells";
import { Data, ItemSet, Kind, range } from "./data";
import { Selection } from "./selection";

export interface Sums {
  set: ItemSet;
  cells: Cells;
  /** Amount and count by cell, only of the selected states and stacks. */
  cell: Float64Array;
  cellCount: Float64Array;
  /** Amount of each state in the selected time and threads, whatever states are selected. */
  states: Float64Array;
  /** Σ of the selected. */
  total: number;
  /** Σ whatever states are selected, idle time left out unless it is shown. */
  whole: number;
  /** Idle time that is left out. */
  idleLeftOut: number;
  count: number;
}

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
  const { cell, cellCount, cells } = inTime(data, set, selection);
  return select(data, selection, { set, cells, cell: cell.slice(), cellCount: cellCount.slice() });
}

type Raw = Pick<Sums, "set" | "cells" | "cell" | "cellCount">;
/** A thread's items. */
interface Run { thread: number; from: number; to: number }

/** The amounts of the last span: a drag changes only what is between its old and its new ends. */
let last: (Raw & { threads: string; span: [number, number] | null }) | null = null;

function inTime(data: Data, set: ItemSet, selection: Selection): Raw {
  const cells = cellsOf(data, set, selection.group);
  const [span, threads] = [selection.span, selection.threads.join()];
  const mask = threadMask(data, selection);
  const runs = set.runs.filter((run) => mask[run.thread]);
  if (span && last?.span && last.set === set && last.cells === cells && last.threads === threads && span[0] < last.span[1] && span[1] > last.span[0]) {
    for (const run of runs) move(data, last, run, last.span, span);
    last.span = span;
    return last;
  }
  const raw = { set, cells, cell: new Float64Array(cells.count), cellCount: new Float64Array(cells.count) };
  if (span) runs.forEach((run) => move(data, raw, run, [span[0], span[0]], span));
  else runs.forEach((run) => addAll(raw, run));
  last = { ...raw, threads, span };
  return raw;
}

function addAll({ set, cells: { of }, cell, cellCount }: Raw, { from, to }: Run): void {
  const { amount, count } = set;
  for (let item = from; item < to; item++) {
    const at = of[item];
    cell[at] += amount[item];
    cellCount[at] += count[item];
  }
}

/** Changes the amounts from those of one span to those of another: only items that reach what is between their ends. */
function move(data: Data, raw: Raw, run: Run, old: [number, number], now: [number, number]): void {
  // Sums over the thread's life are the first items.
  let timed = run.from;
  while (timed < run.to && raw.set.since[timed] === 0) timed++;
  change(data, raw, [run.from, timed], old, now);
  const between = [0, 1].map((end) => range(raw.set, timed, run.to, [Math.min(old[end], now[end]), Math.max(old[end], now[end])]));
  const [[first, mid], [next, end]] = between;
  change(data, raw, [first, mid], old, now);
  change(data, raw, [Math.max(mid, next), end], old, now);
}

/** Whole numbers only: sums stay exact. */
function change(data: Data, { set, cells: { of }, cell, cellCount }: Raw, [from, to]: number[], old: [number, number], now: [number, number]): void {
  const { amount, count, since, length } = set;
  for (let item = from; item < to; item++) {
    const begin = since[item];
    if (length[item] > 0 || begin === 0) {
      const [more, less] = [inside(set, data, item, now[0], now[1]), inside(set, data, item, old[0], old[1])];
      cell[of[item]] += more - less;
      cellCount[of[item]] += partOf(count[item], more / amount[item]) - partOf(count[item], less / amount[item]);
      continue;
    }
    const sign = (begin > now[0] && begin <= now[1] ? 1 : 0) - (begin > old[0] && begin <= old[1] ? 1 : 0);
    if (sign === 0) continue;
    cell[of[item]] += sign * amount[item];
    cellCount[of[item]] += sign * count[item];
  }
}

function partOf(count: number, part: number): number {
  return Number.isFinite(part) ? Math.round(1024 * count * part) / 1024 : 0;
}

/** Applies states and functions to the amounts by cell. */
function select(data: Data, selection: Selection, of: Raw): Sums {
  const { set, cells, cell, cellCount } = of;
  const states = new Float64Array(data.states.length);
  const mask = placeMask(data, set, selection);
  const idle = data.states.indexOf("idle");
  const wanted = Uint8Array.from(data.states, (state, at) =>
    selection.states.length ? (selection.states.includes(state) ? 1 : 0) : at !== idle || selection.idle ? 1 : 0);
  let [total, count] = [0, 0];
  for (let at = 0; at < cell.length; at++) {
    if (cell[at] === 0) continue;
    const place = cells.place[at];
    const state = set.placeState[place];
    if (mask && !mask[place]) {
      cell[at] = 0;
      continue;
    }
    states[state] += cell[at];
    if (!wanted[state]) cell[at] = 0;
    else {
      total += cell[at];
      count += cellCount[at];
    }
  }
  const idleLeftOut = idle >= 0 && !selection.idle ? states[idle] : 0;
  const whole = states.reduce((a, b) => a + b, 0) - idleLeftOut;
  return { ...of, states, total, whole, idleLeftOut, count };
}

/** Places with an amount. */
export function shownPlaces(sums: Sums): Uint8Array {
  const shown = new Uint8Array(sums.set.placeNode.length);
  for (let at = 0; at < sums.cell.length; at++) if (sums.cell[at] > 0) shown[sums.cells.place[at]] = 1;
  return shown;
}

export interface FunctionRow { name: number; own: Float64Array; total: Float64Array; ownSum: number; totalSum: number }

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
    if (set.wall && state !== 0) {
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
  const hit = Uint8Array.from(data.names, (name) => (pattern.test(name) ? 1 : 0));
  const flags = new Uint8Array(data.parent.length);
  let places = 0;
  for (let node = 1; node < flags.length; node++) {
    const own = hit[data.nodeName[node]];
    if (own && !flags[data.parent[node]]) places++;
    flags[node] = own | flags[data.parent[node]];
  }
  let amount = 0;
  const { set, cells, cell } = sums;
  for (let at = 0; at < cell.length; at++) if (flags[set.placeNode[cells.place[at]]]) amount += cell[at];
  const names = hit.reduce((sum, one) => sum + one, 0);
  return { share: sums.total > 0 ? amount / sums.total : 0, amount, places, names, error: "", hit };
}
