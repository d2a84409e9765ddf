// Made data of any size: stacks as folded text, and a page with threads and samples over time.
import { readFileSync } from "node:fs";
import { deflateRawSync } from "node:zlib";
import { aboutOf } from "./unpacked.mjs";

/** As the page's script is encoded: docs/formats/page.md. */
function base91(bytes) {
  let [text, bits, count] = ["", 0, 0];
  const push = (digit) => { text += String.fromCharCode(35 + digit).replace("<", "!"); };
  const pair = (value) => { push(Math.floor(value / 91)); push(value % 91); };
  for (const byte of bytes) {
    [bits, count] = [bits * 256 + byte, count + 8];
    if (count < 13) continue;
    count -= 13;
    pair(bits >> count);
    bits &= (1 << count) - 1;
  }
  if (count > 6) pair(bits << (13 - count));
  else if (count > 0) push(bits << (6 - count));
  return text;
}

/** The same numbers everywhere. */
export function randomOf(seed) {
  return (most) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 4294967296) * most);
  };
}

/** A tree of `nodes` functions: parents come before their callees; names are those of C++ templates and plain functions. */
export function tree(nodes) {
  const random = randomOf(41);
  const names = ["all"];
  const words = ["parse", "insert", "find", "erase", "visit", "lower", "emit", "read", "hash", "merge", "split", "walk"];
  const count = Math.max(20, Math.min(20000, Math.round(nodes / 12)));
  for (let at = 0; at < count; at++) {
    const word = words[random(words.length)];
    names.push(at % 3 === 0 ? `std::map<int, std::basic_string<char>>::${word}_${at}` : `${word}_${at}`);
  }
  const [parent, name, depth] = [new Int32Array(nodes), new Int32Array(nodes), new Int32Array(nodes)];
  const taken = new Set();
  let before = 0;
  for (let node = 1; node < nodes; node++) {
    // Mostly one deeper than the one before, as stacks are; sometimes from some caller far above.
    let above = random(3) > 0 && depth[before] < 60 ? before : random(node);
    if (depth[above] >= 60) above = 0;
    let of = 1 + random(count);
    while (taken.has(above * 32768 + of)) of = 1 + random(count);
    taken.add(above * 32768 + of);
    [parent[node], name[node], depth[node]] = [above, of, depth[above] + 1];
    before = node;
  }
  const own = new Int32Array(nodes);
  for (let node = 1; node < nodes; node++) own[node] = 1 + random(9);
  return { names, parent, name, own };
}

/** Lines `caller;callee count`. */
export function folded({ names, parent, name, own }) {
  const lines = [];
  for (let node = 1; node < parent.length; node++) {
    const path = [];
    for (let at = node; at !== 0; at = parent[at]) path.push(names[name[at]].replaceAll(";", ":"));
    lines.push(`${path.reverse().join(";")} ${own[node]}`);
  }
  return `${lines.join("\n")}\n`;
}

class Columns {
  parts = [];
  column(bytes) { this.parts.push(varints([bytes.length]), bytes); }
  numbers(values) { this.column(varints(values)); }
  packed() { return deflateRawSync(Buffer.concat(this.parts), { level: 9 }).toString("base64"); }
}

function varints(values) {
  const out = Buffer.alloc(values.length * 8);
  let at = 0;
  for (let value of values) {
    while (value >= 128) {
      out[at++] = (value % 128) | 128;
      value = Math.floor(value / 128);
    }
    out[at++] = value;
  }
  return out.subarray(0, at);
}

/** A page with the script that has all views: that of folded stacks lacks those of time. */
function withAllViews(page) {
  const bundle = (name) => readFileSync(new URL(`../../crates/cli/src/html/bundle/${name}`, import.meta.url), "utf8");
  const script = base91(deflateRawSync(bundle("page.js"), { level: 9 }));
  return page.replace(/<script type="[^"]*" id="code">[^<]*/, () => `<script type="base91" id="code">${script}`).replace(/script-src 'sha256-[^']*'/, () => `script-src 'sha256-${bundle("page.js.sha256").trim()}'`);
}

