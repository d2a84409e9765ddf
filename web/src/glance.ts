// The first answers: where CPU time went and where threads waited, of the whole recording.

import { Data, Io, IoRow, Kind } from "./data";
import { el } from "./dom";
import { countOf, duration, percent } from "./format";
import { inFewLetters, shortFunction } from "./functions";
import { FRESH } from "./selection";
import { partsOf } from "./parts";
import { labelsOf } from "./stacks";
import { greatest, ownByName, sum, Sums } from "./sums";
import { isNamed, stackOf, WaitRow, waitRows } from "./waits";

/** Names in a line, and the least share of thread time of a line. */
const [NAMED, LEAST_LINE, LEAST_WAIT] = [5, 0.03, 0.02];
/** Waits for a CPU are nobody's place in the program. */
const FOR_CPU = ["runnable", "preempted"];

/** All waits of a recording, longest first, and what their shares are of. */
export interface AllWaits { sums: Sums; rows: WaitRow[] }

const made = new WeakMap<Data, AllWaits>();

/** `known` are the sums of all, where they are made already. */
export function allWaits(data: Data, known?: Sums): AllWaits {
  let waits = made.get(data);
  if (!waits) {
    const sums = known ?? sum(data, FRESH);
    made.set(data, (waits = { sums, rows: waitRows(data, sums, FRESH) }));
  }
  return waits;
}

/** The row's innermost functions that tell it from others, without those that every wait begins with. */
function placeWords(data: Data, row: WaitRow): string {
  const parts = row.label.split(" < ").filter((part) => part !== "…");
  const named = parts.filter(isNamed);
  const shown = (named.length ? named : parts).slice(-2);
  // The runtime's functions are the same for all code that it runs.
  const code = innermostOfRuntime(data, row.node);
  return (!code || shown.includes(code) ? shown : [shown[shown.length - 1], code]).map(inFewLetters).join(" < ");
}

/** Code that a runtime made of the program or interprets; "" without. Stubs of its own have no class, file or line. */
function innermostOfRuntime(data: Data, node: number): string {
  for (; node !== 0; node = data.parent[node]) {
    const name = data.nodeName[node];
    const isProgram = data.kinds[name] === Kind.Python || (data.kinds[name] === Kind.Jit && /[.:]/.test(data.names[name]));
    if (isProgram && isNamed(data.names[name])) return data.names[name];
  }
  return "";
}

const line = (word: string, title: string, parts: HTMLElement[]) => [el("b", { text: word, title }), el("span", { class: "largest" }, ...parts)];
const named = (text: string, full: string, share: string, press: () => void) =>
  el("span", {}, el("button", { type: "button", class: "link", title: full, text, on: { click: press } }), ` ${share}`);

/** Functions with most time on a CPU; `press` gets one's name. */
function cpuLine(data: Data, sums: Sums, press: (name: string, state: string) => void): HTMLElement[] {
  const on = data.states.indexOf("on CPU");
  // Threads that wait for a CPU want it for the same.
  const wanted = ["on CPU", ...FOR_CPU].reduce((sum, state) => sum + (sums.states[data.states.indexOf(state)] ?? 0), 0);
  if (on < 0 || sums.states[on] === 0 || wanted < sums.whole * LEAST_LINE) return [];
  const own = ownByName(data, sums, on, true);
  const parts = greatest(own, NAMED).map((name) => {
    const text = data.names[name];
    return named(shortFunction(data, text), text, percent(own[name], sums.states[on]), () => press(text, "on CPU"));
  });
  return [...line("CPU time: ", "own time of functions, the kernel's work for them included; shares of all time on a CPU", parts), ...partsLine(data, sums, on, press)];
}

/** Functions that divide the time: where each function's own is little, they are a program's parts. */
function partsLine(data: Data, sums: Sums, on: number, press: (name: string, state: string) => void): HTMLElement[] {
  const parts = partsOf(data, sums, on).slice(0, NAMED).map(([name, value]) =>
    named(shortFunction(data, name), name, percent(value, sums.states[on]), () => press(name, "on CPU")));
  return parts.length > 1 ? line("By caller: ", "functions that divide the time on a CPU among them, all that they call included", parts) : [];
}

function waitLine(data: Data, { sums, rows }: AllWaits, press: (name: string, state: string) => void): HTMLElement[] {
  // Rows that read the same are one.
  const places = new Map<string, { ns: number; state: string; row: WaitRow }>();
  for (const row of rows) {
    const state = data.states[row.state];
    if (FOR_CPU.includes(state) || row.total < sums.whole * 0.001) continue;
    const words = `${state} in ${placeWords(data, row)}`;
    const known = places.get(words);
    if (known) known.ns += row.total;
    else places.set(words, { ns: row.total, state, row });
  }
  const shown = [...places].filter(([, { ns }]) => ns >= sums.whole * LEAST_WAIT).sort((a, b) => b[1].ns - a[1].ns).slice(0, NAMED - 1);
  const parts = shown.map(([words, { ns, state, row }]) => {
    const stack = stackOf(data, row.node);
    const place = row.label.split(" < ").filter((name) => stack.includes(name)).at(-1) ?? "";
    return named(words, stack.join(" < "), percent(ns, sums.whole), () => press(place, state));
  });
  return parts.length ? line("Waits: ", "where threads wait, by the functions that tell a place from others; shares of all thread time", parts) : [];
}

/** Labels of goroutines, by all of their time. */
export function labelLine(data: Data, { set, cells, cell, total }: Sums, press: (name: string) => void): HTMLElement[] {
  const { parent, nodeName, names } = data;
  const labels = new Map(labelsOf(data).map((name) => [name, 0]));
  if (labels.size) for (let at = 0; at < cell.length; at++) {
    for (let node = set.placeNode[cells.place[at]]; node > 0; node = parent[node]) {
      const known = labels.get(nodeName[node]);
      if (known !== undefined) labels.set(nodeName[node], known + cell[at]);
    }
  }
  const parts = [...labels].sort((a, b) => b[1] - a[1]).slice(0, NAMED).map(([name, value]) => named(names[name], names[name], percent(value, total), () => press(names[name])));
  return parts.length ? line("By label: ", "time of the goroutines with a label", parts) : [];
}

/** Lines of a recording with waits: terms and what they say, in turn. */
export function glanceLines(data: Data, press: (name: string, state: string) => void): HTMLElement[] {
  const waits = allWaits(data);
  return [...cpuLine(data, waits.sums, press), ...waitLine(data, waits, press)];
}

/** Requests to disks: how long they take by operation, and the files with most time. */
export function requestLines({ operations, files = [], queue_known }: Io): HTMLElement[] {
  const text = (words: string) => el("span", { text: words });
  const part = (word: string, of: IoRow["device"]) => (of.p50_ns === null ? "" : ` ${word} p50 ${duration(of.p50_ns)}, p99 ${duration(of.p99_ns ?? of.max_ns)}`);
  const many = (word: string) => word + (word === "flush" ? "es" : "s");
  const kinds = operations.map((row) => text(`${countOf(row.requests, row.op, many(row.op))}:${queue_known ? `${part("queue", row.queue)},` : ""}${part("device", row.device)}`));
  const whole = operations.reduce((sum, row) => sum + row.device.total_ns, 0);
  const named = files.slice(0, NAMED - 1).map((row) => text(`${row.op} ${row.file} ${percent(row.device.total_ns, whole)}`));
  return [...line("Latency: ", "", kinds), ...(named.length ? line("Files: ", "shares of all time in the device", named) : [])];
}
