// The page: one selection, and views that are drawn from it.

import { BlameView, sentences, whose } from "./blame";
import { Data, load } from "./data";
import { clear, el } from "./dom";
import { FlameEvents, FlameView, Look } from "./flame";
import { amount, countOf, duration, percent, range } from "./format";
import { Functions, largest } from "./functions";
import { Comparison } from "./compare";
import { Sides } from "./sides";
import { isCompared, SpanComparison } from "./spans";
import { cards, Head, StateBar } from "./head";
import { allWaits, glanceLines, labelLine, requestLines } from "./glance";
import { HeatMap } from "./heat";
import { Latency } from "./latency";
import { Locks, recording } from "./others";
import { SourceView } from "./source";
import { Calls, Requests } from "./traced";
import { KIND_WORDS, frameColour } from "./palette";
import { FRESH, Selection, Store } from "./selection";
import { byCaller, callees, callers, fill, fold, Folded, Frame, inverted, labelsOf, ownAmounts } from "./stacks";
import { Strips } from "./strips";
import { AsTable, Table } from "./table";
import { Found, mix, RunningSums, search, sum, Sums } from "./sums";
import { most, Waits } from "./waits";

/** False in the script of pages that have nothing but stacks: the views of everything else are not in it. */
declare const IS_WHOLE: boolean;
/** True in the script of recordings: without the views of calls, requests and comparisons, whose pages have no times. */
declare const HAS_TIMES: boolean;

/** The content of a tab, made when it is first seen. */
interface Pane { box: HTMLElement; show: () => void }

/** A view and how it follows the selection. */
function pane<V extends { box: HTMLElement }>(make: () => V, show: (view: V) => void = () => undefined): () => Pane {
  return () => {
    const view = make();
    return { box: view.box, show: () => show(view) };
  };
}

/** The flame graph's table has frames of at least so small a part of the zoomed one. */
const LEAST_FRAME = 500;

const TABS: [string, string][] = [["flame", "Flame"], ["calls", "Calls"], ["io", "Requests"], ["functions", "Functions"], ["callers", "Callers/callees"], ["waits", "Waits & wakers"], ["blame", "Blame"], ["locks", "Locks"], ["latency", "Latency"], ["heat", "Heat map"], ["source", "Source"], ["compare", "Compare"], ["recording", "Recording"]];
const KEYS: [string, string][] = [
  ["/", "search"], ["n N", "next, previous match"], ["arrows", "move in the flame graph"], ["Enter", "zoom to the frame"], ["Backspace", "zoom out one frame"], ["0", "zoom out"],
  ["f", "only stacks of this function"], ["c", "callers and callees of it"], ["s", "state first"], ["i", "inverted: from the innermost function"], ["u", "root at the foot"], ["o", "order by name or time"],
  ["g", "group by thread name, thread, nothing"], ["w", "waits and wakers"], ["[ ]", "halve, double the span"], ["a", "keep the span as A, compare the next with it"], ["1 … 9", "tabs"], ["t", "light or dark"], ["Esc", "drop the last part of the selection"], ["?", "this list"],
];

class Page {
  private readonly store: Store;
  private readonly head: Head;
  /** Only recordings with times have spans to drag. */
  private readonly running: RunningSums | null;
  private readonly stateBar: StateBar | null;
  private readonly strips: Strips | null;
  private readonly flame: FlameView;
  private readonly comparison: Comparison | null;
  /** Of spans; made when two are compared first. */
  private spans: SpanComparison | null = null;
  /** What is compared now: two recordings or two spans. */
  private sides: Sides | null = null;
  private readonly makers: Record<string, () => Pane>;
  private readonly made = new Map<string, Pane>();
  private readonly status = el("footer", { class: "status", role: "status", "aria-live": "polite" });
  private readonly crumbs = el("nav", { class: "crumbs", "aria-label": "selection" });
  private readonly options = el("div", { class: "options" });
  private readonly panes = new Map<string, HTMLElement>();
  private readonly tabs = new Map<string, HTMLButtonElement>();
  private readonly asTable: AsTable<Frame>;
  private readonly help = el("dialog", { class: "help", "aria-label": "keys" });
  private readonly menu = el("div", { class: "menu", role: "menu", hidden: true });
  private sums!: Sums;
  /** What the graphs show, with its names of states: the sums, or those of both sides. */
  private shown!: { data: Data; sums: Sums };
  private found!: Found;
  private folded!: Folded;
  private foldedFor = "";
  private root: Frame | null = null;
  private match = -1;

