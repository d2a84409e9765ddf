// Trees of frames for the flame graphs. The folded tree is made once for a way of folding and grouping; amounts are put
// in for each selection. Frames are made on demand, only where they are wide enough to be seen.

import { Cells, Pairs } from "./cells";
import { Data, ItemSet, Kind } from "./data";
import { Selection } from "./selection";
import { Sums } from "./sums";

/** Frames between the thread's start and the program's main function. */
const START = /^(_start|__libc_start_main.*|__libc_start_call_main|start_thread|(__)?clone3?|thread_start|__GI___clone3?|__libc_start_main_impl)$/;
/** Start-up code of runtimes. Their names may be those of other functions, too: only below a thread's start. */
const RUNTIME_START = /^(Thread\._bootstrap(_inner)? \(threading\.py\)|Thread\.run \(threading\.py\)|thread_native_entry|Thread::call_run|JavaThread::(run|thread_main_inner)|thread_entry|JavaCalls::call_\w+|StubRoutines::call_stub|java\.lang\.Thread\.run(With)?\(.*\)|java\.util\.concurrent\.(ThreadPoolExecutor(\$Worker\.run|\.runWorker)|FutureTask\.run|Executors\$RunnableAdapter\.call)\(.*\)|node::Start|node::NodeMainInstance::Run|node::SpinEventLoopInternal|runtime\.goexit(\.abi0)?|runtime\.main|std::rt::lang_start.*|std::execute_native_thread_routine|<?(std::(sys::(backtrace|(pal::unix::)?thread(::unix)?)::|thread::lifecycle::spawn_unchecked|panicking::|panic::catch_unwind)|core::(ops::function::FnOnce|panic::unwind_safe::AssertUnwindSafe)|alloc::boxed::Box<).*)$/;
const MAIN = /^__libc_start_main/;
/** The way into the kernel, and the first function after it where the one that serves the call left no frame. */
const ENTRY = /^(entry_SYSCALL|entry_INT80|do_syscall_64$|x64_sys_call$|do_int80_syscall_32$|el0t_64_sync|el0_svc|do_el0_svc|invoke_syscall)/;
const AFTER_ENTRY = /^(?:ksys|do_sys|kernel|do)_(.+)$/;
/** Functions that call each other in a circle of at most this many are folded. */
const LONGEST_CIRCLE = 4;
const CALL = /^__(?:x64|ia32|arm64|se|do)_(?:compat_)?sys_(.+)$/;
const FAULT = /^(asm_)?exc_page_fault$|^do_user_addr_fault$|^el0_da$/;
const INTERRUPT = /^(asm_)?(sysvec_|common_interrupt|exc_nmi)|^el[01]_interrupt$/;

/** Folded nodes in preorder; each has a label, and each cell of a set ends in one. */
export interface Folded {
  /** Texts of labels: first the recording's names, then those of folding. */
  texts: string[];
  length: number;
  label: Int32Array; kind: Uint8Array; parent: Int32Array; repeats: Int32Array;
  /** After the last node below. */
  end: Int32Array;
  /** By cell: the node. */
  leaf: Int32Array;
  states: number;
  /** States that a cell has, and by cell the index of its own; made when it is first asked for. */
  used: number[]; stateOf: Uint8Array | null;
  /** Amounts of all nodes before each, callees not included: a node with its callees has the difference of two. */
  before: Float64Array;
  /** The same by used state, and for numbers of samples: put in when they are asked for. */
  byState: Sum[]; counts: Sum;
  sums: Sums | null;
}

/** Amounts before each node, and the id of the sums that are in. */
interface Sum { before: Float64Array; id: number }

/** The recording's name that a label stands for; -1 for folded ones. */
export function nameOf(data: Data, label: number): number {
  return label < data.names.length ? label : -1;
}

/** Names of the labels that goroutines have: on a page with threads, frames of no code. */
export function labelsOf({ about, kinds, parent, nodeName }: Data): number[] {
  if (about.data.threads.length === 0) return [];
  const found = new Set<number>();
  for (let node = 1; node < parent.length; node++) if (kinds[nodeName[node]] === Kind.Task) found.add(nodeName[node]);
  return [...found];
}

class Builder {
  readonly texts: string[];
  private readonly ids = new Map<string, number>();
  private readonly nodes: Pairs;
  kind: Uint8Array;
  repeats: Int32Array;
  /** By name: label of the kernel's work, 0 for its other functions, -1 for those outside the kernel. */
  readonly work: Int32Array;
  /** By name: 1 for start-up code, 2 if its caller is `_start`, whether that has a name or not, 3 for a runtime's. */
  readonly isStart: Uint8Array;
  readonly kernel: number;
  /** By name of a function that may follow the way into the kernel: label of the call. */
  private readonly after: Int32Array;
  private readonly isEntry: Uint8Array;
  /** By node of the recording that closes a circle: the circles up to it. */
  private readonly times: Int32Array;
  private readonly folds: Selection["folds"];

