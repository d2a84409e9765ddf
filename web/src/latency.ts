// Lengths of waits: as histograms by state, and where the waits of a selected range were, next to all others.

import { Data, Lengths } from "./data";
import { clear, el } from "./dom";
import { countOf, duration, grouped, percent, range } from "./format";
import { stackWords } from "./functions";
import { stateColour } from "./palette";
import { Selection, Store } from "./selection";
import { sum, Sums } from "./sums";
import { Table } from "./table";
import { stateMark, WaitRow, waitRows } from "./waits";

type Range = [number, number];

/** Lengths from which a button selects, ns. */
const LEAST = [100e3, 1e6, 5e6, 10e6, 100e6, 1e9];

/** A place with its waits of the selected lengths, and all others there. */
interface Side { row: WaitRow; here: number; rest: number }

export class Latency {
  readonly box = el("div", { class: "pane" });
  private readonly least = el("span", { class: "choice", role: "radiogroup", "aria-label": "lengths of waits" });
  private readonly note = el("p", { class: "note" });
  private readonly grid = el("div", { class: "grid" });
  private readonly table: Table<Side>;
  /** Sums of these and of the others. */
  private whole = { here: 0, rest: 0 };

  constructor(readonly data: Data, readonly store: Store) {
    const share = (title: string, of: "here" | "rest") => ({ title, class: "n", sort: (side: Side) => side[of], cell: (side: Side) => percent(side[of], this.whole[of]) });
    this.table = new Table<Side>("where waits of the selected lengths were, and all others", [
      { title: "these", class: "n", sort: (side) => side.here, cell: (side) => duration(side.here) },
      share("share", "here"),
      { title: "others", class: "n", help: "waits of other lengths", sort: (side) => side.rest, cell: (side) => duration(side.rest) },
      share("share", "rest"),
      { title: "state", sort: (side) => data.states[side.row.state], cell: (side) => stateMark(data.states[side.row.state]) },
      { title: "where", class: "name", sort: (side) => side.row.label, cell: (side) => el("span", { text: stackWords(data, side.row.label) }) },
    ], (side) => store.change({ states: [data.states[side.row.state]] }));
    const { lengths } = data.about;
    const { items, longest, place, placeState } = data.sets[0];
    for (let item = 0; item < items; item++) if (longest[item] > 0) this.known.add(keyOf(placeState[place[item]], longest[item] * data.about.data.tick_ns));
    const words = lengths.length ? "Whole recording, in powers of two. A click on a length shows only those waits in all views, with shift up to that length; on a heading, only that state." : "No waits were recorded.";
    this.box.append(el("p", { class: "options" }, "only waits of at least ", this.least), this.note, this.table.box, el("p", { class: "note", text: words }), this.grid);
  }

  show(sums: Sums, selection: Selection): void {
    const { waits } = selection;
    clear(this.least);
    const choice = (text: string, next: Range | null, isOn: boolean) =>
      this.least.append(el("button", { type: "button", role: "radio", "aria-checked": isOn, text, on: { click: () => this.store.change({ waits: next }) } }));
    choice("any length", null, !waits);
    for (const ns of LEAST) choice(duration(ns).replace(/\.0+ /, " "), [ns, Infinity], waits?.[0] === ns && waits[1] === Infinity);
    clear(this.grid);
    for (const of of this.data.about.lengths) this.grid.append(this.card(of, selection));
    this.table.box.hidden = !waits;
    this.note.hidden = !waits;
    if (waits) this.compare(waits, sums, selection);
  }

  /** Where the selected waits were, next to all others: what only the long ones have is why they are long. */
  private compare(waits: Range, sums: Sums, selection: Selection): void {
    const all = { ...selection, waits: null };
    const sides = new Map<string, Side>();
    for (const row of waitRows(this.data, sum(this.data, all), all)) sides.set(`${row.state} ${row.node}`, { row, here: 0, rest: row.total });
    for (const { state, node, total } of waitRows(this.data, sums, selection)) {
      const side = sides.get(`${state} ${node}`);
      if (side) [side.here, side.rest] = [total, side.rest - total];
    }
    const rows = [...sides.values()];
    const add = (of: "here" | "rest") => rows.reduce((whole, side) => whole + side[of], 0);
    this.whole = { here: add("here"), rest: add("rest") };
    this.note.textContent = `These waits, ${range(waits)}: ${duration(this.whole.here)}. All others: ${duration(this.whole.rest)}. A place with a larger share of these is where waits take so long. Short waits that are known only by their sum count by the longest of them.`;
    this.table.show(rows);
  }

  /** By state and power of two: whether it has a wait that can be selected. Others are known only in sums with longer ones. */
  private readonly known = new Set<number>();

  private card(of: Lengths, { states, waits }: Selection): HTMLElement {
    const press = () => this.store.change({ states: states.includes(of.state) ? [] : [of.state] });
    const head = el("button", { type: "button", class: "link", on: { click: press } }, stateMark(of.state));
    const words = el("p", { class: "dim", text: `${countOf(of.count, "wait", "waits")} · p50 ${duration(of.p50)} · p99 ${duration(of.p99)} · longest ${duration(of.max)}` });
    const isOfState = states.length === 0 || states.includes(of.state);
    const select = (next: Range) => this.store.change({ states: [of.state], waits: next });
    return el("section", { class: "card" }, el("h3", {}, head), words, histogram(`lengths of waits: ${of.state}`, of.rows, of.state, { now: isOfState ? waits : null, select, has: (low) => this.known.has(keyOf(this.data.states.indexOf(of.state), low)) }));
  }
}

/** What a click on a row of a histogram does; `now` is what is selected. */
export interface Ranges { now: Range | null; select: (next: Range) => void; has: (low: number) => boolean }

const keyOf = (state: number, ns: number): number => state * 64 + Math.floor(Math.log2(Math.max(1, ns)));

/** Numbers by length, in powers of two. */
export function histogram(label: string, rows: [number, number][], state: string, ranges: Ranges | null = null): HTMLElement {
  const most = Math.max(...rows.map(([, count]) => count), 1);
  const lines = rows.map(([low, count]) => {
    const bar = el("i");
    bar.style.width = `${(100 * count) / most}%`;
    bar.style.background = stateColour(state);
    const text = `${duration(low)}–${duration(low * 2)}`;
    return el("tr", {}, el("td", { class: "n" }, ranges?.has(low) ? rangeButton(text, [low, low * 2], ranges) : text), el("td", { class: "n", text: grouped(count) }), el("td", { class: "wide-bar" }, bar));
  });
  return el("table", { "aria-label": label }, el("tbody", {}, ...lines));
}

function rangeButton(text: string, [low, high]: Range, { now, select }: Ranges): HTMLElement {
  const isIn = now !== null && low >= now[0] && high <= now[1];
  const press = (event: MouseEvent) => select(event.shiftKey && now ? [Math.min(low, now[0]), Math.max(high, Number.isFinite(now[1]) ? now[1] : high)] : [low, high]);
  return el("button", { type: "button", class: "length", "aria-pressed": isIn, text, on: { click: press } });
}
