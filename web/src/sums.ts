// Amounts of the selection: by place, by state, by thread. All other views are computed from these.

import { Data, ItemSet, Kind } from "./data";
import { Selection } from "./selection";

export interface Sums {
  set: ItemSet;
  groups: string[];
  /** Amount by group and place (`group * places + place`), only of the selected states and stacks. */
  place: Float64Array;
  placeCount: Float64Array;
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

/** Part of an item that is inside a span. */
export function inside(set: ItemSet, data: Data, item: number, from: number, to: number): number {
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

/** Groups of threads for the flame graph, and each thread's group. */
export function groupsOf(data: Data, selection: Selection): { groups: string[]; of: Int32Array } {
  const threads = data.about.data.threads;
  const of = new Int32Array(Math.max(1, threads.length));
  if (selection.group === "none" || threads.length === 0) return { groups: [""], of };
  const names: string[] = [];
  const index = new Map<string, number>();
  const most = selection.group === "thread" ? 200 : 60;
  threads.forEach((thread, at) => {
    let name = selection.group === "thread" ? `${thread.comm} ${thread.tid}` : thread.comm;
    if (!index.has(name) && names.length >= most) name = "other threads";
    if (!index.has(name)) index.set(name, names.push(name) - 1);
    of[at] = index.get(name)!;
  });
  return { groups: names, of };
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
  const places = set.placeNode.length;
  const { groups, of } = groupsOf(data, selection);
  const place = new Float64Array(groups.length * places);
  const placeCount = new Float64Array(groups.length * places);
  const threads = threadMask(data, selection);
  const span = selection.span;
  for (let item = 0; item < set.items; item++) {
    const thread = set.thread[item];
    if (!threads[thread]) continue;
    const amount = span ? inside(set, data, item, span[0], span[1]) : set.amount[item];
    if (amount === 0) continue;
    const at = of[thread] * places + set.place[item];
    place[at] += amount;
    placeCount[at] += span ? (set.count[item] * amount) / set.amount[item] : set.count[item];
  }
  return select(data, selection, { set, groups, place, placeCount });
}

/** Applies states and functions to the amounts by place. */
function select(data: Data, selection: Selection, of: Pick<Sums, "set" | "groups" | "place" | "placeCount">): Sums {
  const { set, place, placeCount } = of;
  const places = set.placeNode.length;
  const states = new Float64Array(data.states.length);
  const mask = placeMask(data, set, selection);
  const idle = data.states.indexOf("idle");
  const wanted = Uint8Array.from(data.states, (state, at) =>
    selection.states.length ? (selection.states.includes(state) ? 1 : 0) : at !== idle || selection.idle ? 1 : 0);
  let [total, count] = [0, 0];
  for (let at = 0; at < place.length; at++) {
    if (place[at] === 0) continue;
    const which = at % places;
    const state = set.placeState[which];
    if (mask && !mask[which]) {
      place[at] = 0;
      continue;
    }
    states[state] += place[at];
    if (!wanted[state]) place[at] = 0;
    else {
      total += place[at];
      count += placeCount[at];
    }
  }
  const idleLeftOut = idle >= 0 && !selection.idle ? states[idle] : 0;
  const whole = states.reduce((a, b) => a + b, 0) - idleLeftOut;
  return { ...of, states, total, whole, idleLeftOut, count };
}

export interface FunctionRow { name: number; own: Float64Array; total: Float64Array; ownSum: number; totalSum: number }

/** Own and total amounts by function and state. Waits count as own time of the innermost function outside the kernel. */
export function functions(data: Data, sums: Sums): FunctionRow[] {
  const { set, place } = sums;
  const [places, states, nodes] = [set.placeNode.length, data.states.length, data.parent.length];
  const totals = new Float64Array(nodes * states);
  const rows = new Map<number, FunctionRow>();
  const row = (name: number) => {
    let found = rows.get(name);
    if (!found) rows.set(name, (found = { name, own: new Float64Array(states), total: new Float64Array(states), ownSum: 0, totalSum: 0 }));
    return found;
  };
  const used = new Set<number>();
  for (let at = 0; at < place.length; at++) {
    if (place[at] === 0) continue;
    const [node, state] = [set.placeNode[at % places], set.placeState[at % places]];
    totals[node * states + state] += place[at];
    used.add(state);
    let owner = node;
    if (set.wall && state !== 0) {
      while (owner !== 0 && data.kinds[data.nodeName[owner]] === Kind.Kernel) owner = data.parent[owner];
      if (owner === 0) owner = node;
    }
    const of = row(data.nodeName[owner]);
    of.own[state] += place[at];
    of.ownSum += place[at];
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
  const count = sums.set.placeNode.length;
  for (let at = 0; at < sums.place.length; at++) if (flags[sums.set.placeNode[at % count]]) amount += sums.place[at];
  const names = hit.reduce((sum, one) => sum + one, 0);
  return { share: sums.total > 0 ? amount / sums.total : 0, amount, places, names, error: "", hit };
}
