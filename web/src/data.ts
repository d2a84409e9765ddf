// The page's data: columns unpacked into typed arrays. docs/formats/page.md describes the layout.


/** The loader's: a part of the page, unpacked. */
declare const part: (id: string) => Promise<ArrayBuffer> | undefined;

/** `title`: that of its process, where it says more than the name. */
export interface Thread { pid: number; tid: number; comm: string; title?: string; from: number; to: number; idle: boolean; strip: boolean }
/** `alike`: so many of its items are the first set's samples, and only have their own amounts. */
export interface SetInfo { name: string; unit: string; wall: boolean; items: number; alike: number }
export interface Finding { rule: number; name: string; share: number; claim: string; detail: string; fix: string; evidence: string[]; stacks: { share: number; of: string; what: string; stack: string }[]; checked_against: string[]; next: string; advice: string }
export interface Lock { what: string; wait: number; count: number; p50: number; p99: number; max: number; threads: number[]; kernel: boolean; place: string | null; holder: { name: string; tid: number; percent: number; place: string } | null }
export interface Lengths { state: string; count: number; mean: number; max: number; p50: number; p99: number; rows: [number, number][] }
/** Function, place without source, source line, line that an interpreter ran, instruction (address, text, amount, place), or the number of lines left out. */
export type CodeLine = ["f", string] | ["p", string] | ["s", number, string] | ["l", number, string, number, string] | ["c", string, string, number, string | null] | ["…", number];
export interface Code { name: string; file: string; own: number; share: number; lines: CodeLine[] }
export interface CallRow { name: string; count: number; total: number; own: number; off: number; avg: number | null; min: number | null; max: number | null; p50: number | null; p99: number | null; rows: [number, number][]; paths: [string[], [number, number][]][] }
export interface SlowCall { took: number; at: number; thread: number; off: number; path: string[] }
export interface IoPart { count: number; total_ns: number; p50_ns: number | null; p99_ns: number | null; max_ns: number; histogram: [number, number][] }
export interface IoRow { op: string; requests: number; bytes: number; queue: IoPart; device: IoPart; comm?: string; pid?: number; cause?: string; functions?: string[]; file?: string; writeback?: boolean }
export interface Io { wall_ns: number; requests: number; bytes: number; busy_ns: number; queue_known: boolean; operations: IoRow[]; submitters: IoRow[]; files?: IoRow[]; devices: { name: string; requests: number; bytes: number }[]; over_time: { slice_ns: number; heat: { from_ns: number; counts: number[] }[] } }
/** Of one set: sentences, the change that noise makes, and by function the word for its change and half of its interval. */
export interface CompareSection { sentences: string[]; floor: number | null; rows: [string, string, number | null][] }
export interface Compare { before: string; after: string; sections: CompareSection[] }
export interface BlameCause { ns: number; thread: string; function: string; line: string | null; state: string; target: string | null; chain: string[]; lacks_evidence: boolean }
/** Chain of thread names, and the states of its last thread; a target or function with its part of the ns. */
export interface BlameChain { names: string[]; ns: number; states: { state: string; ns: number; target: [string, number] | null; function: [string, number] | null; lacks_evidence: boolean }[] }
/** Five numbers for each part of a piece: thread id + 1, state, target and function as names, ns. */
export interface CriticalPath { begin_ns: number; end: { comm: string; tid: number }; parallelism: number; all_pieces: number; names: string[]; pieces: number[][] }
/** Of one thread's wall-clock time: its causes, and who waited for whom. */
export interface Blame { threads: { comm: string; tid: number }[]; total_ns: number; without_evidence_ns: number; causes: BlameCause[]; chains: BlameChain[]; waits: { thread: string; waited_for: string; ns: number }[] }
export interface About {
  version: number; title: string; subtitle: string; machine: string; quality: string; good: boolean;
  findings: Finding[]; no_verdict: string | null; facts: [string, string][]; notes: string[]; locks: Lock[]; lengths: Lengths[];
  begin_ns: string; cpus: number; input: string; sources: { name: string; file: string; share: number }[]; no_code: number; compare: Compare | null;
  calls: { functions: CallRow[]; slowest: SlowCall[] } | null; io: Io | null; blame: Blame | null; path: CriticalPath | null;
  pruned: { functions: number; share: number } | null;
  data: { nodes: number; tick_ns: number; ticks: number; columns: number; shares: number; states: string[]; files: string[]; threads: Thread[]; wakers: string[]; sets: SetInfo[] };
}

