// Waits by the first function outside the kernel that tells them from other waits, with sleepers' and wakers' stacks.

import { Data, ItemSet, Kind } from "./data";
import { clear, el } from "./dom";
import { countOf, duration, grouped, percent } from "./format";
import { stackWords, withFile } from "./functions";
import { stateColour } from "./palette";
import { Selection, Store } from "./selection";
import { labelsOf } from "./stacks";
import { inside, shownPlaces, Sums, threadMask, waitMask } from "./sums";
import { Table } from "./table";

export interface WaitRow {
  state: number; node: number; label: string; total: number; count: number; max: number;
  /** Lengths of the items and numbers of their waits; each of a sum has its mean. */
  lengths: number[]; counts: number[];
  /** Its items, and how much of each is in the selected time. */
  items: number[]; parts: number[];
  /** Places in both by length, made when they are first asked for. */
  order: number[] | null;
}

export class Waits {
  readonly box = el("div", { class: "pane" });
  private readonly note = el("p", { class: "note" });
  private readonly detail = el("div", { class: "split" });
  private readonly table: Table<WaitRow>;
  private sums: Sums | null = null;
  private chosen: WaitRow | null = null;
  private readonly graph: Table<Edge>;
  private readonly known = el("h3", {});

  constructor(readonly data: Data, readonly store: Store) {
    this.table = new Table("waits", [
      { title: "total", class: "n", sort: (row) => row.total, cell: (row) => duration(row.total) },
      { title: "%", class: "n", cell: (row) => percent(row.total, this.sums!.total) },
      { title: "waits", class: "n", sort: (row) => row.count, cell: (row) => (row.count > 0 ? grouped(row.count) : "") },
      { title: "p50", class: "n", help: "half of the recorded waits are shorter; waits known as a sum count with their mean", sort: (row) => percentile(row, 0.5), cell: (row) => (row.count > 0 ? duration(percentile(row, 0.5)) : "") },
      { title: "p99", class: "n", sort: (row) => percentile(row, 0.99), cell: (row) => (row.count > 0 ? duration(percentile(row, 0.99)) : "") },
      { title: "longest", class: "n wide", sort: (row) => row.max, cell: (row) => (row.max > 0 ? duration(row.max) : "") },
      { title: "lengths", class: "bar wide", help: "number of waits by length, in powers of two", cell: (row) => spark(row) },
      { title: "state", sort: (row) => this.data.states[row.state], cell: (row) => stateMark(this.data.states[row.state]) },
      { title: "where", class: "name", sort: (row) => row.label, cell: (row) => el("span", { title: stackOf(this.data, row.node).join(" < "), text: stackWords(this.data, row.label) }) },
    ], (row) => this.choose(row), 0, (row) => (row === this.chosen ? "chosen" : ""));
    this.graph = new Table("who waited for whom", [
      { title: "total", class: "n", sort: (edge) => edge.ns, cell: (edge) => duration(edge.ns) },
      { title: "%", class: "n", cell: (edge) => percent(edge.ns, this.sums!.total) },
      { title: "", class: "bar", cell: (edge) => edgeBar(edge, data) },
      { title: "waited", sort: (edge) => edge.from, cell: (edge) => edge.from },
      { title: "→ for", help: "the thread that ended the wait, or that had the CPU", sort: (edge) => edge.to, cell: (edge) => `→ ${edge.to}` },
      { title: "mostly", cell: (edge) => stateMark(data.states[most(edge.states)]) },
    ], (edge) => store.change({ threads: edge.threads }));
    this.box.append(this.note, this.table.box, this.detail, this.known, this.graph.box);
  }

