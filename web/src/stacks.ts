// Trees of frames for the flame graphs. The folded tree is made once for a way of folding and grouping; amounts are put
// in for each selection. Frames are made on demand, only where they are wide enough to be seen.

import { Cells, Pairs } from "./cells";
import { Data, ItemSet, Kind } from "./data";
import { Selection } from "./selection";
import { Sums } from "./sums";

/** False in the script of pages without times. */
declare const IS_WHOLE: boolean;

/** Frames between the thread's start and the program's main function. */
const START = /^(_start|__libc_start_main.*|__libc_start_call_main|start_thread|__?clone3?|thread_start|__GI___clone3?|__libc_start_main_impl)$/;
const MAIN = /^__libc_start_main/;
/** The way into the kernel, and the first function after it where the one that serves the call left no frame. */
const ENTRY = /^(entry_SYSCALL|entry_INT80|do_syscall_64$|x64_sys_call$|do_int80_syscall_32$|el0t_64_sync|el0_svc|do_el0_svc|invoke_syscall)/;
const AFTER_ENTRY = /^(?:ksys|do_sys|kernel|do)_(.+)$/;
/** Functions that call each other in a circle of at most this many are folded. */
const LONGEST_CIRCLE = 4;
const CALL = /^__(?:x64|ia32|arm64|se|do)_(?:compat_)?sys_(.+)$/;
const FAULT = /^(asm_)?exc_page_fault$|^do_user_addr_fault$|^el0_da$/;
const INTERRUPT = /^(asm_)?(sysvec_|common_interrupt|exc_nmi)|^el[01]_interrupt$/;

/** Folded nodes, callers first; each has a label, and each cell of a set ends in one. */
export interface Folded {
  /** Texts of labels: first the recording's names, then those of folding. */
  texts: string[];
  length: number;
  label: Int32Array; kind: Uint8Array; parent: Int32Array; repeats: Int32Array;
  /** By cell: the node. */
  leaf: Int32Array;
  states: number;
  /** States that a cell has, and by cell the index of its own; made when it is first asked for. */
  used: number[]; stateOf: Uint8Array | null;
  /** Amounts by used state and node, callees included; own, and of all states. */
  total: Float64Array[]; own: Float64Array; sum: Float64Array;
  /** Numbers of samples, put in when they are asked for. */
  ownCount: Float64Array; count: Float64Array; counted: number;
  /** The sums whose own amounts are in. */
  ownFor: number;
  sums: Sums | null;
  /** Callees of a node: `below[first[node]]` to `below[first[node + 1] - 1]`. */
  first: Int32Array; below: Int32Array;
  /** The sums that are in. */
  filled: Filled | null;
}

/** What is filled in, and room for what changes: amounts by node, by state and node, and the nodes that have some. */
interface Filled { id: number; more: { sum: Float64Array; total: Float64Array[]; has: Uint8Array; hasAny: Uint32Array } | null }

/** The recording's name that a label stands for; -1 for folded ones. */
export function nameOf(data: Data, label: number): number {
  return label < data.names.length ? label : -1;
}

class Builder {
  readonly texts: string[];
  private readonly ids = new Map<string, number>();
  private readonly nodes: Pairs;
  kind: Uint8Array;
  repeats: Int32Array;
  /** By name: label of the kernel's work, 0 for its other functions, -1 for those outside the kernel. */
  readonly work: Int32Array;
  /** By name: 1 for start-up code, 2 if its caller is `_start`, whether that has a name or not. */
  readonly isStart: Uint8Array;
  readonly kernel: number;
  /** By name of a function that may follow the way into the kernel: label of the call. */
  private readonly after: Int32Array;
  private readonly isEntry: Uint8Array;
  /** By node of the recording that closes a circle: the circles up to it. */
  private readonly times: Int32Array;

