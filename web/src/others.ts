// Locks, notes about the recording.

import { Data, Lock } from "./data";
import { clear, el } from "./dom";
import { countOf, duration, grouped, percent } from "./format";
import { withFile } from "./functions";
import { Store } from "./selection";
import { Table } from "./table";

export class Locks {
  readonly box = el("div", { class: "pane" });
  private readonly detail = el("div", { class: "split" });

  constructor(readonly data: Data, readonly store: Store) {
    const locks = data.about.locks;
    const whole = locks.reduce((sum, lock) => sum + lock.wait, 0);
    const table = new Table<Lock>("locks", [
      { title: "waited", class: "n", sort: (lock) => lock.wait, cell: (lock) => duration(lock.wait) },
      { title: "%", class: "n", help: "of all waits for locks", cell: (lock) => percent(lock.wait, whole) },
      { title: "waits", class: "n", sort: (lock) => lock.count, cell: (lock) => grouped(lock.count) },
      { title: "p50", class: "n", sort: (lock) => lock.p50, cell: (lock) => duration(lock.p50) },
      { title: "p99", class: "n", sort: (lock) => lock.p99, cell: (lock) => duration(lock.p99) },
      { title: "longest", class: "n wide", sort: (lock) => lock.max, cell: (lock) => duration(lock.max) },
      { title: "threads", class: "n", sort: (lock) => lock.threads.length, cell: (lock) => String(lock.threads.length) },
      { title: "lock", class: "name", sort: (lock) => lock.what, cell: (lock) => lock.what },
      { title: "released by", class: "name wide", cell: (lock) => (lock.holder ? `${lock.holder.name} ${lock.holder.tid || ""} (${lock.holder.percent} %)` : "not known") },
    ], (lock) => this.choose(lock));
    const note = locks.length ? `${countOf(locks.length, "lock", "locks")} · whole recording, ${duration(whole)} of waiting · a click selects the waiting threads` : "No thread waited for a lock.";
    this.box.append(el("p", { class: "note", text: note }), table.box, this.detail);
    table.show([...locks]);
    if (locks[0]) this.describe(locks[0]);
  }

  private choose(lock: Lock): void {
    this.describe(lock);
    this.store.change({ threads: lock.threads });
  }

  private describe(lock: Lock): void {
    clear(this.detail);
    const list = (text: string | null | undefined) => el("ol", { class: "stack" }, ...(text ?? "not known").split(" < ").map((name) => el("li", { text: withFile(this.data, name) })));
    this.detail.append(el("section", {}, el("h3", { text: "waited for in" }), list(lock.place)), el("section", {}, el("h3", { text: lock.holder ? `released by ${lock.holder.name} in` : "released by" }), list(lock.holder?.place || null)));
  }
}

export function recording(data: Data): HTMLElement {
  const { about } = data;
  const notes = [...about.notes];
  if (about.pruned) notes.unshift(`${countOf(about.pruned.functions, "function", "functions")} of less than ${(100 * about.pruned.share).toFixed(4)} % were left out to keep the page small; their time counts for their callers`);
  if (about.no_verdict) notes.unshift(`no findings: ${about.no_verdict}`);
  const facts = about.facts.map(([label, value]) => el("tr", {}, el("th", { scope: "row", text: label }), el("td", { text: value })));
  return el("div", { class: "pane" },
    el("h3", { text: "Notes" }), notes.length ? el("ul", {}, ...notes.map((note) => el("li", { text: note }))) : el("p", { class: "dim", text: "Nothing limits this recording." }),
    el("h3", { text: "Recording" }), el("table", { class: "facts", "aria-label": "facts about the recording" }, el("tbody", {}, ...facts)),
    el("p", { class: "dim", text: `page: ${grouped(about.data.nodes)} frames, ${about.data.sets.map((set) => `${grouped(set.items)} of ${set.name}`).join(", ")}; unpacked in ${data.loadMs.toFixed(0)} ms` }));
}