  show(sums: Sums, selection: Selection): void {
    this.sums = sums;
    const rows = waitRows(this.data, sums, selection);
    const all = rows.reduce((sum, row) => sum + row.total, 0);
    this.note.textContent = `${countOf(rows.length, "place", "places")} · ${duration(all)} of waiting, ${percent(all, sums.total)} of ${duration(sums.total)} · a click shows who ended the waits`;
    this.chosen = rows.find((row) => row.node === this.chosen?.node && row.state === this.chosen?.state) ?? rows[0] ?? null;
    this.table.show(rows);
    this.drawDetail();
    const edges = edgesOf(this.data, sums.set, rows);
    const known = edges.reduce((sum, edge) => sum + edge.ns, 0);
    this.known.textContent = `Who waited for whom: ${percent(known, all)} of the waiting is for a known thread · a click selects the waiting threads`;
    this.known.hidden = this.graph.box.hidden = known === 0;
    this.graph.show(edges);
  }

  private choose(row: WaitRow): void {
    this.chosen = row;
    this.show(this.sums!, this.store.current);
  }

  /** The sleeper's stack, and the threads that ended its waits with theirs. */
  private drawDetail(): void {
    clear(this.detail);
    const row = this.chosen;
    if (!row) return;
    const [data, set] = [this.data, this.sums!.set];
    const sleeper = el("section", {}, el("h3", { text: `${data.states[row.state]} here` }), stackList(data, stackOf(data, row.node)));
    const by = new Map<number, number>();
    let known = 0;
    row.items.forEach((item, at) => {
      const waker = set.waker[item];
      if (waker === 0) return;
      by.set(waker, (by.get(waker) ?? 0) + row.parts[at]);
      known += row.parts[at];
    });
    const ended = data.states[row.state] === "preempted" ? "ran instead" : "ended by";
    const wakers = el("section", {}, el("h3", { text: known > 0 ? `${ended} (of the ${percent(known, row.total)} where it is known)` : `${ended}: not recorded` }));
    for (const [waker, ns] of [...by].sort((a, b) => b[1] - a[1]).slice(0, 4)) {
      const node = data.wakerNode[waker - 1];
      wakers.append(el("h4", { text: `${percent(ns, known)} ${data.about.data.wakers[waker - 1] || "unknown"}` }), wakerStack(data, node ? stackOf(data, node) : []));
    }
    this.detail.append(sleeper, wakers);
  }
}

/** Waits of threads of one name that threads of another ended, or ran in place of; `threads` are the ids of the first. */
interface Edge { from: string; to: string; ns: number; states: Float64Array; threads: number[] }

function edgesOf(data: Data, set: ItemSet, rows: WaitRow[]): Edge[] {
  const edges = new Map<string, Edge>();
  const { threads, wakers } = data.about.data;
  for (const row of rows) row.items.forEach((item, at) => {
    const [thread, waker] = [threads[set.thread[item]], set.waker[item]];
    if (waker === 0 || !thread) return;
    const [from, to] = [thread.comm, wakers[waker - 1] || "unknown"];
    let edge = edges.get(`${from}\n${to}`);
    if (!edge) edges.set(`${from}\n${to}`, (edge = { from, to, ns: 0, states: new Float64Array(data.states.length), threads: [] }));
    edge.ns += row.parts[at];
    edge.states[row.state] += row.parts[at];
    if (!edge.threads.includes(thread.tid)) edge.threads.push(thread.tid);
  });
  return [...edges.values()];
}

export const most = (values: Float64Array) => values.indexOf(Math.max(...values));

/** The states of an edge by share. */
function edgeBar({ states, ns }: Edge, data: Data): HTMLElement {
  const box = el("span", { class: "cell-bar" });
  states.forEach((value, state) => {
    const part = el("i", { title: `${data.states[state]} ${percent(value, ns)}` });
    part.style.width = `${(100 * value) / ns}%`;
    part.style.background = stateColour(data.states[state]);
    if (value > 0) box.append(part);
  });
  return box;
}

export function stateMark(state: string): HTMLElement {
  const mark = el("i", { class: "kind" });
  mark.style.background = stateColour(state);
  return el("span", {}, mark, state);
}

