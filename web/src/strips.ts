// Threads over time: how many CPUs are busy, and a strip for each thread with its time by state. A drag selects a span.

import { Data, ItemSet, range, Thread } from "./data";
import { clear, el, fit } from "./dom";
import { amount, duration, percent, tickLabel } from "./format";
import { PathStrip } from "./path";
import { classOf, isDark, stateColour, texture } from "./palette";
import { Store } from "./selection";
import { inside, mix, sum } from "./sums";
import { AsTable, Column, Table } from "./table";
import { isNamed, stackOf } from "./waits";

const ROW = 15;
const CPU = 22;
/** Threads in a high window, and in one where more would leave no room for the graph. */
const [SHOWN, SHOWN_LOW, LOW] = [12, 6, 900];

/** `busy` is time on a CPU, waiting for one, for a lock or a disk: what a reader looks for first. */
interface Row { thread: number; name: string; total: Float64Array; active: number; busy: number }

const BUSY = new Set(["on", "runnable", "preempted", "lock", "disk", "memory"]);

export class Strips {
  readonly box = el("section", { class: "strips", "aria-label": "threads over time" });
  private readonly heading = el("h2", {});
  private readonly names = el("div", { class: "strip-names" });
  private readonly canvas = el("canvas", { role: "img", tabindex: "0", "aria-label": "time of each thread by state; arrow keys move the selected span" });
  private readonly veils = ["veil", "span", "veil"].map((name) => el("div", { class: name, hidden: true }));
  /** The span that is compared with the selected one. */
  private readonly base = el("div", { class: "span base", text: "A", hidden: true });
  /** From a wait's end to the thread that ended it. */
  private readonly wake = el("div", { class: "wake", hidden: true });
  private readonly area = el("div", { class: "strip-area" }, this.canvas, ...this.veils, this.base, this.wake);
  private readonly shares = el("div", { class: "strip-shares" });
  private readonly more = el("button", { class: "link", type: "button" });
  private rows: Row[] = [];
  private all = false;
  private drag: { from: number; kind: "brush" | "pan"; view: [number, number]; moved: boolean } | null = null;
  private readonly path: PathStrip | null;
  private readonly asTable: AsTable<Row>;
  /** Height above the threads. */
  private readonly top: number;
  /** The time shown. */
  private view: [number, number];