export const enum Kind { Task = 0, Program = 1, Library = 2, Kernel = 3, Jit = 4, Python = 5, Inlined = 6, Waiting = 7, Unknown = 8 }

/** Amounts of one event. Item arrays are sorted by thread, then time. */
export interface ItemSet extends SetInfo {
  placeNode: Int32Array; placeState: Uint8Array;
  place: Int32Array; thread: Int32Array;
  /** Item n is in place n. */
  isCounted: boolean;
  /** Begin + 1 in ticks; 0 for a sum over the thread's life. */
  since: Float64Array;
  length: Float64Array; amount: Float64Array; count: Float64Array; waker: Int32Array;
  /** The longest of the waits that an item represents, in whole ticks; 0 for samples, and where none is known. */
  longest: Float64Array;
  /** Begin of the time over which an amount beyond its own length is spread: short waits are summed by place until one of them is kept. */
  gap: Float64Array;
  /** Items of each thread. */
  runs: { thread: number; from: number; to: number }[];
  /** Of a thread's items up to this one: the last moment; and from this one on: the first. Both + 1, as `since`. */
  latest: Float64Array; earliest: Float64Array;
  /** Σ by state. */
  states: Float64Array;
  /** States from this one on are waits. */
  firstWait: number;
}

export interface Data {
  about: About;
  names: string[]; kinds: Uint8Array; nameFile: Int32Array;
  /** Nodes in preorder: a caller is before its callees, and `end` is after the last node below. */
  parent: Int32Array; nodeName: Int32Array; end: Int32Array;
  wakerNode: Int32Array;
  sets: ItemSet[];
  /** By thread with a strip: shares, out of `about.data.shares`, state by state, of each column. */
  strips: Map<number, Uint8Array>;
  states: string[];
  loadMs: number;
}

class Reader {
  at = 0;
  constructor(readonly bytes: Uint8Array) {}
  varint(): number {
    let [value, scale] = [0, 1];
    for (;;) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  }
  column(): Reader {
    const length = this.varint();
    const column = new Reader(this.bytes.subarray(this.at, this.at + length));
    this.at += length;
    return column;
  }
  numbers<T extends Int32Array | Float64Array>(into: T): T {
    return this.column().values(into);
  }
  values<T extends Int32Array | Float64Array>(into: T): T {
    const { bytes } = this;
    // Numbers of one byte each are the bytes: most columns have no others.
    if (bytes.length === into.length) {
      into.set(bytes);
      return into;
    }
    for (let i = 0, at = 0; i < into.length; i++) {
      let value = bytes[at++];
      if (value >= 128) {
        value &= 127;
        for (let scale = 128; ; scale *= 128) {
          const byte = bytes[at++];
          value += (byte & 127) * scale;
          if (!(byte >= 128)) break;
        }
      }
      into[i] = value;
    }
    return into;
  }
  all(): Int32Array {
    const column = this.column();
    const { bytes } = column;
    let count = bytes.length;
    for (let at = 0; at < bytes.length; at++) if (bytes[at] >= 128) count--;
    return column.values(new Int32Array(count));
  }
  texts(): string[] {
    const [shared, others, bytes] = [this.all(), this.all(), this.column().bytes];
    const decoder = new TextDecoder();
    const whole = decoder.decode(bytes);
    const texts: string[] = [];
    let at = 0;
    // Where all is ASCII, bytes are characters.
    if (whole.length === bytes.length) {
      let before = "";
      for (let text = 0; text < shared.length; text++) texts.push((before = before.slice(0, shared[text]) + whole.slice(at, (at += others[text]))));
      return texts;
    }
    let before = new Uint8Array(0);
    for (let text = 0; text < shared.length; text++) {
      const next = new Uint8Array(shared[text] + others[text]);
      next.set(before.subarray(0, shared[text]));
      next.set(bytes.subarray(at, (at += others[text])), shared[text]);
      before = next;
      texts.push(decoder.decode(next));
    }
    return texts;
  }
}