  constructor(readonly data: Data, readonly folds: Selection["folds"]) {
    this.texts = data.names.slice();
    const room = Math.max(2048, data.parent.length);
    [this.nodes, this.kind, this.repeats] = [new Pairs(room), new Uint8Array(room), new Int32Array(room)];
    this.times = new Int32Array(data.parent.length);
    this.child(-1, this.text("all"), Kind.Task);
    this.kernel = this.text("kernel");
    this.isStart = Uint8Array.from(data.names, (name) => (folds.start && START.test(name) ? (MAIN.test(name) ? 2 : 1) : 0));
    const names = data.names.length;
    [this.isEntry, this.after, this.work] = [new Uint8Array(names), new Int32Array(names), new Int32Array(names).fill(-1)];
    if (folds.kernel && data.kinds.includes(Kind.Kernel)) data.names.forEach((name, at) => this.kernelName(name, at));
  }

  private kernelName(name: string, at: number): void {
    const isEntry = ENTRY.test(name);
    if (isEntry) this.isEntry[at] = 1;
    const call = isEntry ? null : AFTER_ENTRY.exec(name);
    if (call) this.after[at] = this.text(`kernel: ${call[1]}()`);
    if (this.data.kinds[at] !== Kind.Kernel) return;
    const work = kernelWork(name);
    this.work[at] = work ? this.text(`kernel: ${work}`) : 0;
  }

  get length(): number { return this.nodes.length; }
  get parent(): Int32Array { return this.nodes.first; }
  get label(): Int32Array { return this.nodes.second; }

  text(text: string): number {
    let id = this.ids.get(text);
    if (id === undefined) this.ids.set(text, (id = this.texts.push(text) - 1));
    return id;
  }

  private grow(): void {
    const [kinds, repeats] = [this.kind, this.repeats];
    (this.kind = new Uint8Array(kinds.length * 2)).set(kinds);
    (this.repeats = new Int32Array(repeats.length * 2)).set(repeats);
  }

  child(parent: number, label: number, kind: number): number {
    const before = this.nodes.length;
    const node = this.nodes.index(parent, label);
    if (node !== before) return node;
    if (node >= this.kind.length) this.grow();
    this.kind[node] = kind;
    this.repeats[node] = 1;
    return node;
  }

  /** The folded node of a node whose caller's is `above`. */
  below(node: number, above: number): number {
    const { data, folds } = this;
    const name = data.nodeName[node];
    const work = this.work[name];
    if (work >= 0) return this.inKernel(above, work || (this.isEntry[data.nodeName[data.parent[node]]] ? this.after[name] : 0));
    if (this.isStart[name]) return this.isStart[name] === 2 && this.isFirst(above) ? this.parent[above] : above;
    if (folds.recursion) {
      const circle = this.circle(above, name);
      if (circle) return this.repeated(node, above, circle);
    }
    return this.child(above, name, data.kinds[name]);
  }

  /** Right below a thread, or at the top where there is none. */
  private isFirst(node: number): boolean {
    return node !== 0 && this.kind[node] !== Kind.Task && this.kind[this.parent[node]] === Kind.Task;
  }

  /** How many functions at the end, this one included, are the same as those before them; 0 for none. */
  private circle(above: number, name: number): number {
    const { label, parent } = this;
    for (let length = 1, start = above; length <= LONGEST_CIRCLE && start !== 0; length++, start = parent[start]) {
      if (label[start] === name && this.isAgain(above, start, length)) return length;
    }
    return 0;
  }

  /** The functions from `now` up to `before`, which is `length - 1` above it, are those that called `before`. */
  private isAgain(now: number, before: number, length: number): boolean {
    const { label, parent } = this;
    for (let at = 1; at < length; at++) {
      before = parent[before];
      if (before === 0 || label[now] !== label[before]) return false;
      now = parent[now];
    }
    return true;
  }

  /** The node in place of one that closes a circle: where the circle ended before. */
  private repeated(node: number, above: number, circle: number): number {
    const { data } = this;
    let place = above;
    for (let at = 1; at < circle; at++) place = this.parent[place];
    let before = node;
    for (let at = 0; at < circle; at++) before = data.parent[before];
    const times = (this.times[node] = (this.times[before] || 1) + 1);
    this.repeats[place] = Math.max(this.repeats[place], times);
    return place;
  }

  private inKernel(above: number, work: number): number {
    const isInside = this.kind[above] === Kind.Kernel;
    if (isInside && this.label[above] !== this.kernel) return above;
    const top = isInside ? this.parent[above] : above;
    return this.child(top, work || this.kernel, Kind.Kernel);
  }
}

