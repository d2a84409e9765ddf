// Two recordings on one page: what changed by function, and the look of the frames of both.

import { Compare, Data } from "./data";
import { clear, el } from "./dom";
import { Look } from "./flame";
import { amount, change, countOf, plainName, withoutArguments } from "./format";
import { functionName } from "./functions";
import { diffColour } from "./palette";
import { Selection, Store } from "./selection";
import { Found, FunctionRow, functions, sum, Sums } from "./sums";
import { Column, Table } from "./table";

/** Functions in each of the lists above the tabs. */
const LISTED = 7;
const WORDS: Record<string, string> = { more: "more", less: "less", new: "new", gone: "gone" };

export class Comparison {
  readonly box = el("div", { class: "pane" });
  readonly cards = el("section", { class: "cards", "aria-label": "what changed" });
  readonly legend = el("p", { class: "legend" });
  readonly look: Look = { colour: (frame) => diffColour(this.size(frame.states)), sign: (frame) => this.sign(frame.states) };
  private readonly note = el("p", { class: "note" });
  private readonly table: Table<FunctionRow>;
  private readonly words: Map<string, [string, number | null]>[];
  private sums!: Sums;
  private carded = -1;

  constructor(readonly data: Data, readonly compare: Compare, readonly store: Store) {
    this.words = compare.sections.map((section) => new Map(section.rows.map(([name, word, half]) => [name, [word, half]])));
    this.table = new Table("functions by change", this.columns(), (row) => this.focus(row.name), 2);
    this.box.append(this.note, this.table.box);
    this.drawLegend();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.drawLegend());
  }

  select(sums: Sums, selection: Selection): void {
    this.sums = sums;
    this.drawLegend();
    if (this.carded !== selection.set) this.drawCards(selection);
    this.carded = selection.set;
  }

  show(found: Found): void {
    let rows = functions(this.data, this.sums);
    const all = rows.length;
    if (found.hit) rows = rows.filter((row) => found.hit![row.name]);
    this.note.textContent = `${rows.length === all ? all : `${rows.length} of ${all}`} functions, greatest change of own amount first · ${this.data.about.subtitle} · judgements are about the whole recordings · click shows only the stacks of a function`;
    this.table.show(rows);
  }

  /** Both sides and their difference, as text. */
  sides(states: Float64Array): string {
    const unit = this.unit();
    const [before, after] = states;
    const percent = ((100 * (after - before)) / before).toFixed(1).replace("-", "−");
    const isChanged = before > 0 && after > 0 && /[1-9]/.test(percent);
    const relative = isChanged ? ` (${after > before ? "+" : ""}${percent} %)` : before === 0 && after > 0 ? " (new)" : after === 0 && before > 0 ? " (gone)" : "";
    return `${change(after - before, unit)}${relative} · before ${amount(before, unit)} → after ${amount(after, unit)}`;
  }

  private unit(): string {
    return this.sums.set.unit;
  }

  private section() {
    return this.compare.sections[this.data.sets.indexOf(this.sums.set)];
  }

  /** From -1 to 1; 0 where noise alone makes such a change. */
  private size([before, after]: Float64Array): number {
    const delta = after - before;
    if (Math.abs(delta) <= (this.section().floor ?? 0)) return 0;
    const whole = Math.max(this.sums.states[0], this.sums.states[1]);
    return delta / Math.max(before, after, whole * 0.01);
  }

  private sign(states: Float64Array): string {
    const delta = states[1] - states[0];
    if (this.size(states) === 0) return "";
    return `${change(delta, this.unit()).replace(/ points$/, "")} `;
  }

  private focus(name: number): void {
    const text = this.data.names[name];
    this.store.change({ focus: this.store.current.focus === text ? "" : text, zoom: [] });
  }

  private word(row: FunctionRow): [string, number | null] {
    return this.words[this.data.sets.indexOf(this.sums.set)].get(this.data.names[row.name]) ?? ["", null];
  }

  private columns(): Column<FunctionRow>[] {
    const { data } = this;
    const text = (value: number) => (value > 0 ? amount(value, this.unit()) : "");
    const file = (row: FunctionRow) => data.about.data.files[data.nameFile[row.name]] ?? "";
    return [
      { title: "self before", class: "n", sort: (row) => row.own[0], cell: (row) => text(row.own[0]) },
      { title: "self after", class: "n", sort: (row) => row.own[1], cell: (row) => text(row.own[1]) },
      { title: "change", class: "n", sort: (row) => Math.abs(row.own[1] - row.own[0]), cell: (row) => this.changeOf(row.own, row) },
      { title: "± 95 %", class: "n", help: "a change within this is noise", cell: (row) => { const [, half] = this.word(row); return half === null || row.ownSum === 0 ? "" : amount(half, this.unit()); } },
      { title: "judgement", sort: (row) => this.judgement(row), cell: (row) => el("span", { class: this.word(row)[0] ? undefined : "dim", text: this.judgement(row) }) },
      { title: "total before", class: "n wide", sort: (row) => row.total[0], cell: (row) => text(row.total[0]) },
      { title: "total after", class: "n wide", sort: (row) => row.total[1], cell: (row) => text(row.total[1]) },
      { title: "change", help: "of the total: callees included", class: "n wide", sort: (row) => Math.abs(row.total[1] - row.total[0]), cell: (row) => change(row.total[1] - row.total[0], this.unit()) },
      { title: "function", class: "name", sort: (row) => data.names[row.name], cell: (row) => functionName(data.names[row.name], data.kinds[row.name]) },
      { title: "file", class: "file", sort: file, cell: file },
    ];
  }

  private judgement(row: FunctionRow): string {
    const [word, half] = this.word(row);
    if (row.ownSum === 0) return "";
    return WORDS[word] ?? (half === null ? "too few samples" : "noise explains it");
  }

  private changeOf(states: Float64Array, row: FunctionRow): HTMLElement {
    const cell = el("span", { class: "change", text: change(states[1] - states[0], this.unit()) });
    if (this.word(row)[0]) cell.style.background = diffColour((states[1] - states[0]) / Math.max(states[0], states[1], 1));
    return cell;
  }

  private drawLegend(): void {
    clear(this.legend);
    for (const [size, text] of [[-1, "gone"], [-0.4, "less"], [0, "no change beyond noise"], [0.4, "more"], [1, "new"]] as [number, string][]) {
      const mark = el("i", { class: "kind" });
      mark.style.background = diffColour(size);
      this.legend.append(el("span", {}, mark, text));
    }
    this.legend.append(el("span", { class: "dim", text: `· signs: change of the frame with its callees · width: before + after, ${this.data.about.subtitle}` }));
  }

  /** The whole, and the functions that grew and shrank most, whatever is selected. */
  private drawCards(selection: Selection): void {
    clear(this.cards);
    const section = this.compare.sections[selection.set] ?? this.compare.sections[0];
    const all = functions(this.data, sum(this.data, { ...selection, focus: "", drop: [], states: [], threads: [], span: null }));
    const delta = (row: FunctionRow) => row.own[1] - row.own[0];
    const judged = all.filter((row) => this.word(row)[0]);
    const [more, less] = [judged.filter((row) => delta(row) > 0), judged.filter((row) => delta(row) < 0)];
    more.sort((a, b) => delta(b) - delta(a));
    less.sort((a, b) => delta(a) - delta(b));
    const [first, ...rest] = section.sentences;
    this.cards.append(el("article", { class: "card whole" }, el("p", { class: "label", text: this.data.sets[selection.set].name }), el("p", { text: first }), ...rest.map((text) => el("p", { class: "dim", text: text.replace(/^(Most changed: )(?:\S+ )?\[\S\] /, "$1") }))),
      this.card("Grew", more), this.card("Shrank", less));
  }

  private card(title: string, rows: FunctionRow[]): HTMLElement {
    const line = (row: FunctionRow) => {
      const name = this.data.names[row.name];
      const press = el("button", { type: "button", class: "link", title: `${name}: ${this.sides(row.own)}`, on: { click: () => this.focus(row.name) } }, withoutArguments(plainName(name)));
      return el("li", {}, this.changeOf(row.own, row), " ", press);
    };
    const words = rows.length ? `${title}: ${countOf(rows.length, "function", "functions")}` : `${title}: no function`;
    return el("article", { class: "card" }, el("p", { class: "label", text: `${words} beyond noise, own amounts` }), el("ul", {}, ...rows.slice(0, LISTED).map(line)));
  }
}