/** JSON of an element, deflated. */
async function unpackJson(id: string): Promise<unknown> {
  const text = await part(id);
  return text ? JSON.parse(new TextDecoder().decode(text)) : null;
}

/** The code of the page's functions, in the order of `about.sources`. */
export async function unpackCode(): Promise<Code[]> {
  const all = ((await unpackJson("sources")) ?? []) as Code[];
  for (const code of all) {
    // An address may be the distance from the one before, and a place the same as before: 0.
    let [address, place]: [bigint, string | null] = [0n, null];
    for (const line of code.lines) {
      if (line[0] !== "c") continue;
      address = typeof line[1] === "number" ? address + BigInt(line[1]) : BigInt(`0x${line[1]}`);
      if ((line[4] as unknown) !== 0) place = line[4];
      [line[1], line[4]] = [address.toString(16), place];
    }
  }
  return all;
}

export async function load(): Promise<Data> {
  const start = performance.now();
  const [about, columns] = await Promise.all([unpackJson("about") as Promise<About>, part("columns")!]);
  const reader = new Reader(new Uint8Array(columns));
  const names = reader.texts();
  const kinds = reader.column().bytes;
  const nameFile = reader.numbers(new Int32Array(names.length));
  const count = about.data.nodes;
  const { parent, end } = tree(reader.numbers(new Int32Array(count)));
  const nodeName = reader.numbers(new Int32Array(count));
  const wakerNode = reader.numbers(new Int32Array(about.data.wakers.length));
  const sets = readSets(reader, about);
  const strips = readStrips(reader.column(), about);
  return { about, names, kinds, nameFile, parent, nodeName, end, wakerNode, sets, strips, states: about.data.states, loadMs: performance.now() - start };
}

/** From levels up to parents. */
function tree(up: Int32Array): { parent: Int32Array; end: Int32Array } {
  const parent = new Int32Array(up.length);
  const end = new Int32Array(up.length);
  for (let node = 1; node < up.length; node++) {
    let above = node - 1;
    for (let i = up[node]; i > 0; i--) {
      end[above] = node;
      above = parent[above];
    }
    parent[node] = above;
  }
  for (let node = up.length - 1; node > 0; node = parent[node]) end[node] = up.length;
  if (up.length > 0) end[0] = up.length;
  return { parent, end };
}

/** From steps whose lowest bit is their sign to values. */
function signedSteps(steps: Int32Array): Int32Array {
  for (let at = 0, value = 0; at < steps.length; at++) steps[at] = value += steps[at] & 1 ? -(steps[at] + 1) / 2 : steps[at] / 2;
  return steps;
}

/** Each item's place; without a column, item n is in place n. */
function places(column: Reader, items: number): Int32Array {
  const place = new Int32Array(items);
  if (column.bytes.length) return column.values(place);
  for (let at = 0; at < items; at++) place[at] = at;
  return place;
}

/** Where and when items are. */
type Placed = Pick<ItemSet, "placeNode" | "placeState" | "place" | "isCounted" | "thread" | "runs" | "since" | "length">;

function readPlaced(reader: Reader, items: number): Placed {
  const nodes = reader.column();
  const placeState = reader.column().bytes;
  const placeNode = signedSteps(nodes.values(new Int32Array(placeState.length)));
  const column = reader.column();
  const [place, isCounted] = [places(column, items), column.bytes.length === 0];
  const runs = reader.all();
  const [thread, since] = [new Int32Array(items), reader.numbers(new Float64Array(items))];
  const found: ItemSet["runs"] = [];
  for (let run = 0, from = 0; run < runs.length; run += 2) {
    const to = from + runs[run + 1];
    thread.fill(runs[run], from, to);
    found.push({ thread: runs[run], from, to });
    let last = 0;
    for (; from < to; from++) since[from] = last += since[from];
  }
  return { placeNode, placeState, place, isCounted, thread, runs: found, since, length: reader.numbers(new Float64Array(items)) };
}