function kernelWork(label: string): string {
  const call = CALL.exec(label);
  if (call) return `${call[1].replace(/^new/, "")}()`;
  if (FAULT.test(label)) return "page fault";
  return INTERRUPT.test(label) ? "interrupt" : "";
}

/** Folds every stack of a set. */
export function fold(data: Data, set: ItemSet, cells: Cells, selection: Selection): Folded {
  const built = new Builder(data, selection.folds);
  const leaf = new Int32Array(cells.count).fill(-1);
  const memo = new Int32Array(data.parent.length);
  if (cells.groups.length === 1 && selection.mode !== "state") {
    foldAll(data, built, memo, rootNode(data, built, cells, 0, selection));
    for (let cell = 0; cell < leaf.length; cell++) leaf[cell] = memo[set.placeNode[cells.place[cell]]];
    return finish(data, set, cells, built, leaf);
  }
  // By root, so that one memo does: `made` has the root for which a node's entry was made.
  const made = new Int32Array(data.parent.length).fill(-1);
  const roots = rootsOf(data, set, cells, selection);
  for (const [root, members] of roots.entries()) {
    if (!members) continue;
    memo[0] = rootNode(data, built, cells, root, selection);
    made[0] = root;
    for (const cell of members) leaf[cell] = foldNode(built, memo, made, root, set.placeNode[cells.place[cell]]);
  }
  return finish(data, set, cells, built, leaf);
}

/** Every frame below one root: callers come before their callees. */
function foldAll(data: Data, built: Builder, memo: Int32Array, root: number): void {
  const { parent } = data;
  memo[0] = root;
  for (let node = 1; node < memo.length; node++) memo[node] = built.below(node, memo[parent[node]]);
}

/** Cells by root: their group, or their group and state. */
function rootsOf(data: Data, set: ItemSet, cells: Cells, selection: Selection): number[][] {
  const byState = selection.mode === "state";
  const roots: number[][] = [];
  for (let cell = 0; cell < cells.count; cell++) {
    const group = cells.group[cell];
    const root = byState ? group * data.states.length + set.placeState[cells.place[cell]] : group;
    (roots[root] ??= []).push(cell);
  }
  return roots;
}

function rootNode(data: Data, built: Builder, cells: Cells, root: number, selection: Selection): number {
  const states = data.states.length;
  const byState = selection.mode === "state";
  const group = cells.groups[byState ? Math.floor(root / states) : root];
  let top = 0;
  if (byState) top = built.child(top, built.text(`[${data.states[root % states]}]`), Kind.Waiting);
  if (group) top = built.child(top, built.text(group), Kind.Task);
  return top;
}

const path: number[] = [];

function foldNode(built: Builder, memo: Int32Array, made: Int32Array, root: number, node: number): number {
  const { parent } = built.data;
  path.length = 0;
  while (made[node] !== root) {
    path.push(node);
    node = parent[node];
  }
  let above = memo[node];
  for (let i = path.length - 1; i >= 0; i--) {
    above = memo[path[i]] = built.below(path[i], above);
    made[path[i]] = root;
  }
  return above;
}

function finish(data: Data, set: ItemSet, cells: Cells, built: Builder, leaf: Int32Array): Folded {
  const { length, texts } = built;
  const parent = built.parent.slice(0, length);
  parent[0] = 0;
  const first = new Int32Array(length + 1);
  for (let node = 1; node < length; node++) first[parent[node] + 1]++;
  for (let node = 0; node < length; node++) first[node + 1] += first[node];
  const next = first.slice();
  const below = new Int32Array(length);
  for (let node = 1; node < length; node++) below[next[parent[node]]++] = node;
  const states = data.states.length;
  const has = new Uint8Array(states);
  for (let cell = 0; cell < cells.count; cell++) has[set.placeState[cells.place[cell]]] = 1;
  const numbers = (size: number) => new Float64Array(size);
  const used = [...has.keys()].filter((state) => has[state]);
  return {
    texts, length, parent, label: built.label.slice(0, length), kind: built.kind, repeats: built.repeats, leaf, states, first, below,
    filled: null, sums: null, counted: 0, ownFor: 0, used, stateOf: null, total: used.length > 1 ? used.map(() => numbers(length)) : [], own: numbers(length), sum: numbers(length), ownCount: numbers(length), count: numbers(length),
  };
}

