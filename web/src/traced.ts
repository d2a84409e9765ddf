// Traced calls and requests to disks: how long each took, and the slowest with their stacks.

import { CallRow, Io, IoRow, SlowCall } from "./data";
import { clear, el, fit } from "./dom";
import { countOf, duration, grouped, percent, range, tickLabel } from "./format";
import { heat } from "./heat";
import { histogram } from "./latency";
import { isDark } from "./palette";
import { Store } from "./selection";
import { Table } from "./table";

const time = (ns: number | null) => (ns === null ? "" : duration(ns));

/** Functions with the lengths of their calls; below, those of one, and its slowest calls. */
export class Calls {
  readonly box = el("div", { class: "pane" });
  private readonly detail = el("div", { class: "split" });
  private chosen: CallRow | null = null;
  /** Lengths of the chosen function's calls, ns. */
  private lengths: [number, number] | null = null;
  private readonly table: Table<CallRow>;

  constructor(readonly calls: { functions: CallRow[]; slowest: SlowCall[] }, readonly store: Store) {
    this.table = new Table<CallRow>("traced functions", [
      { title: "total", class: "n", help: "with the calls inside; recursion counts once", sort: (row) => row.total, cell: (row) => duration(row.total) },
      { title: "self", class: "n less", sort: (row) => row.own, cell: (row) => duration(row.own) },
      { title: "off CPU", class: "n wide", sort: (row) => row.off, cell: (row) => (row.off ? duration(row.off) : "") },
      { title: "calls", class: "n", sort: (row) => row.count, cell: (row) => grouped(row.count) },
      { title: "avg", class: "n wide", sort: (row) => row.avg ?? 0, cell: (row) => time(row.avg) },
      { title: "p50", class: "n less", sort: (row) => row.p50 ?? 0, cell: (row) => time(row.p50) },
      { title: "p99", class: "n", sort: (row) => row.p99 ?? 0, cell: (row) => time(row.p99) },
      { title: "longest", class: "n", sort: (row) => row.max ?? 0, cell: (row) => time(row.max) },
      { title: "function", class: "name", sort: (row) => row.name, cell: (row) => el("span", { title: row.name, text: row.name }) },
    ], (row) => this.choose(row), 0, (row) => (row === this.chosen ? "chosen" : ""));
    this.box.append(el("p", { class: "note", text: `${countOf(calls.functions.length, "function", "functions")} · whole recording · a click shows how long the calls of a function took, and its slowest` }), this.table.box, this.detail);
    this.chosen = calls.functions[0] ?? null;
    this.show();
  }

  private choose(row: CallRow): void {
    this.chosen = row;
    this.lengths = null;
    this.show();
  }

  /** The paths of calls of the selected lengths, each with its share of these and of all others. */
  private paths({ name, paths, rows }: CallRow, lengths: [number, number]): HTMLElement {
    const sides = (rows: [number, number][]) => rows.reduce(([here, rest], [low, count]) => (low >= lengths[0] && low < lengths[1] ? [here + count, rest] : [here, rest + count]), [0, 0]);
    const [here, rest] = sides(rows);
    const listed = paths.map(([path, rows]) => ({ path, sides: sides(rows) })).filter(({ sides }) => sides[0] > 0).sort((a, b) => b.sides[0] - a.sides[0]);
    const known = listed.reduce((sum, { sides }) => sum + sides[0], 0);
    const parts = listed.slice(0, 5).map(({ path, sides: [one, other] }) => el("section", {},
      el("h4", { text: `${percent(one, here)} of these, ${percent(other, rest)} of all others` }),
      el("ol", { class: "stack" }, ...path.slice().reverse().map((name) => el("li", { title: name, text: name })))));
    const others = here > known ? [el("p", { class: "dim", text: `${percent(here - known, here)} came by other paths` })] : [];
    return el("section", { class: "paths" }, el("h3", { text: `who called ${name}: ${countOf(here, "call", "calls")} ${range(lengths)}` }), ...parts, ...others);
  }

  private show(): void {
    this.table.show([...this.calls.functions]);
    clear(this.detail);
    const row = this.chosen;
    if (!row) return;
    const slow = this.calls.slowest.filter((call) => call.path[call.path.length - 1] === row.name);
    const listed = slow.slice(0, 5).map((call) => el("section", {},
      el("h4", { text: `${duration(call.took)} at ${duration(call.at)}, thread ${call.thread}${call.off ? `, ${percent(call.off, call.took)} off the CPU` : ""}` }),
      el("ol", { class: "stack" }, ...call.path.slice().reverse().map((name) => el("li", { title: name, text: name })))));
    const focus = el("button", { type: "button", class: "link", text: "show its stacks in the flame graph", on: { click: () => this.store.change({ focus: row.name, tab: "flame", zoom: [] }) } });
    this.detail.append(
      el("section", {}, el("h3", { text: `lengths of ${countOf(row.count, "call", "calls")} of ${row.name}` }), el("p", { class: "note", text: "A click on a length shows who made those calls, with shift up to that length." }),
        histogram(`lengths of calls of ${row.name}`, row.rows, "on CPU", { now: this.lengths, has: () => true, select: (lengths) => { this.lengths = lengths; this.show(); } }), focus),
      this.lengths ? this.paths(row, this.lengths) : "",
      el("section", {}, el("h3", { text: slow.length ? "its slowest calls" : `not among the ${this.calls.slowest.length} slowest calls` }), ...listed));
  }
}