  constructor(readonly data: Data) {
    const { about } = data;
    this.running = HAS_TIMES ? new RunningSums(data) : null;
    this.store = new Store(about.data.sets.map((set) => set.name), about.data.tick_ns, about.data.threads.length === 0 ? { group: "none" } : {});
    this.head = new Head(about, {
      search: (text) => this.store.change({ search: text }, true), keys: () => this.showKeys(),
      theme: () => this.theme(), recording: () => this.store.change({ tab: "recording" }),
    });
    const tell = (text: string) => { this.status.textContent = text; };
    this.stateBar = IS_WHOLE ? new StateBar(data, this.store) : null;
    this.strips = HAS_TIMES ? new Strips(data, this.store, tell) : null;
    const events = {
      hover: (frame: Frame | null) => this.tell(frame),
      zoom: (frame: Frame) => this.store.change({ zoom: frame.path }),
      focus: (frame: Frame) => this.store.change({ focus: frame.label, zoom: [] }),
      drop: (frame: Frame) => { if (frame.name >= 0) this.store.change({ drop: [...this.store.current.drop, frame.label], zoom: [] }); },
      menu: (frame: Frame, x: number, y: number) => this.openMenu(frame, x, y),
    };
    this.flame = new FlameView("flame graph: arrow keys move, Enter zooms", data.states, events);
    this.asTable = new AsTable("flame graph", this.flame.box, () => this.frameTable(), () => this.frames());
    this.comparison = IS_WHOLE && !HAS_TIMES && about.compare ? new Comparison(data, about.compare, this.store) : null;
    this.makers = { ...this.stackPanes(events), ...(IS_WHOLE ? this.otherPanes(tell) : {}) };
    this.sums = this.sumsOf(this.store.current);
    this.shown = { data, sums: this.sums };
    this.build();
    this.store.watch((selection, changed) => this.update(selection, changed));
    this.update(this.store.current, new Set(Object.keys(this.store.current) as (keyof Selection)[]));
    document.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerdown", (event) => { if (!this.menu.contains(event.target as Node)) this.menu.hidden = true; });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    addEventListener("beforeprint", () => this.forPrint());
  }

  private stackPanes(events: FlameEvents): Record<string, () => Pane> {
    const { data, store } = this;
    const turn = { ...events, zoom: (frame: Frame) => { if (frame.parent) store.change({ focus: frame.label, zoom: [] }); } };
    return {
      flame: () => ({
        box: el("div", { class: "pane flush" }, el("div", { class: "above" }, this.options, this.legendBox), this.flame.box),
        show: () => { this.showLegend(); this.refold(store.current); this.showFlame(store.current); this.asTable.show(); },
      }),
      functions: () => {
        const [box, view] = [el("div"), new Functions(data, store)];
        return { box, show: () => {
          const table = (HAS_TIMES && this.sides) || view;
          if (box.firstChild !== table.box) box.replaceChildren(table.box);
          if (table === view) view.show(this.sums, this.found);
          else this.sides!.show(this.found);
        } };
      },
      callers: () => {
        const views: [FlameView, FlameView] = [new FlameView("callers", data.states, turn, true), new FlameView("callees", data.states, turn)];
        const box = el("div", { class: "pane flush sandwich" }, el("h3", { text: "callers" }), views[0].box, el("h3", { text: "callees" }), views[1].box);
        return { box, show: () => { this.refold(store.current); this.showSandwich(store.current, views); } };
      },
      recording: pane(() => ({ box: recording(data) })),
    };
  }

  /** Frames of the zoomed one that have at least a part of it, callers before callees. */
  private frames(): Frame[] {
    const frames: Frame[] = [];
    const root = this.root!.find(this.store.current.zoom);
    const add = (frame: Frame): void => {
      frames.push(frame);
      const least = Math.max(1, root.value / LEAST_FRAME);
      frame.wide(least).filter((below) => below.value >= least).sort((a, b) => b.value - a.value).forEach(add);
    };
    add(root);
    return frames;
  }