/** One cell that changes takes as long as this many in a sum over all. */
const COST = 8;

/** Puts in the amounts of a selection. */
export function fill(folded: Folded, sums: Sums): void {
  const { filled } = folded;
  folded.sums = sums;
  if (IS_WHOLE && filled && sums.changed && sums.from === filled.id && sums.changed.length * COST < folded.leaf.length + folded.length) {
    addChanges(folded, sums, filled);
    filled.id = sums.id;
    return;
  }
  fillAll(folded, sums);
  // Only with times the next selection may differ by little.
  if (IS_WHOLE && sums.isTimed) folded.filled = { id: sums.id, more: folded.filled?.more ?? null };
}

function roomFor({ length, total }: Folded): NonNullable<Filled["more"]> {
  const hasAny = new Uint32Array(Math.ceil(length / 4));
  return { sum: new Float64Array(length), total: total.map(() => new Float64Array(length)), has: new Uint8Array(hasAny.buffer), hasAny };
}

/** Adds what changed in cells to their nodes, and that to their callers: each node once, callers last. */
function addChanges(folded: Folded, sums: Sums, filled: Filled): void {
  const { leaf, sum, total, parent } = folded;
  const { changed, by: byCell } = sums as { changed: Int32Array; by: Float64Array };
  const more = (filled.more ??= roomFor(folded));
  const [split, kindOf] = [total.length > 0, usedStates(folded, sums)];
  for (let change = 0; change < changed.length; change++) {
    const at = changed[change];
    const node = leaf[at];
    const by = byCell[at];
    if (node < 0) continue;
    more.sum[node] += by;
    more.has[node] = 1;
    if (split) more.total[kindOf[at]][node] += by;
  }
  for (let four = more.hasAny.length - 1; four >= 0; four--) {
    if (more.hasAny[four] === 0) continue;
    for (let node = four * 4 + 3; node >= four * 4; node--) {
      if (more.has[node] === 0) continue;
      more.has[node] = 0;
      const above = parent[node];
      const by = more.sum[node];
      more.sum[node] = 0;
      sum[node] += by;
      if (node > 0) {
        more.sum[above] += by;
        more.has[above] = 1;
      }
      for (let state = 0; state < total.length; state++) {
        const parts = more.total[state];
        const part = parts[node];
        if (part === 0) continue;
        total[state][node] += part;
        parts[node] = 0;
        if (node > 0) parts[above] += part;
      }
    }
  }
}

function fillAll(folded: Folded, sums: Sums): void {
  const { total, sum, leaf, parent, length } = folded;
  const { cell } = sums;
  const own = ownAmounts(folded);
  // With one state the sum is its total.
  if (total.length > 0) {
    const kindOf = usedStates(folded, sums);
    for (const of of total) of.fill(0);
    for (let at = 0; at < leaf.length; at++) if (leaf[at] >= 0) total[kindOf[at]][leaf[at]] += cell[at];
  }
  sum.set(own);
  for (const of of [sum, ...total]) addUp(of, parent, length);
}

/** Amounts by node without callees. A drag doesn't need them, so they are put in when they are asked for. */
export function ownAmounts(folded: Folded): Float64Array {
  const { own, leaf, sums } = folded;
  if (!sums || folded.ownFor === sums.id) return own;
  folded.ownFor = sums.id;
  own.fill(0);
  for (let at = 0; at < leaf.length; at++) if (leaf[at] >= 0) own[leaf[at]] += sums.cell[at];
  return own;
}

/** Adds what each node has to its caller: callers come before their callees. */
function addUp(amounts: Float64Array, parent: Int32Array, length: number): void {
  for (let node = length - 1; node > 0; node--) if (amounts[node] !== 0) amounts[parent[node]] += amounts[node];
}

