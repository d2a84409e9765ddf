// Trees of frames for the flame graphs. The folded tree is made once for a way of folding and grouping; amounts are put
// in for each selection. Frames are made on demand, only where they are wide enough to be seen.

import { Data, ItemSet, Kind } from "./data";
import { Selection } from "./selection";
import { Sums } from "./sums";

/** Frames between the thread's start and the program's main function. */
const START = /^(_start|__libc_start_main.*|__libc_start_call_main|start_thread|__?clone3?|thread_start|__GI___clone3?|__libc_start_main_impl)$/;
const CALL = /^__(?:x64|ia32|arm64|se|do)_(?:compat_)?sys_(.+)$/;
const FAULT = /^(asm_)?exc_page_fault$|^do_user_addr_fault$|^el0_da$/;
const INTERRUPT = /^(asm_)?(sysvec_|common_interrupt|exc_nmi)|^el[01]_interrupt$/;

/** Folded nodes; each has a label, and each place of a set ends in one. */
export interface Folded {
  labels: string[]; kinds: number[]; parents: number[]; repeats: number[];
  /** Name of the recording that a label stands for; -1 for folded ones. */
  names: number[];
  /** By group and place: the node. */
  leaf: Int32Array;
  states: number;
  /** Amounts by node and state, callees included; and own. */
  total: Float64Array; own: Float64Array; sum: Float64Array; count: Float64Array;
  children: number[][];
}

class Builder {
  labels = ["all"]; kinds: number[] = [Kind.Task]; parents = [0]; repeats = [1]; names = [-1];
  private index = new Map<string, number>();

  child(parent: number, label: string, kind: number, name: number): number {
    const key = `${parent} ${kind} ${label}`;
    let node = this.index.get(key);
    if (node === undefined) {
      node = this.labels.push(label) - 1;
      this.kinds.push(kind);
      this.parents.push(parent);
      this.repeats.push(1);
      this.names.push(name);
      this.index.set(key, node);
    }
    return node;
  }
}

/** Folds every stack of a set. */
export function fold(data: Data, set: ItemSet, groups: string[], selection: Selection, used: Uint8Array): Folded {
  const built = new Builder();
  const places = set.placeNode.length;
  const leaf = new Int32Array(groups.length * places).fill(-1);
  const byState = selection.mode === "state";
  const memos = new Map<number, Int32Array>();
  for (let at = 0; at < leaf.length; at++) {
    if (!used[at]) continue;
    const [group, place] = [Math.floor(at / places), at % places];
    const state = byState ? set.placeState[place] : 0;
    const root = (byState ? 1 + group * data.states.length + state : 1 + group);
    let memo = memos.get(root);
    if (!memo) {
      memos.set(root, (memo = new Int32Array(data.parent.length).fill(-1)));
      let top = 0;
      if (byState) top = built.child(top, `[${data.states[state]}]`, Kind.Waiting, -1);
      if (groups[group]) top = built.child(top, groups[group], Kind.Task, -1);
      memo[0] = top;
    }
    leaf[at] = foldNode(data, built, memo, set.placeNode[place], selection);
  }
  const nodes = built.labels.length;
  const children: number[][] = Array.from({ length: nodes }, () => []);
  for (let node = 1; node < nodes; node++) children[built.parents[node]].push(node);
  return {
    labels: built.labels, kinds: built.kinds, parents: built.parents, repeats: built.repeats, names: built.names, leaf, children,
    states: data.states.length, total: new Float64Array(nodes * data.states.length), own: new Float64Array(nodes),
    sum: new Float64Array(nodes), count: new Float64Array(nodes),
  };
}

function foldNode(data: Data, built: Builder, memo: Int32Array, node: number, selection: Selection): number {
  const path: number[] = [];
  while (memo[node] < 0) {
    path.push(node);
    node = data.parent[node];
  }
  for (let i = path.length - 1; i >= 0; i--) memo[path[i]] = foldedChild(data, built, memo, path[i], selection.folds);
  return memo[path.length ? path[0] : node];
}

function foldedChild(data: Data, built: Builder, memo: Int32Array, node: number, folds: Selection["folds"]): number {
  const parent = memo[data.parent[node]];
  const name = data.nodeName[node];
  const [label, kind] = [data.names[name], data.kinds[name]];
  if (kind === Kind.Kernel && folds.kernel) {
    const isInside = built.kinds[parent] === Kind.Kernel;
    if (isInside && built.labels[parent] !== "kernel") return parent;
    const work = kernelWork(label);
    const top = isInside ? built.parents[parent] : parent;
    return built.child(top, work ? `kernel: ${work}` : "kernel", Kind.Kernel, -1);
  }
  if (folds.start && START.test(label)) return parent;
  if (folds.recursion && name === built.names[parent]) {
    built.repeats[parent] = Math.max(built.repeats[parent], repeats(data, node));
    return parent;
  }
  return built.child(parent, label, kind, name);
}

function kernelWork(label: string): string {
  const call = CALL.exec(label);
  if (call) return `${call[1].replace(/^new/, "")}()`;
  if (FAULT.test(label)) return "page fault";
  return INTERRUPT.test(label) ? "interrupt" : "";
}

