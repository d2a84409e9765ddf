// Activity as a map: columns are steps of time, rows are threads or parts of a second.

import { Data } from "./data";
import { el, fit } from "./dom";
import { amount, duration, percent, tickLabel } from "./format";
import { isDark } from "./palette";
import { Store } from "./selection";
import { AsTable, Table } from "./table";
import { shownPlaces, sum, Sums, threadMask, waitMask } from "./sums";

const CELL = 14;

/** A column: its begin in ns, its sum, and its greatest cell. */
interface Step { column: number; at: number; sum: number; most: number; of: string }

export class HeatMap {
  readonly box = el("div", { class: "pane" });
  private readonly canvas = el("canvas", { role: "img", "aria-label": "activity over time; a drag selects a span" });
  private readonly note = el("p", { class: "note" });
  private readonly which = el("select", { "aria-label": "time shown" });
  private sums: Sums | null = null;
  private from: number | null = null;
  private readonly asTable: AsTable<Step>;

  constructor(readonly data: Data, readonly store: Store, readonly tell: (text: string) => void) {
    this.which.append(el("option", { value: "", text: "all selected states" }), ...data.states.map((state) => el("option", { value: state, text: state })));
    this.which.value = data.states[0] ?? "";
    this.which.addEventListener("change", () => this.draw());
    const picture = el("div", { class: "heat-box" }, this.canvas);
    this.asTable = new AsTable("heat map", picture, () => this.table(), () => this.steps());
    this.box.append(el("p", { class: "note" }, "Shown: ", this.which, " ", this.asTable.button, this.note), picture);
    this.canvas.addEventListener("pointerdown", (event) => { this.from = this.second(event); this.canvas.setPointerCapture(event.pointerId); });
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", () => { this.from = null; });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  show(sums: Sums): void {
    this.sums = sums;
    this.draw();
  }

  /** Long recordings: columns of a second, rows of its parts. Short ones: a column of a fiftieth of it, rows by thread. */
  private grid(): { columns: number; rows: number; step: number; byThread: boolean } {
    const { ticks, tick_ns } = this.data.about.data;
    const seconds = (ticks * tick_ns) / 1e9;
    if (seconds >= 30) return { columns: Math.ceil(seconds), rows: 50, step: 1e9 / tick_ns, byThread: false };
    return { columns: 100, rows: Math.min(40, this.data.about.data.threads.length), step: ticks / 100, byThread: true };
  }

  /** The last row has all threads that have none of their own. */
  private rowName(row: number, rows: number): string {
    const { threads } = this.data.about.data;
    const others = threads.length - rows;
    return row === rows - 1 && others > 0 ? `${others + 1} other threads` : `${threads[row].comm} ${threads[row].tid}`;
  }

  private cells(): Float64Array {
    const { data, sums } = this;
    const set = sums!.set;
    const { columns, rows, step, byThread } = this.grid();
    const cells = new Float64Array(columns * rows);
    const threads = threadMask(data, this.store.current);
    const wanted = this.which.value;
    // The map is of all time, whatever span is selected.
    const all = this.store.current.span ? sum(data, { ...this.store.current, span: null }) : sums!;
    const shown = shownPlaces(all);
    const lengths = waitMask(data, set, this.store.current);
    const put = (tick: number, thread: number, amount: number) => {
      const column = Math.min(columns - 1, Math.floor(tick / step));
      const row = Math.min(rows - 1, byThread ? thread : Math.floor(((tick % step) / step) * rows));
      cells[column * rows + row] += amount;
    };
    const small = byThread ? step : step / rows;
    for (let item = 0; item < set.items; item++) {
      const place = set.place[item];
      if (set.since[item] === 0 || !threads[set.thread[item]] || !shown[place] || (lengths && !lengths[item])) continue;
      if (wanted && data.states[set.placeState[place]] !== wanted) continue;
      const [begin, length] = [set.since[item] - 1, set.length[item]];
      if (length === 0) put(begin, set.thread[item], set.amount[item]);
      else {
        const own = Math.min(set.amount[item], length * data.about.data.tick_ns);
        const end = begin + length;
        for (let at = begin; at < end; at = (Math.floor(at / small + 1e-9) + 1) * small) {
          const until = Math.min(end, (Math.floor(at / small + 1e-9) + 1) * small);
          put(at, set.thread[item], (own * (until - at)) / length);
        }
      }
    }
    return cells;
  }