/** By cell: the index of its state among the used ones. */
function usedStates(folded: Folded, { set, cells }: Sums): Uint8Array {
  if (folded.stateOf || folded.total.length === 0) return (folded.stateOf ??= new Uint8Array(0));
  const index = new Uint8Array(folded.states);
  folded.used.forEach((state, at) => (index[state] = at));
  return (folded.stateOf = Uint8Array.from(cells.place.subarray(0, cells.count), (place) => index[set.placeState[place]]));
}

/** Numbers of samples of what is filled in. */
function fillCounts(folded: Folded): void {
  const { leaf, length, parent, ownCount, count, sums } = folded;
  if (!sums || folded.counted === sums.id) return;
  folded.counted = sums.id;
  ownCount.fill(0);
  for (let at = 0; at < leaf.length; at++) if (leaf[at] >= 0) ownCount[leaf[at]] += sums.cellCount[at];
  count.set(ownCount);
  for (let node = length - 1; node > 0; node--) count[parent[node]] += count[node];
}

/** A frame that may be drawn, of one `node` or of merged ones. Its callees and states are made when they are asked for. */
export class Frame {
  private below: Frame[] | null = null;
  private split: Float64Array | null = null;
  constructor(
    readonly tree: Tree, readonly id: number, readonly kind: number, readonly repeats: number,
    readonly value: number, readonly parent: Frame | null, readonly node: number, private readonly merged: Members | null = null, readonly own: string | null = null,
  ) {}

  get members(): Members {
    return this.merged ?? { nodes: [this.node], of: null };
  }

  get count(): number {
    return this.tree.countOf(this.members);
  }

  get label(): string {
    return this.own ?? this.tree.folded.texts[this.id];
  }

  /** Name of the recording; -1 for folded frames. */
  get name(): number {
    return this.own === null ? nameOf(this.tree.data, this.id) : -1;
  }

  get children(): Frame[] {
    return (this.below ??= this.tree.expand(this, this.some?.frames ?? []));
  }

  private some: { least: number; frames: Frame[] } | null = null;

  /** The callees that have at least an amount, greatest first, and maybe others: many are too narrow to be seen. */
  wide(least: number): Frame[] {
    if (this.below) return this.below;
    if (this.some && this.some.least <= least) return this.some.frames;
    const frames = this.tree.wide(this, least, this.some?.frames ?? []);
    if (!frames) return this.children;
    this.some = { least, frames };
    return frames;
  }

  get states(): Float64Array {
    return (this.split ??= this.tree.split(this.members));
  }

  get path(): string[] {
    const path: string[] = [];
    for (let frame: Frame | null = this; frame?.parent; frame = frame.parent) path.unshift(frame.label);
    return path;
  }

  /** The frame at a path, or the deepest of its frames that there is. */
  find(path: string[]): Frame {
    let frame: Frame = this;
    for (const label of path) {
      const next = frame.children.find((child) => child.label === label);
      if (!next) break;
      frame = next;
    }
    return frame;
  }
}

/** Nodes merged into a frame; upwards, each with the node whose amounts it has. */
export interface Members { nodes: number[]; of: number[] | null }

/** How frames are put together: callees below callers, or callers below callees. */
export class Tree {
  constructor(readonly data: Data, readonly folded: Folded, readonly up: boolean, readonly byName: boolean, readonly sums: Float64Array = folded.sum) {}

  root(label: string, members: Members): Frame {
    return this.frame(0, null, members, label);
  }

  /** All callees; `made` are those that were made before. */
  expand(frame: Frame, made: Frame[]): Frame[] {
    const frames = this.wide(frame, 0, made, true) ?? this.merged(frame);
    return this.byName ? frames.sort((a, b) => (a.label < b.label ? -1 : 1)) : frames.sort((a, b) => b.value - a.value);
  }

  /** Callees of one node from an amount on, which have different labels; `null` if only all can be had. */
  wide(frame: Frame, least: number, made: Frame[], isAll = false): Frame[] | null {
    if (this.up || (this.byName && !isAll) || (frame.node < 0 && frame.members.nodes.length !== 1)) return null;
    const { first, below, label, kind, repeats } = this.folded;
    const known = made.length ? new Map(made.map((frame) => [frame.node, frame])) : null;
    const node = frame.node >= 0 ? frame.node : frame.members.nodes[0];
    const frames: Frame[] = [];
    for (let at = first[node]; at < first[node + 1]; at++) {
      const child = below[at];
      const value = this.sums[child];
      if (value > 0 && value >= least) frames.push(known?.get(child) ?? new Frame(this, label[child], kind[child], repeats[child], value, frame, child));
    }
    return isAll ? frames : frames.sort((a, b) => b.value - a.value);
  }

