// One selection for all views. It is in the address by names, so that links outlive a new drawing and Back works.

export interface Selection {
  /** Index of the set shown. */
  set: number;
  /** From and to in ticks. */
  span: [number, number] | null;
  /** Another span, A, that the one above is compared with. */
  base: [number, number] | null;
  /** Spans are compared by their amounts, not by those per second. */
  total: boolean;
  /** Thread ids. */
  threads: number[];
  states: string[];
  /** Only waits of at least the first and less than the second of these ns; the second may be infinite. */
  waits: [number, number] | null;
  idle: boolean;
  /** Names of frames from the root of the flame graph. */
  zoom: string[];
  /** Only stacks with this function. */
  focus: string;
  /** Functions taken out of all stacks. */
  drop: string[];
  search: string;
  tab: string;
  mode: "caller" | "state" | "inverted";
  group: "name" | "thread" | "label" | "none";
  folds: { kernel: boolean; start: boolean; recursion: boolean };
  byName: boolean;
  upright: boolean;
}

export const FRESH: Selection = {
  set: 0, span: null, base: null, total: false, threads: [], states: [], waits: null, idle: false, zoom: [], focus: "", drop: [], search: "", tab: "flame",
  mode: "caller", group: "name", folds: { kernel: true, start: true, recursion: true }, byName: false, upright: false,
};

type Listener = (selection: Selection, changed: Set<keyof Selection>) => void;

export class Store {
  current: Selection = structuredClone(FRESH);
  private listeners: Listener[] = [];
  /** Writes the address after a live change: browsers limit how often. */
  private timer: number | undefined;

  constructor(readonly setNames: string[], readonly tickNs: number, readonly defaults: Partial<Selection> = {}) {
    this.current = this.read(location.hash);
    addEventListener("popstate", () => { clearTimeout(this.timer); this.replace(this.read(location.hash)); });
  }

  watch(listener: Listener): void {
    this.listeners.push(listener);
  }

  /** Changes the selection; `live` changes (a drag, typing) make no step for Back. */
  change(change: Partial<Selection>, live = false): void {
    const next = { ...this.current, ...change };
    clearTimeout(this.timer);
    if (live) this.timer = setTimeout(() => history.replaceState(null, "", this.write(this.current)), 150);
    else {
      const address = this.write(next);
      if (address !== (location.hash || "#")) history.pushState(null, "", address);
    }
    this.replace(next);
  }

  /** The part that was selected last is dropped. */
  dropLast(): void {
    const now = this.current;
    if (now.search) this.change({ search: "" });
    else if (now.zoom.length) this.change({ zoom: [] });
    else if (now.focus) this.change({ focus: "" });
    else if (now.drop.length) this.change({ drop: now.drop.slice(0, -1) });
    else if (now.waits) this.change({ waits: null });
    else if (now.states.length) this.change({ states: [] });
    else if (now.threads.length) this.change({ threads: [] });
    else if (now.span) this.change({ span: null });
    else if (now.base) this.change({ base: null });
  }

  private replace(next: Selection): void {
    const before = this.current;
    const changed = new Set((Object.keys(next) as (keyof Selection)[]).filter((key) => JSON.stringify(next[key]) !== JSON.stringify(before[key])));
    this.current = next;
    if (changed.size) this.listeners.forEach((listener) => listener(next, changed));
  }

  private write(of: Selection): string {
    const parts: string[] = [];
    const add = (key: string, value: string) => { if (value) parts.push(`${key}=${value}`); };
    const list = (values: string[]) => values.map((value) => encodeURIComponent(value)).join(",");
    add("tab", of.tab === FRESH.tab ? "" : of.tab);
    add("of", of.set ? encodeURIComponent(this.setNames[of.set]) : "");
    const seconds = (span: Selection["span"]) => (span ? span.map((tick) => ((tick * this.tickNs) / 1e9).toFixed(6)).join("-") : "");
    add("span", seconds(of.span));
    add("base", seconds(of.base));
    add("per", of.total ? "span" : "");
    add("threads", of.threads.join(","));
    add("states", list(of.states));
    add("waits", of.waits ? of.waits.map((ns) => (Number.isFinite(ns) ? String(ns) : "")).join("-") : "");
    add("idle", of.idle ? "1" : "");
    add("zoom", list(of.zoom));
    add("focus", encodeURIComponent(of.focus));
    add("drop", list(of.drop));
    add("search", encodeURIComponent(of.search));
    const base = { ...FRESH, ...this.defaults };
    add("mode", of.mode === base.mode ? "" : of.mode);
    add("group", of.group === base.group ? "" : of.group);
    add("order", of.byName ? "name" : "");
    add("upright", of.upright ? "1" : "");
    add("unfold", (["kernel", "start", "recursion"] as const).filter((fold) => !of.folds[fold]).join(","));
    return `#${parts.join("&")}`;
  }

  private read(hash: string): Selection {
    const of: Selection = { ...structuredClone(FRESH), ...this.defaults };
    const values = new Map(hash.replace(/^#/, "").split("&").map((part) => part.split("=", 2) as [string, string]));
    const text = (key: string) => {
      try { return decodeURIComponent(values.get(key) ?? ""); } catch { return ""; }
    };
    const list = (key: string) => (values.get(key) ?? "").split(",").filter(Boolean).map((part) => {
      try { return decodeURIComponent(part); } catch { return part; }
    });
    of.tab = text("tab") || of.tab;
    of.set = Math.max(0, this.setNames.indexOf(text("of")));
    for (const key of ["span", "base"] as const) {
      const [from, to] = text(key).split("-").map((part) => Math.round((Number(part) * 1e9) / this.tickNs));
      if (from < to) of[key] = [from, to];
    }
    of.total = text("per") === "span";
    of.threads = list("threads").map(Number).filter(Number.isFinite);
    of.states = list("states");
    const waits = /^(\d+)-(\d*)$/.exec(text("waits"));
    if (waits) of.waits = [Number(waits[1]), waits[2] ? Number(waits[2]) : Infinity];
    of.idle = text("idle") === "1";
    of.zoom = list("zoom");
    of.focus = text("focus");
    of.drop = list("drop");
    of.search = text("search");
    if (["caller", "state", "inverted"].includes(text("mode"))) of.mode = text("mode") as Selection["mode"];
    if (["name", "thread", "label", "none"].includes(text("group"))) of.group = text("group") as Selection["group"];
    of.byName = text("order") === "name";
    of.upright = text("upright") === "1";
    const open = list("unfold");
    of.folds = { kernel: !open.includes("kernel"), start: !open.includes("start"), recursion: !open.includes("recursion") };
    return of;
  }
}
