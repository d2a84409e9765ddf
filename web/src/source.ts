// Source and machine code of the functions that ran most, with the share of samples of each line.

import { Code, Data, unpackCode } from "./data";
import { clear, el } from "./dom";
import { countOf, percent } from "./format";
import { Store } from "./selection";

/** Lines of source that the list has. */
const HOT = 12;

interface HotLine { code: number; place: string; text: string; own: number }

export class SourceView {
  readonly box = el("div", { class: "pane" });
  private readonly pick = el("select", { "aria-label": "function" });
  private readonly hot = el("div", { class: "hot" });
  private readonly code = el("div", { class: "table code", tabindex: "0", role: "region", "aria-label": "code" });
  private all: Code[] | null = null;

  constructor(readonly data: Data, readonly store: Store) {
    const { sources, no_code } = data.about;
    sources.forEach((source, at) => this.pick.append(el("option", { value: at, text: `${percent(source.share, 1)} ${source.name} — ${source.file}` })));
    this.pick.addEventListener("change", () => void this.show(Number(this.pick.value)));
    const missing = no_code > 0 ? ` The code of ${countOf(no_code, "function", "functions")} that ran is not on the machine that made the page.` : "";
    this.box.append(el("p", { class: "note", text: `Lines with the most samples, where line numbers are known, of the whole recording. A click on a line or an instruction marks all that belong to it.${missing}` }),
      el("div", { class: "source-parts" }, this.hot, el("div", {}, el("p", {}, el("label", {}, "Code of ", this.pick)), this.code)));
    this.code.addEventListener("click", (event) => this.press((event.target as Element).closest<HTMLElement>("tr[data-place]")));
    this.code.addEventListener("keydown", (event) => { if (event.key === "Enter") this.press((event.target as Element).closest<HTMLElement>("tr[data-place]")); });
    store.watch((selection, changed) => { if (changed.has("tab") || changed.has("focus")) void this.open(selection.tab, selection.focus); });
    void this.open(store.current.tab, store.current.focus);
  }