  private merged(frame: Frame): Frame[] {
    const { folded } = this;
    const groups = new Map<number, Members>();
    const add = (node: number, of: number) => {
      let group = groups.get(folded.label[node]);
      if (!group) groups.set(folded.label[node], (group = { nodes: [], of: this.up ? [] : null }));
      group.nodes.push(node);
      group.of?.push(of);
    };
    frame.members.nodes.forEach((node, at) => {
      if (this.up) {
        const parent = frame.parent ? folded.parent[node] : node;
        if (parent !== 0) add(parent, frame.members.of![at]);
      } else for (let at = folded.first[node]; at < folded.first[node + 1]; at++) if (this.sums[folded.below[at]] > 0) add(folded.below[at], folded.below[at]);
    });
    return [...groups].map(([label, group]) => this.frame(label, frame, group));
  }

  private frame(label: number, parent: Frame | null, members: Members, own: string | null = null): Frame {
    const { folded, sums } = this;
    let [value, repeats] = [0, 1];
    for (const node of members.of ?? members.nodes) value += sums[node];
    for (const node of members.nodes) if (folded.repeats[node] > repeats) repeats = folded.repeats[node];
    const kind = own === null && members.nodes.length ? folded.kind[members.nodes[0]] : Kind.Task;
    return new Frame(this, label, kind, repeats, value, parent, -1, members, own);
  }

  countOf(members: Members): number {
    const { folded } = this;
    fillCounts(folded);
    const counts = this.sums === folded.own ? folded.ownCount : folded.count;
    return (members.of ?? members.nodes).reduce((sum, node) => sum + counts[node], 0);
  }

  /** Amounts of nodes by state. */
  split(members: Members): Float64Array {
    const { states, used, total, first, below } = this.folded;
    const sums = new Float64Array(states);
    const isOwn = this.sums === this.folded.own;
    for (const node of members.of ?? members.nodes) {
      if (used.length === 1) sums[used[0]] += this.sums[node];
      else used.forEach((state, index) => {
        sums[state] += total[index][node];
        if (isOwn) for (let at = first[node]; at < first[node + 1]; at++) sums[state] -= total[index][below[at]];
      });
    }
    return sums;
  }
}

/** The whole graph, callers on top. */
export function byCaller(data: Data, folded: Folded, byName: boolean): Frame {
  return new Tree(data, folded, false, byName).root("all", { nodes: [0], of: null });
}

/** The whole graph from the functions at the end of stacks. Each has its own amounts only. */
export function inverted(data: Data, folded: Folded, byName: boolean): Frame {
  const nodes: number[] = [];
  const own = ownAmounts(folded);
  for (let node = 1; node < folded.length; node++) if (own[node] > 0) nodes.push(node);
  return new Tree(data, folded, true, byName, own).root("all", { nodes, of: nodes });
}

/** Outermost places of a function. */
function placesOf(folded: Folded, label: string): number[] {
  const inside = new Uint8Array(folded.length);
  const nodes: number[] = [];
  const wanted = new Set<number>();
  folded.texts.forEach((text, id) => { if (text === label) wanted.add(id); });
  for (let node = 1; node < folded.length; node++) {
    const above = inside[folded.parent[node]];
    if (!above && wanted.has(folded.label[node])) {
      if (folded.sum[node] > 0) nodes.push(node);
      inside[node] = 1;
    } else inside[node] = above;
  }
  return nodes;
}

export function callees(data: Data, folded: Folded, label: string, byName: boolean): Frame {
  return new Tree(data, folded, false, byName).root(label, { nodes: placesOf(folded, label), of: null });
}

export function callers(data: Data, folded: Folded, label: string, byName: boolean): Frame {
  const nodes = placesOf(folded, label);
  return new Tree(data, folded, true, byName).root(label, { nodes: nodes.map((node) => folded.parent[node]), of: nodes });
}