  /** Columns with their sums and greatest cells. */
  private steps(): Step[] {
    const { columns, rows, step, byThread } = this.grid();
    const cells = this.cells();
    const { tick_ns } = this.data.about.data;
    return Array.from({ length: columns }, (_, column) => {
      const part = cells.subarray(column * rows, (column + 1) * rows);
      const row = part.indexOf(Math.max(...part));
      return { column, at: column * step * tick_ns, sum: part.reduce((all, value) => all + value, 0), most: part[row], of: byThread ? this.rowName(row, rows) : `${row * 20} ms` };
    }).filter(({ sum }) => sum > 0);
  }

  private table(): Table<Step> {
    const value = (of: number) => amount(of, this.sums!.set.unit);
    return new Table("activity over time", [
      { title: "from", class: "n", cell: ({ at }) => duration(at) },
      { title: "all", class: "n", sort: ({ sum }) => sum, cell: ({ sum }) => value(sum) },
      { title: "most of one", class: "n", sort: ({ most }) => most, cell: ({ most }) => value(most) },
      { title: "in", cell: ({ of }) => of },
    ], ({ column }) => this.select(column, column + 1), -1);
  }

  private draw(): void {
    if (this.sums) this.asTable.show();
    if (!this.sums || this.box.clientWidth < 50) return;
    const { columns, rows, step, byThread } = this.grid();
    const cells = this.cells();
    const left = byThread ? 130 : 60;
    const width = Math.max(200, this.box.clientWidth - 24);
    const wide = (width - left - 90) / columns;
    const tall = byThread ? CELL : 5;
    const height = rows * tall + 28;
    const context = fit(this.canvas, width, height);
    if (!context) return;
    const most = Math.max(...cells, 1);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let column = 0; column < columns; column++) {
      for (let row = 0; row < rows; row++) {
        context.fillStyle = heat(cells[column * rows + row] / most);
        context.fillRect(left + column * wide, row * tall, Math.max(wide - 0.5, 0.7), tall - 1);
      }
    }
    const text = isDark() ? "#9aa1ac" : "#5a6270";
    context.fillStyle = text;
    const { tick_ns } = this.data.about.data;
    if (byThread) for (let row = 0; row < rows; row++) context.fillText(this.rowName(row, rows).slice(0, 20), 2, row * tall + tall / 2);
    else for (const ms of [0, 200, 400, 600, 800]) context.fillText(`${ms} ms`, 2, (ms / 1000) * rows * tall + 6);
    const every = Math.max(1, Math.round(columns / 8));
    for (let column = 0; column < columns; column += every) {
      const at = column * step * tick_ns;
      context.fillText(at === 0 ? "0" : tickLabel(at, every * step * tick_ns), left + column * wide, height - 10);
    }
    for (let part = 0; part <= 4; part++) {
      context.fillStyle = heat(part / 4);
      context.fillRect(width - 80, part * 16, 12, 15);
      context.fillStyle = text;
      context.fillText(percent(part, 4), width - 62, part * 16 + 8);
    }
    this.note.textContent = `${byThread ? "a row per thread" : "a column per second, rows of 20 ms"}, columns of ${duration(step * tick_ns)}; most in one: ${this.sums.set.unit === "ns" ? duration(most) : most}. A drag selects a span.`;
    this.place = { left, wide, step };
  }

  private place = { left: 0, wide: 1, step: 1 };

  private second(event: PointerEvent): number {
    const x = event.clientX - this.canvas.getBoundingClientRect().left - this.place.left;
    return Math.max(0, Math.floor(x / this.place.wide));
  }

  private move(event: PointerEvent): void {
    const at = this.second(event);
    if (this.from === null) return this.tell(`${duration(at * this.place.step * this.data.about.data.tick_ns)}`);
    const [a, b] = [Math.min(at, this.from), Math.max(at, this.from) + 1];
    this.select(a, b, true);
  }

  private select(from: number, to: number, isDrag = false): void {
    const { step } = this.grid();
    this.store.change({ span: [Math.round(from * step), Math.min(this.data.about.data.ticks, Math.round(to * step))] }, isDrag);
  }
}

export function heat(share: number): string {
  if (share <= 0) return isDark() ? "#1c2026" : "#f3f4f6";
  const part = Math.sqrt(share);
  return isDark() ? `hsl(${40 - 24 * part} 85% ${16 + 44 * part}%)` : `hsl(${40 - 24 * part} 88% ${92 - 48 * part}%)`;
}
