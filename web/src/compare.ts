// Two recordings on one page: what changed, with the judgements of `tally diff`.

import { Compare, Data } from "./data";
import { clear, el } from "./dom";
import { countOf, plainName, withoutArguments } from "./format";
import { Selection, Store } from "./selection";
import { Sides } from "./sides";
import { FunctionRow, functions, sum, Sums } from "./sums";
import { Column } from "./table";

/** Functions in each of the lists above the tabs. */
const LISTED = 7;
const WORDS: Record<string, string> = { more: "more", less: "less", new: "new", gone: "gone" };

export class Comparison extends Sides {
  readonly cards = el("section", { class: "cards", "aria-label": "what changed" });
  private readonly judgements: Map<string, [string, number | null]>[];
  private carded = -1;
  protected override readonly words = " · judgements are about the whole recordings";

  constructor(data: Data, readonly compare: Compare, store: Store) {
    super(data, store, ["before", "after"], [WORDS.gone, WORDS.new]);
    this.judgements = compare.sections.map((section) => new Map(section.rows.map(([name, word, half]) => [name, [word, half]])));
  }

  override select(sums: Sums, selection: Selection): void {
    super.select(sums, selection);
    if (this.carded !== selection.set) this.drawCards(selection);
    this.carded = selection.set;
  }

  protected scale(): string { return this.data.about.subtitle; }
  protected floor(): number { return this.compare.sections[this.at()].floor ?? 0; }
  private at(): number { return this.data.sets.indexOf(this.sums.set); }

  private word(row: FunctionRow): [string, number | null] {
    return this.judgements[this.at()].get(this.data.names[row.name]) ?? ["", null];
  }

  protected override judged(): Column<FunctionRow>[] {
    return [
      { title: "± 95 %", class: "n", help: "a change within this is noise", cell: (row) => { const [, half] = this.word(row); return half === null || row.ownSum === 0 ? "" : this.amount(half); } },
      { title: "judgement", sort: (row) => this.judgement(row), cell: (row) => el("span", { class: this.word(row)[0] ? undefined : "dim", text: this.judgement(row) }) },
    ];
  }

  protected override isJudged(row: FunctionRow): boolean { return this.word(row)[0] !== ""; }

  private judgement(row: FunctionRow): string {
    const [word, half] = this.word(row);
    if (row.ownSum === 0) return "";
    return WORDS[word] ?? (half === null ? "too few samples" : "noise explains it");
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
      return el("li", {}, this.changeOf(row), " ", press);
    };
    const words = rows.length ? `${title}: ${countOf(rows.length, "function", "functions")}` : `${title}: no function`;
    return el("article", { class: "card" }, el("p", { class: "label", text: `${words} beyond noise, own amounts` }), el("ul", {}, ...rows.slice(0, LISTED).map(line)));
  }
}