function stackList(data: Data, names: string[]): HTMLElement {
  return el("ol", { class: "stack" }, ...names.slice(0, 14).map((name) => el("li", { title: name, text: withFile(data, name) })), names.length > 14 ? el("li", { class: "dim", text: `… ${names.length - 14} more` }) : null);
}

/** Programs outside the recording have no stacks. */
function wakerStack(data: Data, names: string[]): HTMLElement {
  const isKnown = names.some((name) => name !== "[unknown]");
  return isKnown ? stackList(data, names) : el("p", { class: "dim", text: "its stack was not recorded" });
}

/** Names of a stack, innermost first, without the kernel's if there are others. */
export function stackOf(data: Data, node: number): string[] {
  const all: string[] = [];
  const user: string[] = [];
  for (; node !== 0; node = data.parent[node]) {
    const name = data.nodeName[node];
    // A label of a goroutine.
    if (data.kinds[name] === Kind.Task && data.about.data.threads.length) continue;
    all.push(data.names[name]);
    if (data.kinds[name] !== Kind.Kernel) user.push(data.names[name]);
  }
  return user.length ? user : all;
}

/** Waits by state and innermost place outside the kernel. */
export function waitRows(data: Data, sums: Sums, selection: Selection): WaitRow[] {
  const set = sums.set;
  if (!set.wall) return [];
  const rows = new Map<string, WaitRow>();
  const threads = threadMask(data, selection);
  const isShown = shownPlaces(sums);
  const lengths = waitMask(data, set, selection);
  for (let item = 0; item < set.items; item++) {
    const place = set.place[item];
    const state = set.placeState[place];
    if (state === 0 || !threads[set.thread[item]] || !isShown[place] || (lengths && !lengths[item])) continue;
    const ns = selection.span ? inside(set, data, item, ...selection.span) : set.amount[item];
    if (ns <= 0) continue;
    add(rows, data, set, item, ns);
  }
  const all = [...rows.values()];
  label(data, all);
  return all.sort((a, b) => b.total - a.total);
}

const made = new WeakMap<Data, Int32Array>();

/** By node, the first of those whose stacks are the same but for labels. */
function withoutLabels(data: Data): Int32Array {
  let same = made.get(data);
  if (same) return same;
  made.set(data, (same = Int32Array.from(data.parent.keys())));
  if (!labelsOf(data).length) return same;
  const first = new Map<string, number>();
  for (let node = 1; node < same.length; node++) {
    const [above, name] = [same[data.parent[node]], data.nodeName[node]];
    const key = `${above} ${name}`;
    if (data.kinds[name] === Kind.Task) same[node] = above;
    else if (first.has(key)) same[node] = first.get(key)!;
    else first.set(key, node);
  }
  return same;
}

function add(rows: Map<string, WaitRow>, data: Data, set: ItemSet, item: number, ns: number): void {
  const place = set.place[item];
  const { parent, kinds, nodeName } = data;
  let node = withoutLabels(data)[set.placeNode[place]];
  while (parent[node] !== 0 && kinds[nodeName[parent[node]]] !== Kind.Task && kinds[nodeName[node]] === Kind.Kernel) node = parent[node];
  const state = set.placeState[place];
  const key = `${state} ${node}`;
  let row = rows.get(key);
  if (!row) rows.set(key, (row = { state, node, label: "", total: 0, count: 0, max: 0, lengths: [], counts: [], items: [], parts: [], order: null }));
  row.total += ns;
  row.items.push(item);
  row.parts.push(ns);
  const length = set.length[item] * data.about.data.tick_ns;
  if (length === 0) return;
  const count = set.count[item] * (ns / set.amount[item]);
  row.count += count;
  row.max = Math.max(row.max, length);
  row.lengths.push(set.count[item] > 0 ? Math.min(length, set.amount[item] / set.count[item]) : length);
  row.counts.push(count);
}

