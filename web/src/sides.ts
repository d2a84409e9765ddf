// Two sides of a comparison, two recordings or two spans of one: the look of their frames, and what changed by function.

import { Data } from "./data";
import { clear, el } from "./dom";
import { Look } from "./flame";
import { amount, change } from "./format";
import { functionName } from "./functions";
import { diffColour } from "./palette";
import { Selection, Store } from "./selection";
import { Found, FunctionRow, functions, Sums } from "./sums";
import { Column, Table } from "./table";

/** Amounts of the sides by state. The first two are sampled; two more, if there are, are exact. */
const pair = (states: Float64Array): [number, number] => (states.length > 2 ? [states[0] + states[2], states[1] + states[3]] : [states[0], states[1]]);

export abstract class Sides {
  readonly box = el("div", { class: "pane" });
  readonly legend = el("p", { class: "legend" });
  readonly look: Look = { colour: (frame) => diffColour(this.size(frame.states)), sign: (frame) => this.sign(frame.states) };
  private readonly note = el("p", { class: "note" });
  private table: Table<FunctionRow> | null = null;
  protected sums!: Sums;

  /** `both` has the states of `sums`. */
  constructor(readonly data: Data, readonly store: Store, readonly names: [string, string], readonly ends: [string, string], readonly both: Data = data) {
    this.box.append(this.note);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.drawLegend());
  }

  /** 95 % of the changes that chance makes are within it. */
  protected abstract floor(states: Float64Array): number;
  /** What the amounts of a side are. */
  protected abstract scale(): string;
  /** A last word on the functions' table. */
  protected readonly words: string = "";
  /** Columns after the change of own amounts. */
  protected judged(): Column<FunctionRow>[] { return []; }
  protected isJudged({ own }: FunctionRow): boolean { return this.size(own) !== 0; }

  select(sums: Sums, _: Selection): void {
    this.sums = sums;
    this.drawLegend();
  }

  show(found: Found): void {
    if (!this.table) this.box.append((this.table = new Table("functions by change", this.columns(), (row) => this.focus(row.name), 2)).box);
    let rows = functions(this.both, this.sums);
    const all = rows.length;
    if (found.hit) rows = rows.filter((row) => found.hit![row.name]);
    this.note.textContent = `${rows.length === all ? all : `${rows.length} of ${all}`} functions, greatest change of own amount first · ${this.scale()}${this.words} · click shows only the stacks of a function`;
    this.table.show(rows);
  }

  /** Both sides and their difference, as text. */
  sides(states: Float64Array): string {
    const [before, after] = pair(states);
    const percent = ((100 * (after - before)) / before).toFixed(1).replace("-", "−");
    const isChanged = before > 0 && after > 0 && /[1-9]/.test(percent);
    const [[first, second], [gone, fresh]] = [this.names, this.ends];
    const relative = isChanged ? ` (${after > before ? "+" : ""}${percent} %)` : before === 0 && after > 0 ? ` (${fresh})` : after === 0 && before > 0 ? ` (${gone})` : "";
    return `${this.change(after - before)}${relative} · ${first} ${this.amount(before)} → ${second} ${this.amount(after)}`;
  }

  /** After a unit. */
  protected per(): string { return ""; }
  protected amount(value: number): string { return amount(value, this.sums.set.unit) + this.per(); }
  private change(value: number): string { return change(value, this.sums.set.unit) + this.per(); }

  /** From -1 to 1; 0 where chance alone makes such a change. */
  private size(states: Float64Array): number {
    const [before, after] = pair(states);
    const delta = after - before;
    if (Math.abs(delta) <= this.floor(states)) return 0;
    return delta / Math.max(before, after, Math.max(...pair(this.sums.states)) * 0.01);
  }

  private sign(states: Float64Array): string {
    const [before, after] = pair(states);
    return this.size(states) === 0 ? "" : `${this.change(after - before).replace(/ points$/, "")} `;
  }

  protected focus(name: number): void {
    const text = this.data.names[name];
    this.store.change({ focus: this.store.current.focus === text ? "" : text, zoom: [] });
  }

  private columns(): Column<FunctionRow>[] {
    const { data, names: [first, second] } = this;
    const column = (title: string, more: Partial<Column<FunctionRow>>, value: (row: FunctionRow) => number): Column<FunctionRow> => ({ title, class: "n", sort: value, cell: (row) => (value(row) > 0 ? this.amount(value(row)) : ""), ...more });
    const delta = (states: Float64Array) => { const [before, after] = pair(states); return after - before; };
    const file = (row: FunctionRow) => data.about.data.files[data.nameFile[row.name]] ?? "";
    const wide = { class: "n wide" };
    return [
      column(`self ${first}`, {}, ({ own }) => pair(own)[0]),
      column(`self ${second}`, {}, ({ own }) => pair(own)[1]),
      column("change", { cell: (row) => this.changeOf(row) }, ({ own }) => Math.abs(delta(own))),
      ...this.judged(),
      column(`total ${first}`, wide, ({ total }) => pair(total)[0]),
      column(`total ${second}`, wide, ({ total }) => pair(total)[1]),
      column("change", { ...wide, help: "of the total: callees included", cell: ({ total }) => this.change(delta(total)) }, ({ total }) => Math.abs(delta(total))),
      { title: "function", class: "name", sort: (row) => data.names[row.name], cell: (row) => functionName(data.names[row.name], data.kinds[row.name]) },
      { title: "file", class: "file", sort: file, cell: file },
    ];
  }

  protected changeOf(row: FunctionRow): HTMLElement {
    const [before, after] = pair(row.own);
    const cell = el("span", { class: "change", text: this.change(after - before) });
    if (this.isJudged(row)) cell.style.background = diffColour((after - before) / Math.max(before, after, 1));
    return cell;
  }

  protected drawLegend(): void {
    const [[first, second], [gone, fresh]] = [this.names, this.ends];
    clear(this.legend);
    for (const [size, text] of [[-1, gone], [-0.4, "less"], [0, "no change beyond noise"], [0.4, "more"], [1, fresh]] as [number, string][]) {
      const mark = el("i", { class: "kind" });
      mark.style.background = diffColour(size);
      this.legend.append(el("span", {}, mark, text));
    }
    this.legend.append(el("span", { class: "dim", text: `· signs: change of the frame with its callees · width: ${first} + ${second}, ${this.scale()}` }));
  }
}