  /** Frames of labels are left out. */
  private readonly hasLabels: boolean;

  constructor(readonly data: Data, { folds, group }: Selection) {
    this.folds = folds;
    this.hasLabels = group !== "label" && labelsOf(data).length > 0;
    this.texts = data.names.slice();
    const room = Math.max(2048, data.parent.length);
    [this.nodes, this.kind, this.repeats] = [new Pairs(room), new Uint8Array(room), new Int32Array(room)];
    this.times = new Int32Array(data.parent.length);
    this.child(-1, this.text("all"), Kind.Task);
    this.kernel = this.text("kernel");
    this.isStart = Uint8Array.from(data.names, (name) => (folds.start ? startOf(name) : 0));
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
    if (this.hasLabels && data.kinds[name] === Kind.Task) return above;
    const work = this.work[name];
    if (work >= 0) return this.inKernel(above, work || (this.isEntry[data.nodeName[data.parent[node]]] ? this.after[name] : 0));
    const start = this.isStart[name];
    if (start === 3 ? this.kind[above] === Kind.Task : start) return start === 2 && this.isFirst(above) ? this.parent[above] : above;
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

/** Between a thread's start and the program's own functions. */
export const isStart = (name: string): boolean => startOf(name) > 0;

function startOf(name: string): number {
  if (START.test(name)) return MAIN.test(name) ? 2 : 1;
  return RUNTIME_START.test(name) ? 3 : 0;
}

function kernelWork(label: string): string {
  const call = CALL.exec(label);
  if (call) return `${call[1].replace(/^new/, "")}()`;
  if (FAULT.test(label)) return "page fault";
  return INTERRUPT.test(label) ? "interrupt" : "";
}

/** Folds every stack of a set. */
export function fold(data: Data, set: ItemSet, cells: Cells, selection: Selection): Folded {
  const built = new Builder(data, selection);
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
  const made = { parent: built.parent.slice(0, length), label: built.label.slice(0, length), kind: built.kind, repeats: built.repeats, leaf };
  made.parent[0] = 0;
  const { nodes, end } = inPreorder(made.parent, length) ?? reordered(made, length);
  const has = new Uint8Array(data.states.length);
  for (let cell = 0; cell < cells.count; cell++) has[set.placeState[cells.place[cell]]] = 1;
  const used = [...has.keys()].filter((state) => has[state]);
  const sum = (): Sum => ({ before: new Float64Array(0), id: 0 });
  return { texts, length, ...(nodes ?? made), end, states: data.states.length, used, stateOf: null, before: new Float64Array(length + 1), byState: used.map(sum), counts: sum(), sums: null };
}

type Nodes = Pick<Folded, "parent" | "label" | "kind" | "repeats" | "leaf">;
type Ordered = { nodes: Nodes | null; end: Int32Array };

/** The ends of nodes that are in preorder; `null` of others, which have callees that were added later. */
function inPreorder(parent: Int32Array, length: number): Ordered | null {
  const [size, end] = [new Int32Array(length).fill(1), new Int32Array(length)];
  for (let node = length - 1; node >= 0; node--) {
    end[node] = Math.max(end[node], node + 1);
    if (end[node] !== node + size[node]) return null;
    if (node === 0) break;
    const above = parent[node];
    size[above] += size[node];
    if (end[node] > end[above]) end[above] = end[node];
  }
  return { nodes: null, end };
}

/** Gives nodes their numbers in preorder. */
function reordered(of: Nodes, length: number): Ordered {
  const size = new Int32Array(length).fill(1);
  for (let node = length - 1; node > 0; node--) size[of.parent[node]] += size[node];
  // A caller's number is known before those of its callees: it is made before them.
  const [number, next, end] = [new Int32Array(length), new Int32Array(length), new Int32Array(length)];
  const nodes: Nodes = { parent: new Int32Array(length), label: new Int32Array(length), kind: new Uint8Array(length), repeats: new Int32Array(length), leaf: of.leaf.map((node) => node) };
  for (let node = 0; node < length; node++) {
    const above = of.parent[node];
    const at = (number[node] = node === 0 ? 0 : next[above]);
    if (node > 0) next[above] += size[node];
    next[node] = at + 1;
    end[at] = at + size[node];
    [nodes.parent[at], nodes.label[at], nodes.kind[at], nodes.repeats[at]] = [number[above], of.label[node], of.kind[node], of.repeats[node]];
  }
  for (let cell = 0; cell < of.leaf.length; cell++) if (of.leaf[cell] >= 0) nodes.leaf[cell] = number[of.leaf[cell]];
  return { nodes, end };
}

/** Puts in the amounts of a selection. */
export function fill(folded: Folded, sums: Sums): void {
  folded.sums = sums;
  sumUp(folded, folded.before, sums.cell);
}

/** From amounts by cell to those before each node. */
function sumUp({ leaf, length }: Folded, before: Float64Array, cell: Float64Array, of: Uint8Array | null = null, wanted = 0): void {
  before.fill(0);
  for (let at = 0; at < leaf.length; at++) if (leaf[at] >= 0 && (!of || of[at] === wanted)) before[leaf[at] + 1] += cell[at];
  for (let node = 0, sum = 0; node < length; node++) before[node + 1] = sum += before[node + 1];
}

/** The sum, filled with what is selected now. */
function current(folded: Folded, sum: Sum, put: (before: Float64Array, sums: Sums) => void): Float64Array {
  const { sums, length } = folded;
  if (sums && sum.id !== sums.id) {
    sum.id = sums.id;
    if (sum.before.length === 0) sum.before = new Float64Array(length + 1);
    put(sum.before, sums);
  }
  return sum.before;
}

/** Amounts by node of a used state. */
function ofState(folded: Folded, index: number): Float64Array {
  return current(folded, folded.byState[index], (before, sums) => sumUp(folded, before, sums.cell, usedStates(folded, sums), index));
}

function countsOf(folded: Folded): Float64Array {
  return current(folded, folded.counts, (before, sums) => sumUp(folded, before, sums.counts()));
}

/** The amount of a node, with its callees or without. */
function amountOf({ end }: Folded, before: Float64Array, node: number, isOwn: boolean): number {
  return before[isOwn ? node + 1 : end[node]] - before[node];
}

/** Amounts by node without callees. */
export function ownAmounts({ before, length }: Folded): Float64Array {
  const own = new Float64Array(length);
  for (let node = 0; node < length; node++) own[node] = before[node + 1] - before[node];
  return own;
}

/** By cell: the index of its state among the used ones. */
function usedStates(folded: Folded, { set, cells }: Sums): Uint8Array {
  const index = new Uint8Array(folded.states);
  folded.used.forEach((state, at) => (index[state] = at));
  return (folded.stateOf ??= Uint8Array.from(cells.place.subarray(0, cells.count), (place) => index[set.placeState[place]]));
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
  constructor(readonly data: Data, readonly folded: Folded, readonly up: boolean, readonly byName: boolean, readonly isOwn = false) {}

  private amount(node: number): number {
    return amountOf(this.folded, this.folded.before, node, this.isOwn);
  }

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
    const { end, before, label, kind, repeats } = this.folded;
    const known = made.length ? new Map(made.map((frame) => [frame.node, frame])) : null;
    const node = frame.node >= 0 ? frame.node : frame.members.nodes[0];
    const frames: Frame[] = [];
    for (let child = node + 1; child < end[node]; child = end[child]) {
      const value = before[end[child]] - before[child];
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
      } else for (let child = node + 1; child < folded.end[node]; child = folded.end[child]) if (this.amount(child) > 0) add(child, child);
    });
    return [...groups].map(([label, group]) => this.frame(label, frame, group));
  }

  private frame(label: number, parent: Frame | null, members: Members, own: string | null = null): Frame {
    const { folded } = this;
    let [value, repeats] = [0, 1];
    for (const node of members.of ?? members.nodes) value += this.amount(node);
    for (const node of members.nodes) if (folded.repeats[node] > repeats) repeats = folded.repeats[node];
    const kind = own === null && members.nodes.length ? folded.kind[members.nodes[0]] : Kind.Task;
    return new Frame(this, label, kind, repeats, value, parent, -1, members, own);
  }

  countOf(members: Members): number {
    const counts = countsOf(this.folded);
    return (members.of ?? members.nodes).reduce((sum, node) => sum + amountOf(this.folded, counts, node, this.isOwn), 0);
  }

  /** Amounts of nodes by state. */
  split(members: Members): Float64Array {
    const { folded } = this;
    const { states, used } = folded;
    const sums = new Float64Array(states);
    // With one state the amount is that of the state.
    used.forEach((state, index) => {
      const before = used.length === 1 ? folded.before : ofState(folded, index);
      for (const node of members.of ?? members.nodes) sums[state] += amountOf(folded, before, node, this.isOwn);
    });
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
  return new Tree(data, folded, true, byName, true).root("all", { nodes, of: nodes });
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
      if (amountOf(folded, folded.before, node, false) > 0) nodes.push(node);
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