  private frameTable(): Table<Frame> {
    const { data } = this;
    const mostOf = ({ states, value }: Frame) => { const state = most(states); return `${data.states[state]} ${percent(states[state], value)}`; };
    return new Table<Frame>("flame graph", [
      { title: "time", class: "n", cell: (frame) => this.sides?.sides(frame.states) ?? amount(frame.value, this.sums.set.unit) },
      { title: "%", class: "n", cell: (frame) => percent(frame.value, this.shown.sums.total) },
      { title: "level", class: "n", cell: (frame) => String(frame.path.length) },
      ...(this.sums.set.wall ? [{ title: "mostly", cell: (frame: Frame) => (this.sides ? "" : mostOf(frame)) }] : []),
      { title: "function", class: "name", cell: (frame) => { const name = el("span", { text: frame.label }); name.style.paddingLeft = `${Math.min(frame.path.length, 40)}ch`; return name; } },
    ], (frame) => this.store.change({ zoom: frame.path }), -1);
  }

  /** Of what the page has besides stacks. */
  private otherPanes(tell: (text: string) => void): Record<string, () => Pane> {
    const panes: Record<string, () => Pane> = {};
    if (IS_WHOLE) {
      const { data, store, comparison } = this;
      const { calls, io, blame, sources } = data.about;
      const isWall = data.about.data.threads.length > 0 && data.sets[0]?.wall;
      if (!HAS_TIMES) {
        if (comparison) panes.compare = pane(() => comparison, () => comparison.show(this.found));
        if (calls) panes.calls = pane(() => new Calls(calls, store));
        if (io) panes.io = pane(() => new Requests(io));
      }
      if (sources.length) panes.source = pane(() => new SourceView(data, store));
      if (!HAS_TIMES) return panes;
      if (this.strips?.isUseful) panes.heat = pane(() => new HeatMap(data, store, tell), (view) => view.show(this.sums));
      if (isWall && blame) panes.blame = pane(() => new BlameView(data, blame, store));
      if (isWall) panes.waits = pane(() => new Waits(data, store), (view) => view.show(this.sums, store.current));
      if (isWall) panes.locks = pane(() => new Locks(data, store));
      if (isWall) panes.latency = pane(() => new Latency(data, store), (view) => view.show(this.sums, store.current));
    }
    return panes;
  }