/** Requests by operation and by who caused them, and their lengths over time. */
export class Requests {
  readonly box = el("div", { class: "pane" });
  private readonly canvas = el("canvas", { role: "img", "aria-label": "requests by length over time" });

  constructor(readonly io: Io) {
    const columns = (title: string, cell: (row: IoRow) => string) => [
      { title: "in device", class: "n", sort: (row: IoRow) => row.device.total_ns, cell: (row: IoRow) => duration(row.device.total_ns) },
      { title: "in queue", class: "n", sort: (row: IoRow) => row.queue.total_ns, cell: (row: IoRow) => (io.queue_known ? duration(row.queue.total_ns) : "not known") },
      { title: "requests", class: "n", sort: (row: IoRow) => row.requests, cell: (row: IoRow) => grouped(row.requests) },
      { title: "MB", class: "n", sort: (row: IoRow) => row.bytes, cell: (row: IoRow) => (row.bytes / 1e6).toFixed(2) },
      { title: "p50", class: "n", cell: (row: IoRow) => time(row.device.p50_ns) },
      { title: "p99", class: "n", sort: (row: IoRow) => row.device.p99_ns ?? 0, cell: (row: IoRow) => time(row.device.p99_ns) },
      { title: "longest", class: "n", sort: (row: IoRow) => row.device.max_ns, cell: (row: IoRow) => time(row.device.max_ns) },
      { title, class: "name", sort: cell, cell },
    ];
    const byWhom = new Table<IoRow>("who causes requests", columns("by whom", (row) => `${row.op} ${row.comm} ${row.pid}${row.cause ? `: ${row.cause}` : ""}${row.functions?.length ? ` ← ${row.functions.slice(0, 4).join(" < ")}` : ""}`), () => {});
    const byFile = new Table<IoRow>("files of requests", columns("file", (row) => `${row.op} ${row.file}${row.writeback ? ", by writeback" : ""}`), () => {});
    const grid = el("div", { class: "grid" });
    for (const row of io.operations) {
      grid.append(el("section", { class: "card" }, el("h3", { text: `${row.op}: ${countOf(row.requests, "request", "requests")}` }), el("p", { class: "dim", text: `in the device: p50 ${time(row.device.p50_ns)} · p99 ${time(row.device.p99_ns)} · longest ${time(row.device.max_ns)}` }), histogram(`${row.op} in the device`, row.device.histogram, "disk")));
    }
    const disks = io.devices.map((disk) => `${disk.name} ${grouped(disk.requests)}`).join(" · ");
    this.box.append(el("p", { class: "note", text: `${countOf(io.requests, "request", "requests")} · disks: ${disks} · busy ${percent(io.busy_ns, io.wall_ns)} of ${duration(io.wall_ns)}` }), ...(io.files?.length ? [byFile.box] : []), byWhom.box, el("h3", { text: "lengths in the device over time" }), this.canvas, grid);
    byWhom.show([...io.submitters]);
    byFile.show([...(io.files ?? [])]);
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  private draw(): void {
    const { slice_ns, heat: rows } = this.io.over_time;
    const width = this.box.clientWidth;
    const columns = Math.max(...rows.map((row) => row.counts.length), 1);
    if (width < 50 || rows.length === 0) return;
    const [left, tall] = [110, 14];
    const context = fit(this.canvas, width, rows.length * tall + 20);
    if (!context) return;
    const most = Math.max(...rows.flatMap((row) => row.counts), 1);
    const wide = (width - left) / columns;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const sorted = [...rows].sort((a, b) => b.from_ns - a.from_ns);
    sorted.forEach((row, at) => {
      row.counts.forEach((count, column) => {
        context.fillStyle = heat(count / most);
        context.fillRect(left + column * wide, at * tall, Math.max(0.7, wide - 0.5), tall - 1);
      });
      context.fillStyle = isDark() ? "#9aa1ac" : "#5a6270";
      context.fillText(`${duration(row.from_ns)}–${duration(row.from_ns * 2)}`, 2, at * tall + tall / 2);
    });
    const every = Math.max(1, Math.round(columns / 8));
    for (let column = 0; column < columns; column += every) context.fillText(column === 0 ? "0" : tickLabel(column * slice_ns, every * slice_ns), left + column * wide, sorted.length * tall + 10);
  }
}