  constructor(readonly data: Data, readonly store: Store, readonly tell: (text: string) => void) {
    this.view = [0, data.about.data.ticks];
    this.path = data.about.path ? new PathStrip(data, data.about.path) : null;
    this.top = CPU + (this.path ? ROW : 0);
    const body = el("div", { class: "strip-body" }, this.names, this.area, this.shares);
    this.asTable = new AsTable("threads by state", body, () => this.table(), () => this.inSpan());
    this.box.append(el("div", { class: "row" }, this.heading, this.asTable.button, this.more), body);
    this.more.addEventListener("click", () => { this.all = !this.all; this.layout(); });
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.up(event));
    this.canvas.addEventListener("pointerleave", () => { this.wake.hidden = true; });
    this.canvas.addEventListener("dblclick", () => { this.view = [0, this.data.about.data.ticks]; this.store.change({ span: null }); this.draw(); });
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.area.parentElement!);
    this.rows = this.gather();
    this.layout();
  }

  get isUseful(): boolean {
    return this.rows.length > 0 && this.data.about.data.ticks > 1;
  }

  /** Each thread's exact totals, whatever is selected. */
  private gather(): Row[] {
    const { data } = this;
    const set = data.sets[0];
    const states = data.states.length;
    const idle = data.states.indexOf("idle");
    const isBusy = data.states.map((state) => BUSY.has(classOf(state)));
    const rows: Row[] = data.about.data.threads.map((thread, at) => ({ thread: at, name: `${thread.title ?? thread.comm} ${thread.tid}`, total: new Float64Array(states), active: 0, busy: 0 }));
    if (set) for (let item = 0; item < set.items; item++) {
      const row = rows[set.thread[item]];
      if (!row) continue;
      const state = set.placeState[set.place[item]];
      row.total[state] += set.amount[item];
      if (state !== idle) row.active += set.amount[item];
      if (isBusy[state]) row.busy += set.amount[item];
    }
    return rows.filter((row) => row.active > 0 || row.total.some((value) => value > 0)).sort((a, b) => b.busy - a.busy || b.active - a.active);
  }

  /** Each thread's time by state in the selected span. */
  private inSpan(): Row[] {
    const { span } = this.store.current;
    if (!span) return [...this.rows];
    const set = this.data.sets[0];
    return this.rows.map((row) => {
      const total = new Float64Array(row.total.length);
      for (const run of set.runs) {
        if (run.thread !== row.thread) continue;
        for (let item = run.from; item < run.to; item++) total[set.placeState[set.place[item]]] += inside(set, this.data, item, ...span);
      }
      return { ...row, total };
    });
  }

  private table(): Table<Row> {
    const { data, store } = this;
    const { unit } = data.sets[0];
    const of = (title: string, value: (row: Row) => number): Column<Row> => ({ title, class: "n", sort: value, cell: (row) => (value(row) > 0 ? amount(value(row), unit) : "") });
    const used = data.states.map((state, at) => ({ state, at })).filter(({ at }) => this.rows.some((row) => row.total[at] > 0));
    const thread: Column<Row> = { title: "thread", sort: (row) => row.name, cell: (row) => row.name };
    return new Table("time of each thread by state", [thread, of("all", (row) => row.total.reduce((all, part) => all + part, 0)), ...used.map(({ state, at }) => of(state, (row) => row.total[at]))],
      (row) => this.pick(data.about.data.threads[row.thread].tid, false), 1, (row) => (store.current.threads.includes(data.about.data.threads[row.thread].tid) ? "chosen" : ""));
  }

  private shownRows(): Row[] {
    const busy = this.rows.filter((row) => !this.data.about.data.threads[row.thread].idle);
    const first = busy.length ? busy : this.rows;
    return this.all ? this.rows : first.slice(0, innerHeight < LOW ? SHOWN_LOW : SHOWN);
  }

  layout(): void {
    const shown = this.shownRows();
    clear(this.names);
    clear(this.shares);
    this.names.append(el("div", { class: "cpu-name", text: this.data.about.cpus ? `CPUs used (of ${this.data.about.cpus})` : "CPUs used" }));
    this.shares.append(el("div", { class: "cpu-name" }));
    if (this.path) this.pathNames(this.path);
    for (const row of shown) {
      const thread = this.data.about.data.threads[row.thread];
      const { tid } = thread;
      const press = (event: MouseEvent) => this.pick(tid, event.shiftKey);
      this.names.append(el("button", { type: "button", class: "thread", title: `${row.name}: click filters, shift-click adds`, "data-tid": tid, on: { click: press }, text: shortName(thread) }));
      this.shares.append(this.total(row));
    }
    const hidden = this.rows.length - shown.length;
    this.more.hidden = hidden === 0 && !this.all;
    this.more.textContent = this.all ? "show busy threads only" : this.hiddenText(hidden);
    this.draw();
  }

  private pathNames(path: PathStrip): void {
    const { comm, tid } = path.path.end;
    this.names.append(el("div", { class: "path-name", title: `what the end of ${comm} ${tid} waited for, moment by moment: ${duration(path.total)}`, text: "critical path" }));
    const bar = el("div", { class: "total-bar" });
    for (const [state, ns] of path.states) {
      const part = el("i", { title: `${state} ${percent(ns, path.total)}` });
      part.style.width = `${(100 * ns) / path.total}%`;
      part.style.background = stateColour(state);
      bar.append(part);
    }
    const on = path.states.find(([state]) => state === "on CPU")?.[1] ?? 0;
    this.shares.append(el("div", { class: "total" }, bar, el("span", { text: `on ${percent(on, path.total)}` })));
  }

  private hiddenText(hidden: number): string {
    const shown = new Set(this.shownRows());
    const names = new Map<string, number>();
    this.rows.filter((row) => !shown.has(row)).forEach((row) => {
      const { comm, idle } = this.data.about.data.threads[row.thread];
      const name = `${idle ? "idle " : "less busy "}${comm}`;
      names.set(name, (names.get(name) ?? 0) + 1);
    });
    const parts = [...names].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([name, count]) => `${count} ${name}`);
    return `+ ${parts.join(", ")}${names.size > 3 ? ` … (${hidden} threads)` : ""}`;
  }

  private total(row: Row): HTMLElement {
    const whole = row.total.reduce((a, b) => a + b, 0);
    const isWall = this.data.sets[0].wall;
    const bar = el("div", { class: "total-bar" });
    row.total.forEach((value, state) => {
      if (value <= 0) return;
      const part = el("i", { title: `${this.data.states[state]} ${percent(value, whole)}` });
      part.style.width = `${(100 * value) / whole}%`;
      part.style.background = stateColour(this.data.states[state]);
      bar.append(part);
    });
    const all = this.rows.reduce((sum, other) => sum + other.active, 0);
    const text = isWall ? `on ${percent(row.total[0], whole)}` : percent(row.active, all);
    return el("div", { class: "total" }, bar, el("span", { text }));
  }

  private pick(tid: number, add: boolean): void {
    const now = this.store.current.threads;
    const has = now.includes(tid);
    const next = add ? (has ? now.filter((other) => other !== tid) : [...now, tid]) : has && now.length === 1 ? [] : [tid];
    this.store.change({ threads: next });
  }

  draw(): void {
    const shown = this.shownRows();
    const selected = new Set(this.store.current.threads);
    this.names.querySelectorAll<HTMLElement>(".thread").forEach((name) => {
      name.setAttribute("aria-pressed", String(selected.has(Number(name.dataset.tid))));
    });
    const width = this.area.parentElement!.clientWidth - this.names.offsetWidth - this.shares.offsetWidth - 16;
    const height = this.top + shown.length * ROW + 20;
    // Not in the document yet, or no room.
    if (width < 40) return;
    const context = fit(this.canvas, width, height);
    if (!context) return;
    const { ticks, columns } = this.data.about.data;
    const isClose = ((this.view[1] - this.view[0]) / ticks) * columns < width / 6 || this.data.strips.size === 0;
    const rows = this.data.strips.size ? this.rows : shown;
    const busy = new Float64Array(Math.ceil(width));
    for (const row of rows) {
      const at = shown.indexOf(row);
      const columnsOf = isClose ? this.fromItems(row, Math.ceil(width)) : this.fromStrip(row, Math.ceil(width));
      for (let x = 0; x < busy.length; x++) busy[x] += columnsOf.shares[x * this.data.states.length];
      if (at >= 0) this.drawRow(context, columnsOf, this.top + at * ROW, row);
    }
    this.drawCpus(context, busy, width);
    this.path?.draw(context, this.view, width, CPU, ROW - 4);
    this.axis(context, width, height);
    this.brush();
  }

  private fromStrip(row: Row, width: number): { shares: Float64Array } {
    const states = this.data.states.length;
    const shares = new Float64Array(width * states);
    const strip = this.data.strips.get(row.thread);
    const { ticks, columns, shares: whole } = this.data.about.data;
    if (!strip) {
      this.fromLife(row, shares);
      return { shares };
    }
    for (let x = 0; x < width; x++) {
      const from = ((this.view[0] + ((this.view[1] - this.view[0]) * x) / width) / ticks) * columns;
      const to = ((this.view[0] + ((this.view[1] - this.view[0]) * (x + 1)) / width) / ticks) * columns;
      for (let column = Math.floor(from); column < Math.min(columns, Math.ceil(to)); column++) {
        const part = Math.min(column + 1, to) - Math.max(column, from);
        if (part <= 0) continue;
        for (let state = 0; state < states; state++) shares[x * states + state] += (strip[column * states + state] / whole) * (part / (to - from));
      }
    }
    return { shares };
  }

  /** Without a strip: a thread that only waits for work is the same over its life. */
  private fromLife(row: Row, shares: Float64Array): void {
    const { idle, from, to } = this.data.about.data.threads[row.thread];
    const life = row.total.reduce((sum, ns) => sum + ns, 0);
    if (!idle || life === 0) return;
    const states = this.data.states.length;
    const step = ((this.view[1] - this.view[0]) / shares.length) * states;
    for (let x = 0; x * states < shares.length; x++) {
      const begin = this.view[0] + x * step;
      const part = Math.max(0, Math.min(to, begin + step) - Math.max(from, begin)) / step;
      for (let state = 0; state < states; state++) shares[x * states + state] = (part * row.total[state]) / life;
    }
  }

  /** From the single waits and samples: for close views, and recordings without strips. */
  private fromItems(row: Row, width: number): { shares: Float64Array } {
    const { data } = this;
    const states = data.states.length;
    const shares = new Float64Array(width * states);
    const set = data.sets[0];
    const [from, to] = this.view;
    const step = (to - from) / width;
    const nsPerColumn = step * data.about.data.tick_ns;
    const put = (begin: number, end: number, state: number, ns: number) => {
      if (end <= from || begin >= to || ns <= 0) return;
      const length = Math.max(end - begin, 1e-9);
      for (let x = Math.max(0, Math.floor((begin - from) / step)); x < width && from + x * step < end; x++) {
        const part = Math.min(end, from + (x + 1) * step) - Math.max(begin, from + x * step);
        if (part > 0) shares[x * states + state] += (ns * part) / length / nsPerColumn;
      }
    };
    const run = set.runs.find((run) => run.thread === row.thread) ?? { from: 0, to: 0 };
    const [first, last] = range(set, run.from, run.to, [from, to]);
    for (let item = first; item < last; item++) {
      if (set.since[item] === 0) continue;
      const begin = set.since[item] - 1;
      const state = set.placeState[set.place[item]];
      const amount = set.amount[item];
      if (set.length[item] > 0) {
        put(begin, begin + set.length[item], state, Math.min(amount, set.length[item] * data.about.data.tick_ns));
      } else if (set.wall) {
        const ticks = amount / data.about.data.tick_ns;
        put(begin - ticks / 2, begin + ticks / 2, state, amount);
      } else {
        const ticks = set.unit === "ns" ? Math.max(amount / data.about.data.tick_ns, step) : step;
        put(begin - ticks / 2, begin + ticks / 2, 0, Math.max(set.unit === "ns" ? amount : nsPerColumn, nsPerColumn * 0.3));
      }
    }
    const known = this.fromStrip(row, width).shares;
    for (let x = 0; x < width; x++) {
      let whole = 0;
      for (let state = 0; state < states; state++) whole += shares[x * states + state];
      if (whole > 1) for (let state = 0; state < states; state++) shares[x * states + state] /= whole;
      else this.fillUp(shares, known, x, whole);
    }
    return { shares };
  }

  /** Time without a wait or sample of its own in a column has the states that its surroundings have. */
  private fillUp(shares: Float64Array, known: Float64Array, x: number, placed: number): void {
    const states = this.data.states.length;
    let missing = 0;
    for (let state = 0; state < states; state++) missing += Math.max(0, known[x * states + state] - shares[x * states + state]);
    if (missing <= 0) return;
    const scale = Math.min(1, (1 - placed) / missing);
    for (let state = 0; state < states; state++) {
      shares[x * states + state] += scale * Math.max(0, known[x * states + state] - shares[x * states + state]);
    }
  }

  private drawRow(context: CanvasRenderingContext2D, { shares }: { shares: Float64Array }, y: number, row: Row): void {
    const states = this.data.states.length;
    const height = ROW - 4;
    const width = shares.length / states;
    const dimmed = this.store.current.threads.length > 0 && !this.store.current.threads.includes(this.data.about.data.threads[row.thread].tid);
    const wanted = this.store.current.states;
    context.globalAlpha = dimmed ? 0.3 : 1;
    context.fillStyle = isDark() ? "#23272e" : "#f0f1f4";
    const life = this.data.about.data.threads[row.thread];
    const scale = width / (this.view[1] - this.view[0]);
    const [from, to] = [Math.max(0, (life.from - this.view[0]) * scale), Math.min(width, (life.to - this.view[0]) * scale)];
    context.fillRect(from, y, Math.max(0, to - from), height);
    // Blocked states at the foot are low, so that running stands out without being larger than its share.
    const order = this.data.states.map((state, index) => ({ state, index, rank: RANK[classOf(state)] })).sort((a, b) => a.rank - b.rank);
    for (let x = 0; x < width; x++) {
      let bottom = y + height;
      for (const { state, index } of order) {
        const share = shares[x * states + index];
        if (share < 0.004) continue;
        const tall = share * height;
        context.globalAlpha = (dimmed ? 0.3 : 1) * (wanted.length && !wanted.includes(state) ? 0.18 : 1);
        context.fillStyle = texture(context, state);
        context.fillRect(x, bottom - tall, 1.02, tall);
        bottom -= tall;
      }
    }
    context.globalAlpha = 1;
  }

  private drawCpus(context: CanvasRenderingContext2D, busy: Float64Array, width: number): void {
    const most = Math.max(this.data.about.cpus || 1, Math.ceil(busy.reduce((a, b) => Math.max(a, b), 0) - 0.05));
    const height = CPU - 6;
    const y = (value: number) => 2 + height - (Math.min(value, most) / most) * height;
    context.fillStyle = isDark() ? "#1d2127" : "#f6f7f9";
    context.fillRect(0, 2, width, height);
    context.fillStyle = stateColour("on CPU");
    context.globalAlpha = 0.55;
    for (let x = 0; x < width; x++) {
      let [sum, count] = [0, 0];
      for (let near = Math.max(0, x - 1); near <= Math.min(busy.length - 1, x + 1); near++, count++) sum += busy[near];
      context.fillRect(x, y(sum / count), 1.02, 2 + height - y(sum / count));
    }
    context.globalAlpha = 1;
    context.strokeStyle = isDark() ? "#454b55" : "#c9ced6";
    context.lineWidth = 1;
    for (let cpu = 1; cpu <= Math.min(most, 8); cpu++) {
      context.beginPath();
      context.moveTo(0, Math.round(y(cpu)) + 0.5);
      context.lineTo(width, Math.round(y(cpu)) + 0.5);
      context.stroke();
    }
  }

  private axis(context: CanvasRenderingContext2D, width: number, height: number): void {
    const ns = this.data.about.data.tick_ns;
    const [from, to] = [this.view[0] * ns, this.view[1] * ns];
    const rough = (to - from) / Math.max(2, width / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough) ?? power * 10;
    context.fillStyle = isDark() ? "#9aa1ac" : "#5a6270";
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "top";
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const x = ((at - from) / (to - from)) * width;
      context.fillRect(x, height - 19, 1, 4);
      const text = at === 0 ? "0" : tickLabel(at, step);
      const wide = context.measureText(text).width;
      context.fillText(text, Math.min(Math.max(0, x - wide / 2), width - wide), height - 13);
    }
  }

  /** The selected span: boxes above the drawing, so that a drag draws nothing anew. */
  brush(): void {
    this.asTable.show();
    const { span, base } = this.store.current;
    this.heading.textContent = base ? "Threads — drag to select the span B" : "Threads — drag to select a span of time; everything below follows";
    this.veils.forEach((veil, at) => (veil.hidden = !span || (base !== null && at !== 1)));
    this.veils[1].textContent = base ? "B" : "";
    this.base.hidden = !base;
    const width = this.canvas.clientWidth;
    const scale = width / (this.view[1] - this.view[0]);
    const height = `${this.canvas.clientHeight - 20}px`;
    const place = (box: HTMLElement, from: number, to: number) => Object.assign(box.style, { left: `${from}px`, width: `${Math.max(0, to - from)}px`, height });
    const ends = (of: [number, number]) => of.map((tick) => Math.min(width, Math.max(0, (tick - this.view[0]) * scale)));
    if (base) {
      const [x, end] = ends(base);
      place(this.base, x, Math.max(end, x + 1));
    }
    if (!span) return;
    const [x, end] = ends(span);
    [[0, x], [x, Math.max(end, x + 1)], [end, width]].forEach(([from, to], at) => place(this.veils[at], from, to));
  }

  private tick(event: { clientX: number }): number {
    const box = this.canvas.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    return this.view[0] + part * (this.view[1] - this.view[0]);
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { from: this.tick(event), kind: event.shiftKey ? "pan" : "brush", view: this.view, moved: false };
  }

  private pending = 0;

  private move(event: PointerEvent): void {
    if (!this.drag) return this.hover(event);
    const box = this.canvas.getBoundingClientRect();
    if (this.drag.kind === "pan") {
      const by = (-event.movementX / box.width) * (this.view[1] - this.view[0]);
      this.setView(this.view[0] + by, this.view[1] + by);
      return;
    }
    const to = this.tick(event);
    if (Math.abs(to - this.drag.from) < ((this.view[1] - this.view[0]) * 3) / box.width && !this.drag.moved) return;
    const isFirst = !this.drag.moved;
    this.drag.moved = true;
    const span: [number, number] = [Math.round(Math.min(to, this.drag.from)), Math.round(Math.max(to, this.drag.from)) + 1];
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.store.change({ span }, !isFirst));
  }

  private up(_: PointerEvent): void {
    if (this.drag && !this.drag.moved && this.drag.kind === "brush") this.store.change({ span: null });
    this.drag = null;
  }

  private hover(event: PointerEvent): void {
    const box = this.canvas.getBoundingClientRect();
    const y = event.clientY - box.top;
    if (this.path && y >= CPU && y < this.top) return this.tell(`${duration(this.tick(event) * this.data.about.data.tick_ns)} · ${this.path.textAt(this.tick(event))}`);
    const row = this.shownRows()[Math.floor((y - this.top) / ROW)];
    if (!row) return;
    const [tick, ns] = [this.tick(event), this.data.about.data.tick_ns];
    const width = (this.view[1] - this.view[0]) / box.width;
    const near: [number, number] = [tick - width * 2, tick + width * 2];
    const tid = this.data.about.data.threads[row.thread].tid;
    const around = { ...this.store.current, threads: [tid], span: near, states: [], idle: true, focus: "", drop: [] };
    const sums = sum(this.data, around);
    this.tell(`${duration(tick * ns)} · ${row.name} · ${this.wakeAt(row, tick, width) || mix(this.data, sums, around)}`);
  }

  /** The wait of a thread at a tick, and who ended it; "" where there is none that is wide enough to point at. */
  private wakeAt(row: Row, tick: number, width: number): string {
    const { data } = this;
    const set = data.sets[0];
    this.wake.hidden = true;
    const item = waitAt(set, row.thread, tick);
    if (item < 0 || set.length[item] < width * 3) return "";
    const state = data.states[set.placeState[set.place[item]]];
    const end = set.since[item] - 1 + set.length[item];
    const words = `${state} for ${duration(set.length[item] * data.about.data.tick_ns)}`;
    const waker = set.waker[item] - 1;
    if (waker < 0) return words;
    const name = data.about.data.wakers[waker];
    this.drawWake(row, name, end);
    const where = stackOf(data, data.wakerNode[waker]).find(isNamed);
    return `${words}, ${state === "preempted" ? "ran instead" : "ended by"} ${name}${where ? ` in ${where}` : ""}`;
  }

  /** A line to the strip of the thread that ended a wait: of those with its name, the one that was not waiting itself. */
  private drawWake(row: Row, name: string, end: number): void {
    const { data } = this;
    const shown = this.shownRows();
    const others = shown.filter((other) => other !== row && data.about.data.threads[other.thread].comm === name && waitAt(data.sets[0], other.thread, end - 0.5) < 0);
    if (others.length !== 1) return;
    const [from, to] = [shown.indexOf(row), shown.indexOf(others[0])];
    const x = ((end - this.view[0]) / (this.view[1] - this.view[0])) * this.canvas.clientWidth;
    this.wake.className = `wake ${to > from ? "down" : "up"}`;
    Object.assign(this.wake.style, { left: `${x - 1}px`, top: `${this.top + (Math.min(from, to) + 0.4) * ROW}px`, height: `${Math.abs(to - from) * ROW}px` });
    this.wake.dataset.to = String(data.about.data.threads[others[0].thread].tid);
    this.wake.hidden = false;
  }

  private wheel(event: WheelEvent): void {
    if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaY) < Math.abs(event.deltaX)) return;
    event.preventDefault();
    const at = this.tick(event);
    const by = Math.exp(event.deltaY * 0.002);
    this.setView(at - (at - this.view[0]) * by, at + (this.view[1] - at) * by);
  }

  private setView(from: number, to: number): void {
    const { ticks } = this.data.about.data;
    const length = Math.min(ticks, Math.max(20, to - from));
    const begin = Math.min(Math.max(0, from), ticks - length);
    this.view = [begin, begin + length];
    this.draw();
  }

  private key(event: KeyboardEvent): void {
    const { ticks } = this.data.about.data;
    const span = this.store.current.span ?? [Math.round(ticks * 0.4), Math.round(ticks * 0.6)];
    const step = Math.max(1, Math.round((span[1] - span[0]) / 4));
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    const by = event.key === "ArrowLeft" ? -step : step;
    const move = event.shiftKey ? [0, by] : [by, by];
    const next: [number, number] = [Math.max(0, span[0] + move[0]), Math.min(ticks, span[1] + move[1])];
    if (next[0] < next[1]) this.store.change({ span: next }, true);
  }
}

/** A thread's recorded wait at a tick; -1 without. */
function waitAt(set: ItemSet, thread: number, tick: number): number {
  for (const run of set.runs) {
    if (run.thread !== thread) continue;
    const [first, last] = range(set, run.from, run.to, [tick, tick]);
    for (let item = first; item < last; item++) {
      const begin = set.since[item] - 1;
      if (set.length[item] > 0 && begin <= tick && tick < begin + set.length[item]) return item;
    }
  }
  return -1;
}

const RANK = { idle: 0, poll: 1, timer: 2, other: 3, disk: 4, memory: 5, lock: 6, preempted: 7, runnable: 8, on: 9 };

/** A thread's name with room for its number: its title if that fits, else as much as there is room for: `PQconsumeIn… 9714`. */
function shortName({ title, comm, tid }: Thread): string {
  const room = 19 - String(tid).length;
  const names = title ? [title, title.replace(`${comm}: `, "")] : [];
  const name = names.find(({ length }) => length <= room) ?? comm;
  return `${name.length > room ? `${name.slice(0, room - 1)}…` : name} ${tid}`;
}