  private async open(tab: string, focus: string): Promise<void> {
    if (tab !== "source") return;
    const plain = (name: string) => name.replace(/\(.*$/, "");
    const at = this.data.about.sources.findIndex((source) => focus !== "" && plain(source.name) === plain(focus));
    if (this.all && at < 0) return;
    this.all ??= await unpackCode();
    this.listHot();
    await this.show(Math.max(0, at));
  }

  /** Marks the line and the instructions of a row's place, or nothing where they are marked already. */
  private press(row: HTMLElement | null): void {
    if (row) this.mark(row.classList.contains("same") ? null : row.dataset.place!);
  }

  private mark(place: string | null): HTMLElement | undefined {
    const rows = [...this.code.querySelectorAll<HTMLElement>("tr[data-place]")];
    for (const row of rows) row.classList.toggle("same", row.dataset.place === place);
    return rows.find((row) => row.dataset.place === place);
  }

  /** Scrolls the code, and the window if the code is below it. */
  private goTo(row: HTMLElement | null | undefined): void {
    if (row) this.code.scrollTop = row.offsetTop - this.code.clientHeight / 2;
  }

  /** The lines that ran most, over all functions. */
  private listHot(): void {
    const lines = new Map<string, HotLine>();
    this.all!.forEach((code, at) => {
      const texts = textsOf(code);
      for (const line of code.lines) {
        if ((line[0] !== "c" && line[0] !== "l") || line[3] === 0) continue;
        const place = line[4] ?? "";
        const key = `${at} ${place}`;
        const known = lines.get(key) ?? { code: at, place, text: texts.get(place) ?? (line[0] === "l" ? line[2] : ""), own: 0 };
        known.own += line[3];
        lines.set(key, known);
      }
    });
    const whole = this.all!.reduce((sum, code) => sum + code.own / Math.max(code.share, 1e-12), 0) / Math.max(1, this.all!.length);
    const rows = [...lines.values()].filter((line) => line.place).sort((a, b) => b.own - a.own).slice(0, HOT);
    clear(this.hot);
    if (rows.length === 0) {
      this.hot.append(el("p", { class: "note", text: "No line information was found (compile with -g): machine code only." }));
      return;
    }
    this.hot.append(el("table", { "aria-label": "hottest lines", class: "lines" }, el("tbody", {}, ...rows.map((row) => el("tr", {},
      el("td", { class: "n heat", text: percent(row.own, whole) }),
      el("td", {}, el("button", { type: "button", class: "link", text: row.place, on: { click: () => void this.show(row.code, row.place) } })),
      el("td", {}, el("code", { text: row.text.trim() })), el("td", { class: "dim", text: this.all![row.code].name }))))));
  }

  private async show(at: number, place: string | null = null): Promise<void> {
    this.all ??= await unpackCode();
    const code = this.all[at];
    clear(this.code);
    if (!code) return;
    this.pick.value = String(at);
    const most = Math.max(...code.lines.map((line) => (line[0] === "c" || line[0] === "l" ? line[3] : 0)), 1);
    const places = placesOf(code);
    const rows = code.lines.map((line, at) => row(line, code, most, places[at]));
    this.code.append(el("table", { "aria-label": `code of ${code.name}` }, el("tbody", {}, ...rows)));
    this.goTo(this.mark(place) ?? this.code.querySelector<HTMLElement>("[data-hottest]"));
    if (place !== null) this.code.scrollIntoView({ block: "nearest" });
  }
}

/** Source text by place: an instruction after a line of source belongs to it. */
function textsOf(code: Code): Map<string, string> {
  const texts = new Map<string, string>();
  let last: [number, string] | null = null;
  for (const line of code.lines) {
    if (line[0] === "s") last = [line[1], line[2]];
    else if (line[0] === "c" && line[4] && last && line[4].endsWith(`:${last[0]}`)) texts.set(line[4], last[1]);
  }
  return texts;
}

/** By line of the listing: the place in the source, of a line of source that of the instructions below it. */
function placesOf(code: Code): (string | null)[] {
  const places: (string | null)[] = code.lines.map((line) => (line[0] === "c" || line[0] === "l" ? line[4] : null));
  for (let at = code.lines.length - 1, below: string | null = null; at >= 0; at--) {
    const line = code.lines[at];
    if (line[0] === "c") below = places[at];
    else if (line[0] === "s") places[at] = below?.endsWith(`:${line[1]}`) ? below : null;
  }
  return places;
}

function row(line: Code["lines"][number], code: Code, most: number, place: string | null): HTMLElement {
  const wide = (text: string, name: string) => el("tr", { class: name }, el("td", {}), el("td", { colspan: 3 }, el("code", { text })));
  switch (line[0]) {
    case "f": return wide(`${line[1]}:`, "function");
    case "p": return wide(line[1], "dim");
    case "s": return el("tr", { class: "source", "data-place": place ?? undefined, tabindex: place ? "0" : undefined }, el("td", {}), el("td", { class: "n dim", text: String(line[1]) }), el("td", { colspan: 2 }, el("code", { text: line[2] })));
    case "…": return wide(`… ${countOf(line[1], "line", "lines")} without samples nearby`, "dim");
    default: {
      const [, address, text, own] = line;
      const heat = el("td", { class: "n heat", text: own > 0 ? percent(own, code.own) : "" });
      if (own > 0) heat.style.background = `rgba(224,88,40,${(0.12 + (0.6 * own) / most).toFixed(2)})`;
      return el("tr", { "data-hottest": own === most, "data-place": place ?? undefined }, heat, el("td", { class: "n dim", text: String(address) }), el("td", {}, el("code", { text: line[0] === "l" ? text : `  ${text}` })), el("td", { class: "dim", text: own > 0 ? (place ?? "") : "" }));
    }
  }
}