const KEYS = ["place", "thread", "since", "length", "amount", "count", "waker", "longest"] as const;

/** The samples of the first set before the items of this one. */
function joined(first: ItemSet, own: Placed): Placed {
  const samples: number[] = [];
  for (let item = 0; item < first.items; item++) if (first.since[item] > 0 && first.length[item] === 0) samples.push(item);
  const put = <T extends Int32Array | Float64Array>(into: T, of: T, more: T): T => {
    samples.forEach((item, at) => { into[at] = of[item]; });
    into.set(more, samples.length);
    return into;
  };
  const ints = (of: Int32Array, more: Int32Array) => put(new Int32Array(samples.length + more.length), of, more);
  const floats = (of: Float64Array, more: Float64Array) => put(new Float64Array(samples.length + more.length), of, more);
  const both = <T extends Int32Array | Uint8Array>(into: T, more: T) => { into.set(more, into.length - more.length); return into; };
  const [before, placesInAll] = [first.placeNode.length, first.placeNode.length + own.placeNode.length];
  const [placeNode, placeState] = [new Int32Array(placesInAll), new Uint8Array(placesInAll)];
  placeNode.set(first.placeNode);
  placeState.set(first.placeState);
  return {
    placeNode: both(placeNode, own.placeNode), placeState: both(placeState, own.placeState), isCounted: false, runs: own.runs,
    place: ints(first.place, own.place.map((place) => place + before)), thread: ints(first.thread, own.thread), since: floats(first.since, own.since), length: floats(first.length, own.length),
  };
}

/** Columns of a set. */
const COLUMNS = 11;

/** Each set is unpacked when it is first asked for: a page shows one, and a million samples take a second. */
function readSets(reader: Reader, about: About): ItemSet[] {
  const sets: ItemSet[] = [];
  about.data.sets.forEach((info, at) => {
    const own = new Reader(reader.bytes);
    own.at = reader.at;
    for (let column = 0; column < COLUMNS; column++) reader.column();
    let set: ItemSet | undefined;
    Object.defineProperty(sets, at, { enumerable: true, get: () => (set ??= readSet(own, info, about, at > 0 ? sets[0] : undefined)) });
  });
  return sets;
}

function readSet(reader: Reader, info: SetInfo, about: About, first?: ItemSet): ItemSet {
  const { items, alike } = info;
  const own = readPlaced(reader, items - alike);
  const placed = alike > 0 ? joined(first!, own) : own;
  const { since, length } = placed;
  const [waits, others] = [reader.column(), reader.column()];
  const amount = new Float64Array(items);
  const tick = about.data.tick_ns;
  const hasWaits = waits.bytes.length > 0;
  if (!hasWaits) others.values(amount);
  for (let i = 0; hasWaits && i < items; i++) {
    amount[i] = (length[i] > 0 ? waits : others).varint();
    if (length[i] === 0) continue;
    // Mostly the amount in ticks, rounded up.
    const step = length[i] - 1;
    length[i] = Math.ceil(amount[i] / tick) + (step % 2 ? -(step + 1) / 2 : step / 2);
  }
  const count = reader.numbers(new Float64Array(items));
  const waker = new Int32Array(items);
  waker.set(reader.numbers(new Int32Array(items - alike)), alike);
  const longest = longestOf(reader.column(), alike, length, amount, tick);
  let states: Float64Array | null = null;
  // Samples are moments: their begin is their end.
  const set: ItemSet = { ...info, ...placed, amount, count, waker, longest, get states() { return (states ??= statesOf(this, about)); }, gap: since, latest: since, earliest: since, firstWait: info.wall ? 1 : Infinity };
  if (alike > 0 && alike < items) sort(set);
  if (alike > 0) set.runs = runsOf(set.thread);
  set.latest = set.earliest = set.gap = set.since;
  if (hasWaits) reach(set, about);
  return set;
}