/** A page of a recording with `samples` samples of `threads` threads in the stacks of a tree; `page` is any other page. */
export function recorded(page, made, threads, samples) {
  page = withAllViews(page);
  const { names, parent, name } = made;
  const nodes = parent.length;
  const below = Array.from({ length: nodes }, () => []);
  for (let node = 1; node < nodes; node++) below[parent[node]].push(node);
  const [order, up] = [[], []];
  const open = [[0, 1]];
  for (let level = 0; open.length; ) {
    const [node, depth] = open.pop();
    order.push(node);
    up.push(level + 1 - depth);
    level = depth;
    for (const child of below[node].reverse()) open.push([child, depth + 1]);
  }
  up[0] = 1;
  const place = new Int32Array(nodes);
  order.forEach((node, at) => { place[node] = at; });
  const columns = new Columns();
  columns.numbers(names.map(() => 0));
  columns.numbers(names.map((text) => Buffer.byteLength(text)));
  columns.column(Buffer.from(names.join("")));
  columns.column(Buffer.alloc(names.length, 1));
  columns.numbers(new Int32Array(names.length));
  columns.numbers(up);
  columns.numbers(order.map((node) => name[node]));
  columns.numbers([]);
  const random = randomOf(7);
  const each = Math.floor(samples / threads);
  const ticks = each * 100;
  let frame = 0;
  columns.numbers(Array.from({ length: nodes - 1 }, (_, at) => {
    const step = place[at + 1] - frame;
    frame = place[at + 1];
    return step < 0 ? -2 * step - 1 : 2 * step;
  }));
  columns.column(Buffer.alloc(nodes - 1));
  columns.numbers(Int32Array.from({ length: each * threads }, () => random(nodes - 1)));
  columns.numbers(Array.from({ length: threads }, (_, at) => [at, each]).flat());
  // Each thread's samples are 100 ticks apart.
  columns.numbers(Int32Array.from({ length: each * threads }, (_, at) => (at % each === 0 ? 51 : 100)));
  columns.numbers(new Int32Array(each * threads));
  columns.numbers([]);
  for (const value of [100000, 1, 0]) columns.numbers(new Int32Array(each * threads).fill(value));
  columns.numbers([]);
  columns.column(Buffer.alloc(0));
  return filled(page, columns, {
    nodes, tick_ns: 1000, ticks, columns: 600, shares: 40, wakers: [], states: ["on CPU"], files: [""],
    threads: Array.from({ length: threads }, (_, at) => ({ pid: 1, tid: at + 1, comm: `worker ${at % 4}`, from: 0, to: ticks, idle: false, strip: false })),
    sets: [{ name: "cpu-clock", unit: "ns", wall: false, items: each * threads, alike: 0 }],
  });
}

/** The page with other data. */
function filled(page, columns, data) {
  const about = aboutOf(page);
  about.data = { ...about.data, ...data };
  const put = (id, text) => { page = page.replace(new RegExp(`(<script type="[^"]*" id="${id}">).*?(</script>)`, "s"), (_, open, close) => open + text + close); };
  put("about", deflateRawSync(JSON.stringify(about)).toString("base64"));
  put("columns", columns.packed());
  return page;
}

/**
 * A page of a thread of 2 s that waits in two places. One wait in `seldom` represents 950 ms of shorter ones; before it the
 * thread waited 18 times in `often`, 10 ms each time.
 */
export function waiting(page) {
  page = withAllViews(page);
  const names = ["all", "worker", "often", "seldom"];
  const columns = new Columns();
  columns.numbers(names.map(() => 0));
  columns.numbers(names.map((text) => text.length));
  columns.column(Buffer.from(names.join("")));
  columns.column(Buffer.alloc(names.length, 1));
  columns.numbers(names.map(() => 0));
  columns.numbers([1, 0, 0, 1]);
  columns.numbers([0, 1, 2, 3]);
  columns.numbers([]);
  const waits = 18;
  const [ticks, every] = [2000000, 100000];
  const each = (often, seldom) => columns.numbers([...Array(waits).fill(often), seldom]);
  columns.numbers([4, 2]);
  columns.column(Buffer.alloc(2));
  each(0, 1);
  columns.numbers([0, waits + 1]);
  each(every, every);
  // The last wait is 1 ms long: 949,000 ticks less than its amount.
  each(1, 2 * 949000);
  each(10000000, 950000000);
  columns.numbers([]);
  each(1, 950);
  each(0, 0);
  columns.numbers([]);
  columns.column(Buffer.alloc(0));
  return filled(page, columns, {
    nodes: names.length, tick_ns: 1000, ticks, columns: 1, shares: 40, wakers: [], states: ["poll"], files: [""],
    threads: [{ pid: 1, tid: 1, comm: "worker", from: 0, to: ticks, idle: false, strip: false }],
    sets: [{ name: "wall clock", unit: "ns", wall: true, items: waits + 1, alike: 0 }],
  });
}