  private build(): void {
    const { data } = this;
    const { blame } = data.about;
    const bar = el("div", { class: "tabs", role: "tablist" });
    for (const [id, title] of TABS) {
      if (!this.makers[id] || (id === "functions" && this.comparison)) continue;
      const tab = el("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `pane-${id}`, text: title, on: { click: () => this.store.change({ tab: id }) } });
      this.panes.set(id, el("div", { role: "tabpanel", id: `pane-${id}`, "aria-labelledby": `tab-${id}`, hidden: true }));
      this.tabs.set(id, tab);
      bar.append(tab);
    }
    const lines = HAS_TIMES && blame ? sentences(data, blame) : [];
    const toBlame = { click: (event: Event) => { event.preventDefault(); this.store.change({ tab: "blame" }); } };
    if (HAS_TIMES && data.sets[0]?.wall && data.about.data.threads.length) allWaits(data, this.whole());
    const answers = this.answers();
    const why = lines.length ? [el("b", { text: `Why ${duration(blame!.total_ns)}: `, title: whose(blame!) }), ...lines.map((text) => el("a", { href: "#tab=blame", text, title: text, on: toBlame }))] : [];
    const glance = answers.length + why.length ? el("section", { class: "why", "aria-label": "where time went" }, this.ofAll, ...answers, ...why) : "";
    const main = el("main", {}, IS_WHOLE ? (this.comparison?.cards ?? cards(data, this.store) ?? "") : "", this.stateBar?.box ?? "", glance, this.strips?.isUseful ? this.strips.box : "", el("div", { class: "sticky" }, bar, this.asTable.button, this.crumbs), ...this.panes.values());
    // What was shown until now: the same findings, and a picture in place of the graph.
    document.querySelector("main")?.remove();
    document.body.append(this.head.box, main, this.status, this.help, this.menu);
    this.head.input.value = this.store.current.search;
  }

  /** The first question's answers: functions that ran longest, and places where threads waited. */
  private answers(): HTMLElement[] {
    const { data } = this;
    const { about, sets } = data;
    if (!sets.length || (IS_WHOLE && this.comparison)) return [];
    const press = (name: string, state?: string) => this.store.change({ focus: this.store.current.focus === name ? "" : name, states: state ? [state] : [], zoom: [] });
    if (IS_WHOLE && !HAS_TIMES && about.io) return requestLines(about.io);
    const labels = HAS_TIMES ? labelLine(data, this.whole(), press) : [];
    if (HAS_TIMES && sets[0].wall && about.data.threads.length > 0) return [...glanceLines(data, press), ...labels];
    const parts = largest(data, this.whole(), press);
    return parts.length ? [el("b", { text: sets[0].unit === "ns" ? "Own time: " : "Own: " }), ...parts, ...labels] : [];
  }

  /** The list of keys, filled when it is first shown. */
  private showKeys(): void {
    if (!this.help.firstChild) this.help.append(el("h2", { text: "Keys" }), el("dl", {}, ...KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", { text: key })), el("dd", { text: what })])),
      el("p", { class: "dim", text: "Strips: drag selects, wheel zooms, shift-drag moves. Flame graph: click zooms, double-click shows only that function, alt-click takes it out, right-click for more." }),
      el("form", { method: "dialog" }, el("button", { text: "close" })));
    this.help.showModal();
  }

  /** The answers do not follow the selection. */
  private readonly ofAll = el("i", { class: "dim", text: "of the whole recording, not of the selection:", hidden: true });
  private readonly legendBox = el("div");
  private kindsLegend: HTMLElement | null = null;

  private showLegend(): void {
    const legend = (IS_WHOLE && this.sides?.legend) || (this.kindsLegend ??= this.legend());
    if (this.legendBox.firstChild !== legend) this.legendBox.replaceChildren(legend);
  }

  private legend(): HTMLElement {
    const box = el("p", { class: "legend" });
    const used = new Set(this.data.kinds);
    for (const [kind, word] of KIND_WORDS) {
      if (!used.has(kind)) continue;
      const mark = el("i", { class: "kind" });
      mark.style.background = frameColour("", kind, false);
      box.append(el("span", {}, mark, word));
    }
    if (this.data.sets[0]?.wall) box.append(el("span", { class: "dim hint", text: "underline: states", title: "the line under a frame: its time by state, in the colours of the bar above" }));
    return box;
  }

  private sumsOf(selection: Selection): Sums {
    return HAS_TIMES && this.running ? this.running.of(selection) : sum(this.data, selection);
  }

  /** The sums of all, from those that are selected where that is all. */
  private whole(): Sums {
    const { set, span, threads, states, waits, idle, focus, drop } = this.store.current;
    return set !== 0 || span || threads.length || states.length || waits || idle || focus || drop.length ? sum(this.data, FRESH) : this.sums;
  }

  private update(selection: Selection, changed: Set<keyof Selection>): void {
    const start = performance.now();
    const has = (...keys: (keyof Selection)[]) => keys.some((key) => changed.has(key));
    const sumsChanged = has("set", "span", "threads", "states", "waits", "idle", "focus", "drop", "group");
    const isAnew = sumsChanged || has("base", "total");
    // Those of the first selection were made before the page was built.
    if (sumsChanged && this.isBuilt) this.sums = this.sumsOf(selection);
    this.isBuilt = true;
    const before = this.sides;
    if (isAnew) this.compare(selection);
    if (isAnew || has("search")) this.found = search(this.shown.data, this.shown.sums, selection.search);
    if (has("search")) {
      if (this.head.input.value !== selection.search) this.head.input.value = selection.search;
      this.match = -1;
    }
    const { found } = this;
    this.head.showFound(found.error ? found.error : selection.search ? `${percent(found.amount, this.shown.sums.total)} in ${countOf(found.places, "place", "places")}` : "", found.error !== "");
    if (isAnew) {
      this.stateBar?.show(this.sums, selection, this.before());
      if (has("threads", "states", "set", "idle")) this.strips?.draw();
      else this.strips?.brush();
      this.comparison?.select(this.sums, selection);
    }
    if (has("set", "mode", "group", "folds", "byName", "total") || before !== this.sides) this.showOptions(selection);
    const tab = this.tabs.has(selection.tab) ? selection.tab : "flame";
    // A search changes neither: each letter of it is an update.
    if (changed.size > 1 || !has("search")) {
      this.showCrumbs(selection);
      this.panes.forEach((pane, id) => (pane.hidden = id !== tab));
      this.asTable.button.hidden = tab !== "flame";
      this.tabs.forEach((button, id) => {
        button.setAttribute("aria-selected", String(id === tab));
        button.tabIndex = id === tab ? 0 : -1;
      });
    }
    this.paneOf(tab).show();
    if (isAnew) this.tell(null);
    document.documentElement.dataset.updateMs = (performance.now() - start).toFixed(2);
    document.documentElement.dataset.total = String(Math.round(this.sums.total));
    document.documentElement.dataset.base = String(Math.round(this.before()?.total ?? 0));
    document.documentElement.dataset.found = String(found.share);
  }

  /** Puts in what is shown: the sums, or both sides of a comparison. */
  private compare(selection: Selection): void {
    this.shown = { data: this.data, sums: this.sums };
    this.sides = this.comparison;
    if (!HAS_TIMES || !isCompared(selection)) return;
    this.sides = this.spans ??= new SpanComparison(this.data, this.store);
    this.shown = { data: this.spans.both, sums: this.spans.of(this.sums, selection) };
  }

  /** Sums of A where spans are compared. */
  private before(): Sums | null {
    return HAS_TIMES && this.sides ? this.spans!.before : null;
  }

  private paneOf(tab: string): Pane {
    let made = this.made.get(tab);
    if (made) return made;
    this.made.set(tab, (made = this.makers[tab]()));
    this.panes.get(tab)!.append(made.box);
    return made;
  }

  private refold(selection: Selection): void {
    const { data, sums } = this.shown;
    const mode = this.sides ? "caller" : selection.mode;
    const key = JSON.stringify([selection.set, selection.group, mode === "state", selection.folds, this.sides === this.spans]);
    if (this.foldedFor !== key) {
      // Once for all selections: every stack of the set.
      this.folded = fold(data, sums.set, sums.cells, { ...selection, mode });
      this.foldedFor = key;
      this.filledFor = null;
    }
    if (this.filledFor === sums) return;
    fill(this.folded, sums);
    this.filledFor = sums;
    this.root = null;
  }

  private isBuilt = false;
  private filledFor: Sums | null = null;
  private rootFor = "";

  private showFlame(selection: Selection): void {
    const key = `${selection.mode} ${selection.byName}`;
    if (!this.root || this.rootFor !== key) this.root = (selection.mode === "inverted" ? inverted : byCaller)(this.data, this.folded, selection.byName);
    this.rootFor = key;
    this.flame.show(this.root, selection.zoom, this.found.hit, selection.upright, this.look());
  }

  /** In a comparison, colours and signs show the change of a frame. */
  private look(): Look | null {
    return this.sides?.look ?? null;
  }

  private showSandwich(selection: Selection, [up, down]: [FlameView, FlameView]): void {
    const label = selection.focus || this.flame.cursor?.label || this.hottest();
    const upward = callers(this.data, this.folded, label, selection.byName);
    const downward = callees(this.data, this.folded, label, selection.byName);
    up.show(upward, [], this.found.hit, false, this.look());
    down.show(downward, [], this.found.hit, false, this.look());
    this.tell(downward);
  }

  private hottest(): string {
    // Time in the kernel counts for the function that called it.
    const sums = new Map<string, number>();
    const { length, parent, label, texts } = this.folded;
    const own = ownAmounts(this.folded);
    for (let node = 1; node < length; node++) {
      if (own[node] === 0) continue;
      const text = texts[label[label[node] < this.data.names.length ? node : parent[node]]];
      sums.set(text, (sums.get(text) ?? 0) + own[node]);
    }
    return [...sums].reduce((best, next) => (next[1] > best[1] ? next : best), ["all", 0])[0];
  }

  private showOptions(selection: Selection): void {
    clear(this.options);
    const { store } = this;
    if (this.data.sets.length > 1) {
      const pick = el("select", { "aria-label": "what is measured" }, ...this.data.about.data.sets.map((set, at) => el("option", { value: at, selected: at === selection.set, text: set.name })));
      pick.addEventListener("change", () => store.change({ set: Number(pick.value), zoom: [], states: [] }));
      this.options.append(pick);
    }
    const choice = <T extends string>(label: string, values: [T, string][], now: T, change: (value: T) => void) => {
      this.options.append(el("span", { class: "choice", role: "radiogroup", "aria-label": label }, ...values.map(([value, word]) =>
        el("button", { type: "button", role: "radio", "aria-checked": value === now, text: word, on: { click: () => change(value) } }))));
    };
    choice("order of frames", this.sides || !this.sums.set.wall ? [["caller", "by caller"], ["inverted", "inverted"]] : [["caller", "by caller"], ["state", "state first"], ["inverted", "inverted"]], selection.mode, (mode) => store.change({ mode, zoom: [] }));
    if (this.data.about.data.threads.length > 1) choice("groups", [["name", "thread names"], ["thread", "threads"], ...(labelsOf(this.data).length ? [["label", "labels"] as [Selection["group"], string]] : []), ["none", "no groups"]], selection.group, (group) => store.change({ group, zoom: [] }));
    if (this.before()) choice("amounts", [["second", "per second"], ["span", "per span"]], selection.total ? "span" : "second", (per) => store.change({ total: per === "span" }));
    const words: [keyof Selection["folds"], string][] = [["kernel", "kernel"], ["start", "start-up"], ["recursion", "recursion"]];
    this.options.append(el("span", { text: "fold:" }));
    for (const [fold, word] of words) {
      const box = el("input", { type: "checkbox", checked: selection.folds[fold] });
      box.addEventListener("change", () => store.change({ folds: { ...selection.folds, [fold]: box.checked }, zoom: [] }));
      this.options.append(el("label", { title: `fold: one frame for ${word === "kernel" ? "the kernel's work of a call" : word === "start-up" ? "what runs before the program's own code" : "a function that calls itself"}` }, box, word));
    }
    const order = el("input", { type: "checkbox", checked: selection.byName });
    order.addEventListener("change", () => store.change({ byName: order.checked }));
    this.options.append(el("label", {}, order, "by name"));
  }

  /** What is selected, each part with a button that drops it. */
  private showCrumbs(selection: Selection): void {
    clear(this.crumbs);
    const seconds = (tick: number) => `${((tick * this.data.about.data.tick_ns) / 1e9).toFixed(3)} s`;
    const add = (text: string, drop: Partial<Selection>) => {
      this.crumbs.append(el("button", { type: "button", title: `${text}: drop`, on: { click: () => this.store.change(drop) } }, el("span", { text }), el("b", { text: "×" })));
    };
    const { base, span } = selection;
    const spanText = ([from, to]: [number, number]) => `${seconds(from)} – ${seconds(to)}`;
    this.ofAll.hidden = !(base || span || selection.threads.length || selection.states.length || selection.waits || selection.focus || selection.drop.length);
    if (HAS_TIMES && base) add(`A: ${spanText(base)}`, { base: null });
    if (span) add(`${base ? "B: " : ""}${spanText(span)}`, { span: null });
    if (HAS_TIMES && span && !base) this.crumbs.append(el("button", { type: "button", text: "compare with another span", title: "keeps this span as A (a)", on: { click: () => this.keep() } }));
    if (selection.threads.length) {
      const names = selection.threads.map((tid) => `${this.data.about.data.threads.find((thread) => thread.tid === tid)?.comm ?? ""} ${tid}`);
      add(names.length > 3 ? `${names.length} threads` : names.join(", "), { threads: [] });
    }
    if (selection.states.length) add(selection.states.join(" + "), { states: [] });
    if (selection.waits) add(`waits ${range(selection.waits)}`, { waits: null });
    if (selection.focus) add(`only stacks of ${selection.focus}`, { focus: "" });
    for (const name of selection.drop) add(`without ${name}`, { drop: selection.drop.filter((other) => other !== name) });
    if (selection.zoom.length) add(`zoom: ${selection.zoom[selection.zoom.length - 1]}`, { zoom: [] });
    const isAlone = ["waits", "latency"].includes(selection.tab) ? " · this tab shows B alone" : "";
    if (HAS_TIMES && base && !span) this.crumbs.append(el("span", { class: "dim", text: "drag over the strips to select B" }));
    else if (this.crumbs.childElementCount) this.crumbs.append(el("span", { class: "dim", text: this.sides ? `= ${this.sides.sides(this.shown.sums.states)}${HAS_TIMES ? isAlone : ""}` : `= ${amount(this.sums.total, this.sums.set.unit)}, ${percent(this.sums.total, this.wholeOf())} of all` }));
  }

  /** Keeps the selected span as A; the next one is compared with it. */
  private keep(): void {
    const { span } = this.store.current;
    if (HAS_TIMES && span) this.store.change({ base: span, span: null });
  }

  private wholeOf(): number {
    const { states } = this.sums.set;
    return states.reduce((whole, value, state) => whole + (this.data.states[state] === "idle" && !this.store.current.idle ? 0 : value), 0);
  }

  /** The amount first: names may be long. */
  private tell(frame: Frame | null): void {
    const { sums } = this;
    const unit = sums.set.unit;
    if (this.sides) {
      const isPart = frame?.parent;
      const file = isPart && frame.name >= 0 ? this.data.about.data.files[this.data.nameFile[frame.name]] : "";
      this.status.textContent = `${this.sides.sides(isPart ? frame.states : this.shown.sums.states)} · ${isPart ? frame.label : "selected"}${file ? ` — ${file}` : ""}`;
      return;
    }
    if (!frame || !frame.parent) {
      const counted = sums.set.wall ? "" : ` · ${countOf(sums.count, "sample", "samples")}`;
      const idle = sums.idleLeftOut > 0 ? ` · idle left out: ${amount(sums.idleLeftOut, unit)}` : "";
      this.status.textContent = `${amount(sums.total, unit)} selected${idle}${counted} · ${mix(this.data, sums, this.store.current)}`;
      return;
    }
    const states = [...frame.states].map((value, state) => ({ value, state: this.data.states[state] })).filter((part) => part.value > 0).sort((a, b) => b.value - a.value);
    const split = sums.set.wall ? ` · ${states.slice(0, 3).map((part) => `${part.state} ${percent(part.value, frame.value)}`).join(", ")}` : ` · ${countOf(frame.count, "sample", "samples")}`;
    const file = frame.name >= 0 ? this.data.about.data.files[this.data.nameFile[frame.name]] : "";
    this.status.textContent = `${amount(frame.value, unit)} · ${percent(frame.value, sums.total)} of ${amount(sums.total, unit)}${split} · ${frame.label}${file ? ` — ${file}` : ""}`;
  }

  private openMenu(frame: Frame, x: number, y: number): void {
    clear(this.menu);
    const copy = (text: string) => void navigator.clipboard?.writeText(text).catch(() => undefined);
    const items: [string, () => void][] = [
      ["only stacks of this function", () => this.store.change({ focus: frame.label, zoom: [] })],
      ["callers and callees", () => this.store.change({ focus: frame.label, tab: "callers" })],
      ["take it out", () => this.store.change({ drop: [...this.store.current.drop, frame.label] })],
      ["copy the name", () => copy(frame.label)], ["copy the stack", () => copy(frame.path.join(";"))], ["copy this row", () => copy(this.status.textContent ?? "")],
    ];
    if (this.data.about.sources.some((source) => source.name.replace(/\(.*$/, "") === frame.label.replace(/\(.*$/, ""))) items.push(["source", () => this.store.change({ focus: frame.label, tab: "source" })]);
    for (const [text, run] of items) this.menu.append(el("button", { type: "button", role: "menuitem", text, on: { click: () => { this.menu.hidden = true; run(); } } }));
    this.menu.hidden = false;
    this.menu.style.left = `${Math.min(x, innerWidth - 240)}px`;
    this.menu.style.top = `${Math.min(y, innerHeight - 220)}px`;
    this.menu.querySelector("button")?.focus();
  }

  private theme(): void {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    this.repaint();
  }

  private repaint(): void {
    this.strips?.layout();
    this.stateBar?.show(this.sums, this.store.current, this.before());
    this.flame.redraw();
    this.paneOf(this.tabs.has(this.store.current.tab) ? this.store.current.tab : "flame").show();
  }

  /** Paper has no scroll boxes: tables of the functions and waits follow the graph. */
  private forPrint(): void {
    for (const id of ["flame", "functions", "compare", "waits"]) if (this.tabs.has(id)) this.paneOf(id).show();
  }

  private nextMatch(step: number): void {
    const matches = this.flame.matches();
    if (matches.length === 0) return;
    this.match = (this.match + step + matches.length) % matches.length;
    this.flame.goTo(matches[this.match]);
  }

  private span(factor: number): void {
    const { ticks } = this.data.about.data;
    const [from, to] = this.store.current.span ?? [0, ticks];
    const half = ((to - from) * factor) / 2;
    const middle = (from + to) / 2;
    const next: [number, number] = [Math.max(0, Math.round(middle - half)), Math.min(ticks, Math.round(middle + half))];
    if (next[1] > next[0]) this.store.change({ span: next[0] === 0 && next[1] === ticks ? null : next });
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    if (target.matches("input[type=search]")) {
      if (event.key === "Escape") { this.store.change({ search: "" }); target.blur(); }
      if (event.key === "Enter") { target.blur(); this.flame.box.focus({ preventScroll: true }); this.nextMatch(1); }
      return;
    }
    if (target.matches("select") || (target.matches("button") && ["Enter", " "].includes(event.key))) return;
    const { store } = this;
    const now = store.current;
    if (target.matches("[role=tab]") && event.key.startsWith("Arrow")) return this.nextTab(event.key === "ArrowLeft" ? -1 : 1);
    if (event.key.startsWith("Arrow")) {
      if (!this.panes.get("flame")?.hidden && this.flame.move(event.key)) event.preventDefault();
      return;
    }
    const cursor = this.flame.cursor;
    const ids = [...this.tabs.keys()];
    if (/^[1-9]$/.test(event.key)) { const id = ids[Number(event.key) - 1]; if (id) store.change({ tab: id }); return; }
    const does: Record<string, () => void> = {
      "/": () => { this.head.input.focus(); this.head.input.select(); }, n: () => this.nextMatch(1), N: () => this.nextMatch(-1),
      Enter: () => { if (cursor) store.change({ zoom: cursor.path }); }, Backspace: () => store.change({ zoom: now.zoom.slice(0, -1) }), "0": () => store.change({ zoom: [] }),
      f: () => { if (cursor) store.change({ focus: cursor.label, zoom: [] }); }, c: () => store.change(cursor?.parent ? { focus: cursor.label, tab: "callers" } : { tab: "callers" }),
      a: () => this.keep(), s: () => this.sides || store.change({ mode: now.mode === "state" ? "caller" : "state", zoom: [] }), i: () => store.change({ mode: now.mode === "inverted" ? "caller" : "inverted", zoom: [] }),
      u: () => store.change({ upright: !now.upright }), o: () => store.change({ byName: !now.byName }),
      g: () => store.change({ group: now.group === "name" ? "thread" : now.group === "thread" ? "none" : "name", zoom: [] }),
      w: () => { if (this.tabs.has("waits")) store.change({ tab: "waits" }); }, "[": () => this.span(0.5), "]": () => this.span(2),
      t: () => this.theme(), Escape: () => { if (this.menu.hidden) store.dropLast(); this.menu.hidden = true; }, "?": () => this.showKeys(),
    };
    if (does[event.key]) { event.preventDefault(); does[event.key](); }
  }

  private nextTab(step: number): void {
    const ids = [...this.tabs.keys()];
    const at = (ids.indexOf(this.store.current.tab) + step + ids.length) % ids.length;
    this.store.change({ tab: ids[at] });
    this.tabs.get(ids[at])!.focus();
  }
}

/** The text of page.css. */
declare const PAGE_STYLE: string;
/** The loader's: done when the first view is painted. */
declare const painted: Promise<unknown>;

async function start(): Promise<void> {
  try {
    const data = await load();
    await painted;
    const style = new CSSStyleSheet();
    style.replaceSync(PAGE_STYLE);
    document.adoptedStyleSheets = [style];
    new Page(data);
    document.documentElement.dataset.ready = performance.now().toFixed(0);
  } catch (error) {
    document.body.append(el("p", { class: "note", text: `This page can't be shown: ${String(error)}` }));
    throw error;
  }
}

void start();
