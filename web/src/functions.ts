// All functions with their own and total amounts by state.

import { Data } from "./data";
import { el } from "./dom";
import { amount, countOf, grouped, lengthOf, percent, plainName, shorten, withoutArguments, withoutParameters } from "./format";
import { classOf, frameColour, stateColour } from "./palette";
import { Store } from "./selection";
import { FunctionRow, Found, functions, greatest, ownByName, Sums } from "./sums";
import { Column, Table } from "./table";

export class Functions {
  readonly box = el("div", { class: "pane" });
  private readonly note = el("p", { class: "note" });
  private table: Table<FunctionRow>;
  private sums: Sums | null = null;

  constructor(readonly data: Data, readonly store: Store) {
    this.table = new Table("functions", this.columns(), (row) => this.focus(row), 0);
    this.box.append(this.note, this.table.box);
  }

  show(sums: Sums, found: Found): void {
    this.sums = sums;
    let rows = functions(this.data, sums);
    const all = rows.length;
    if (found.hit) rows = rows.filter((row) => found.hit![row.name]);
    this.note.textContent = `${rows.length === all ? "" : `${grouped(rows.length)} of `}${countOf(all, "function", "functions")} · shares of ${amount(sums.total, sums.set.unit)} · click shows only the stacks of a function`;
    this.table.show(rows);
  }

  private focus(row: FunctionRow): void {
    const name = this.data.names[row.name];
    this.store.change({ focus: this.store.current.focus === name ? "" : name, zoom: [] });
  }

  private columns(): Column<FunctionRow>[] {
    const { data } = this;
    const unit = () => this.sums!.set.unit;
    const whole = () => this.sums!.total;
    const columns: Column<FunctionRow>[] = [
      { title: "self", class: "n", sort: (row) => row.ownSum, cell: (row) => amount(row.ownSum, unit()) },
      { title: "%", class: "n", cell: (row) => percent(row.ownSum, whole()) },
      { title: "self by state", class: "bar", cell: (row) => bar(data, row.own, row.ownSum, whole()) },
      { title: "total", class: "n", sort: (row) => row.totalSum, cell: (row) => amount(row.totalSum, unit()) },
      { title: "%", class: "n", cell: (row) => percent(row.totalSum, whole()) },
      { title: "total by state", class: "bar wide", cell: (row) => bar(data, row.total, row.totalSum, whole()) },
      { title: "on CPU", help: "own time on a CPU", class: "n wide", sort: (row) => row.own[0], cell: (row) => (row.own[0] > 0 ? amount(row.own[0], unit()) : "") },
      { title: "waiting", help: "own time not on a CPU", class: "n wide", sort: (row) => row.ownSum - row.own[0], cell: (row) => (row.ownSum > row.own[0] ? amount(row.ownSum - row.own[0], unit()) : "") },
      { title: "function", class: "name", sort: (row) => data.names[row.name], cell: (row) => functionName(data.names[row.name], data.kinds[row.name]) },
      { title: "file", class: "file", sort: (row) => this.file(row), cell: (row) => this.file(row) },
    ];
    return columns;
  }

  private file(row: FunctionRow): string {
    return this.data.about.data.files[this.data.nameFile[row.name]] ?? "";
  }
}

/** Names in a line of the largest own amounts. */
const NAMED = 5;

/** Functions and files with the largest own amounts, in words, for recordings without findings: the first question's answer. */
export function largest(data: Data, sums: Sums, press: (name: string) => void): HTMLElement[] {
  const own = ownByName(data, sums);
  const files = new Map<string, number>();
  own.forEach((value, name) => {
    const file = data.about.data.files[data.nameFile[name]];
    if (file && value > 0) files.set(file, (files.get(file) ?? 0) + value);
  });
  const line = (what: string, parts: Node[]) => el("span", { class: "largest" }, `${what}: `, ...parts);
  const share = (value: number) => ` ${percent(value, sums.total)}`;
  const functionParts = greatest(own, NAMED).map((name) => {
    const text = data.names[name];
    return el("span", {}, el("button", { type: "button", class: "link", title: text, text: shortFunction(data, text), on: { click: () => press(text) } }), share(own[name]));
  });
  const fileParts = [...files].sort((a, b) => b[1] - a[1]).slice(0, NAMED).map(([file, value]) => el("span", { text: file + share(value) }));
  return [...(functionParts.length ? [line("by function", functionParts)] : []), ...(fileParts.length > 1 ? [line("by file", fileParts)] : [])];
}

const UNRESOLVED = /^function 0x/;

/** A function in few letters; without a symbol, with the file that it is in: `function 0x4e40 (_json.so)`. */
export function shortFunction(data: Data, text: string): string {
  const name = UNRESOLVED.test(text) ? data.names.indexOf(text) : -1;
  const file = name < 0 ? "" : data.about.data.files[data.nameFile[name]].replace(/\.(?:cpython-|abi)[\w-]*(?=\.so)/, "");
  return inFewLetters(text) + (file ? ` (${file})` : "");
}

/** Letters of a name in a line of several. */
const LETTERS = 44;

/** `LateContext::visit_expr` of Rust's `<rustc_lint::late::LateContext as rustc_hir::Visitor>::visit_expr::{closure#0}`. */
export function inFewLetters(text: string): string {
  const plain = withoutParameters(withoutArguments(plainName(text))).replaceAll("::<…>", "").replace(/(::\{[^}]*\})+$/, "");
  const short = plain.replace(/^<&?(?:[\w:]*::)?(.+) as .*>::(?=\w+$)/, "$1::").replace(/^<(?:[\w:]*::)?([^>]+)>::(?=\w)/, "$1::");
  return shorten(short, LETTERS, lengthOf);
}

/** The functions of a stack, those without a symbol with their files. */
export const stackWords = (data: Data, stack: string): string => stack.split(" < ").map((name) => withFile(data, name)).join(" < ");

export const withFile = (data: Data, name: string): string => (UNRESOLVED.test(name) ? shortFunction(data, name) : name);

export function functionName(name: string, kind: number): HTMLElement {
  const mark = el("i", { class: "kind" });
  mark.style.background = frameColour("", kind, false);
  return el("span", { title: name }, mark, withoutArguments(plainName(name)));
}

/** A bar by state, as long as its share. */
export function bar(data: Data, states: Float64Array, sum: number, whole: number): HTMLElement {
  const box = el("div", { class: "cell-bar" });
  const words: string[] = [];
  states.forEach((value, state) => {
    if (value <= 0) return;
    const part = el("i", { class: classOf(data.states[state]) });
    part.style.width = `${(100 * value) / whole}%`;
    part.style.background = stateColour(data.states[state]);
    words.push(`${data.states[state]} ${percent(value, sum)}`);
    box.append(part);
  });
  box.title = words.join(" · ");
  return box;
}