/** So large a part of the waits took no longer. */
function percentile(row: WaitRow, part: number): number {
  const { lengths, counts } = row;
  row.order ??= [...lengths.keys()].sort((a, b) => lengths[a] - lengths[b]);
  let before = 0;
  for (const at of row.order) if ((before += counts[at]) >= row.count * part) return lengths[at];
  return row.max;
}

/** Numbers of waits by the power of two below their length. */
function buckets({ lengths, counts }: WaitRow): Float64Array {
  const buckets = new Float64Array(48);
  lengths.forEach((length, at) => { buckets[Math.max(0, Math.min(47, Math.floor(Math.log2(Math.max(1, length)))))] += counts[at]; });
  return buckets;
}

/** Rows with the same innermost functions are told apart by the first caller in which they differ. */
function label(data: Data, rows: WaitRow[]): void {
  const stacks = rows.map((row) => stackOf(data, row.node));
  const leaf = (at: number, depth: number) => stacks[at].slice(0, depth).join(" < ");
  const groups = new Map<string, number[]>();
  rows.forEach((row, at) => {
    const key = `${row.state} ${leaf(at, 1)}`;
    groups.set(key, [...(groups.get(key) ?? []), at]);
  });
  const open = [...groups.values()].map((members) => ({ members, depth: 1 }));
  while (open.length) {
    const { members, depth } = open.pop()!;
    if (members.length === 1 || depth > 60) {
      for (const at of members) rows[at].label = distinct(stacks[at], depth);
      continue;
    }
    const next = new Map<string, number[]>();
    for (const at of members) next.set(stacks[at][depth] ?? "", [...(next.get(stacks[at][depth] ?? "") ?? []), at]);
    for (const [, group] of next) open.push({ members: group, depth: depth + 1 });
  }
}

/** It has more of a name than its file and address. */
export const isNamed = (name: string) => !/^(function 0x|\[)/.test(name);

/** A function of Python, below which are those of its interpreter: `run (work.py)`. */
const isPython = (name: string) => name.endsWith(".py)");

/**
 * `wait < … < common < distinct`: the innermost function, the one that only this place has, with the named one inside of
 * it; where its name is only an address also the first caller with a name, and in an interpreter the function of Python.
 */
export function distinct(stack: string[], depth: number): string {
  if (stack.length === 0) return "[no stack]";
  const at = Math.min(depth - 1, stack.length - 1);
  let shown = stack.map((_, place) => place).slice(0, Math.max(4, at + 2));
  if (at >= 4) {
    let inside = at - 1;
    for (let place = at - 1; place > 0; place--) if (isNamed(stack[place])) { inside = place; break; }
    shown = [0, inside, at];
  }
  const last = shown[shown.length - 1];
  const after = (is: (name: string) => boolean) => stack.findIndex((name, place) => place > last && is(name));
  const python = shown.some((place) => isPython(stack[place])) ? -1 : after(isPython);
  const caller = python > 0 || isNamed(stack[last]) ? python : after(isNamed);
  if (caller > 0) shown.push(caller);
  return shown.map((place, i) => (i === 0 ? "" : place > shown[i - 1] + 1 ? " < … < " : " < ") + stack[place]).join("");
}

function spark(row: WaitRow): SVGSVGElement | string {
  if (row.count <= 0) return "";
  const counts = buckets(row);
  const used = [...counts.keys()].filter((bucket) => counts[bucket] > 0);
  const [first, last] = [used[0], used[used.length - 1]];
  const most = Math.max(...counts);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${Math.max(24, (last - first + 1) * 4)} 14`);
  svg.setAttribute("class", "spark");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `from ${duration(2 ** first)} to ${duration(2 ** (last + 1))}`);
  for (const bucket of used) {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const tall = Math.max(1, (13 * counts[bucket]) / most);
    for (const [key, value] of Object.entries({ x: (bucket - first) * 4, y: 14 - tall, width: 3, height: tall })) bar.setAttribute(key, String(value));
    svg.append(bar);
  }
  return svg;
}