/** From what the other columns let expect; the first `alike` items are samples. */
function longestOf(column: Reader, alike: number, length: Float64Array, amount: Float64Array, tick: number): Float64Array {
  const longest = new Float64Array(length.length);
  if (column.bytes.length) column.values(longest.subarray(alike));
  for (let item = alike; item < longest.length; item++) {
    const step = longest[item];
    longest[item] = (step % 2 ? -(step + 1) / 2 : step / 2) + Math.min(length[item], Math.floor(amount[item] / tick));
  }
  return longest;
}

function statesOf({ items, amount, place, placeState }: ItemSet, about: About): Float64Array {
  const states = new Float64Array(about.data.states.length);
  for (let i = 0; i < items; i++) states[placeState[place[i]]] += amount[i];
  return states;
}

/** By thread, then time. */
function sort(set: ItemSet): void {
  const order = Int32Array.from(set.thread.keys()).sort((a, b) => set.thread[a] - set.thread[b] || set.since[a] - set.since[b]);
  for (const key of KEYS) {
    const column = set[key];
    Object.assign(set, { [key]: column instanceof Int32Array ? order.map((item) => column[item]) : Float64Array.from(order, (item) => column[item]) });
  }
}

function runsOf(thread: Int32Array): ItemSet["runs"] {
  const runs: ItemSet["runs"] = [];
  for (let from = 0; from < thread.length; ) {
    let to = from + 1;
    while (to < thread.length && thread[to] === thread[from]) to++;
    runs.push({ thread: thread[from], from, to });
    from = to;
  }
  return runs;
}

/** The time that items reach, so that those of a span are found without looking at all. */
function reach(set: ItemSet, about: About): void {
  const { runs, since, length, amount, items, place, placeState } = set;
  const [gap, latest, earliest] = [new Float64Array(items), new Float64Array(items), new Float64Array(items)];
  // By place: the end of the last wait of a thread, and the run that it is of.
  const [ends, of] = [new Float64Array(placeState.length), new Int32Array(placeState.length).fill(-1)];
  runs.forEach(({ thread, from, to }, run) => {
    const born = about.data.threads[thread]?.from ?? 0;
    let last = 0;
    for (let i = from; i < to; i++) {
      const at = place[i];
      const end = of[at] === run ? ends[at] : born;
      gap[i] = Math.min(end, since[i] - 1);
      if (length[i] > 0) [ends[at], of[at]] = [Math.max(end, since[i] - 1 + length[i]), run];
      latest[i] = last = Math.max(last, since[i] + length[i]);
    }
    let first = Infinity;
    for (let i = to - 1; i >= from; i--) {
      const isSpread = length[i] > 0 && amount[i] > length[i] * about.data.tick_ns;
      earliest[i] = first = Math.min(first, isSpread ? gap[i] + 1 : since[i]);
    }
  });
  Object.assign(set, { gap, latest, earliest });
}

/** First of a thread's items that may be inside a span, and the one after the last. `from` is after its sums. */
export function range(set: ItemSet, from: number, to: number, span: [number, number]): [number, number] {
  const partition = (isBefore: (item: number) => boolean) => {
    let [low, high] = [from, to];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(middle)) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return [partition((item) => set.latest[item] <= span[0]), partition((item) => set.earliest[item] <= span[1])];
}

function readStrips(column: Reader, about: About): Map<number, Uint8Array> {
  const strips = new Map<number, Uint8Array>();
  const states = about.data.states.length;
  about.data.threads.forEach((thread, index) => {
    if (!thread.strip) return;
    const shares = new Uint8Array(about.data.columns * states);
    for (let at = 0; at < about.data.columns; at++) {
      for (let parts = column.bytes[column.at++]; parts > 0; parts--) {
        shares[at * states + column.bytes[column.at]] = column.bytes[column.at + 1];
        column.at += 2;
      }
    }
    strips.set(index, shares);
  });
  return strips;
}