function repeats(data: Data, node: number): number {
  let times = 1;
  while (data.nodeName[data.parent[node]] === data.nodeName[node] && node !== 0) {
    times++;
    node = data.parent[node];
  }
  return times;
}

/** Puts in the amounts of a selection. */
export function fill(folded: Folded, sums: Sums): void {
  const { total, own, sum, count, leaf, states, parents } = folded;
  [total, own, sum, count].forEach((array) => array.fill(0));
  const places = sums.set.placeNode.length;
  for (let at = 0; at < leaf.length; at++) {
    const amount = sums.place[at];
    if (amount === 0 || leaf[at] < 0) continue;
    const node = leaf[at];
    total[node * states + sums.set.placeState[at % places]] += amount;
    own[node] += amount;
    count[node] += sums.placeCount[at];
  }
  sum.set(own);
  for (let node = parents.length - 1; node > 0; node--) {
    const parent = parents[node];
    if (sum[node] === 0) continue;
    sum[parent] += sum[node];
    count[parent] += count[node];
    for (let state = 0; state < states; state++) total[parent * states + state] += total[node * states + state];
  }
}

/** A frame that may be drawn. Its callees are made when they are asked for. */
export class Frame {
  private below: Frame[] | null = null;
  constructor(
    readonly tree: Tree, readonly label: string, readonly kind: number, readonly name: number, readonly repeats: number,
    readonly value: number, readonly states: Float64Array, readonly count: number, readonly parent: Frame | null, readonly members: Members,
  ) {}

  get children(): Frame[] {
    return (this.below ??= this.tree.expand(this));
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
  constructor(readonly folded: Folded, readonly up: boolean, readonly byName: boolean) {}

  root(label: string, members: Members): Frame {
    return this.frame(label, Kind.Task, -1, 1, null, members);
  }

  expand(frame: Frame): Frame[] {
    const { folded } = this;
    const groups = new Map<string, Members>();
    const add = (node: number, of: number) => {
      const key = `${folded.kinds[node]} ${folded.labels[node]}`;
      let group = groups.get(key);
      if (!group) groups.set(key, (group = { nodes: [], of: this.up ? [] : null }));
      group.nodes.push(node);
      group.of?.push(of);
    };
    frame.members.nodes.forEach((node, at) => {
      if (this.up) {
        const parent = frame.parent ? folded.parents[node] : node;
        if (parent !== 0) add(parent, frame.members.of![at]);
      } else for (const child of folded.children[node]) if (folded.sum[child] > 0) add(child, child);
    });
    const frames = [...groups.values()].map((group) => {
      const node = group.nodes[0];
      const repeats = Math.max(...group.nodes.slice(0, 1000).map((one) => folded.repeats[one]));
      return this.frame(folded.labels[node], folded.kinds[node], folded.names[node], repeats, frame, group);
    });
    return this.byName ? frames.sort((a, b) => (a.label < b.label ? -1 : 1)) : frames.sort((a, b) => b.value - a.value);
  }

  private frame(label: string, kind: number, name: number, repeats: number, parent: Frame | null, members: Members): Frame {
    const { folded } = this;
    const states = new Float64Array(folded.states);
    let [value, count] = [0, 0];
    const nodes = members.of ?? members.nodes;
    for (const node of nodes) {
      value += folded.sum[node];
      count += folded.count[node];
      for (let state = 0; state < folded.states; state++) states[state] += folded.total[node * folded.states + state];
    }
    return new Frame(this, label, kind, name, repeats, value, states, count, parent, members);
  }
}

/** The whole graph, callers on top. */
export function byCaller(folded: Folded, byName: boolean): Frame {
  return new Tree(folded, false, byName).root("all", { nodes: [0], of: null });
}

/** The whole graph from the functions at the end of stacks. Each has its own amounts only. */
export function inverted(folded: Folded, byName: boolean): Frame {
  const own: Folded = { ...folded, sum: folded.own, total: ownStates(folded), count: folded.count };
  const nodes: number[] = [];
  for (let node = 1; node < own.own.length; node++) if (own.own[node] > 0) nodes.push(node);
  return new Tree(own, true, byName).root("all", { nodes, of: nodes });
}

function ownStates(folded: Folded): Float64Array {
  const own = folded.total.slice();
  for (let node = folded.parents.length - 1; node > 0; node--) {
    const parent = folded.parents[node];
    for (let state = 0; state < folded.states; state++) own[parent * folded.states + state] -= folded.total[node * folded.states + state];
  }
  return own;
}

/** Outermost places of a function. */
function placesOf(folded: Folded, label: string): number[] {
  const inside = new Uint8Array(folded.labels.length);
  const nodes: number[] = [];
  for (let node = 1; node < folded.labels.length; node++) {
    const above = inside[folded.parents[node]];
    if (folded.labels[node] === label && !above) {
      nodes.push(node);
      inside[node] = 1;
    } else inside[node] = above;
  }
  return nodes.filter((node) => folded.sum[node] > 0);
}

export function callees(folded: Folded, label: string, byName: boolean): Frame {
  return new Tree(folded, false, byName).root(label, { nodes: placesOf(folded, label), of: null });
}

export function callers(folded: Folded, label: string, byName: boolean): Frame {
  const nodes = placesOf(folded, label);
  return new Tree(folded, true, byName).root(label, { nodes: nodes.map((node) => folded.parents[node]), of: nodes });
}
