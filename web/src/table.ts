// A table with columns that sort and rows that are made only where they are seen.

import { clear, el } from "./dom";

export interface Column<R> {
  title: string;
  help?: string;
  cell: (row: R) => string | Node;
  /** What the column sorts by. */
  sort?: (row: R) => number | string;
  class?: string;
}

const ROW = 22;

export class Table<R> {
  readonly box: HTMLElement;
  private readonly body = el("tbody");
  private readonly before = el("tr", { class: "gap" }, el("td"));
  private readonly after = el("tr", { class: "gap" }, el("td"));
  private readonly scroll: HTMLElement;
  private rows: R[] = [];
  private by: number;
  private down = true;
  private readonly heads: HTMLTableCellElement[];

  constructor(label: string, readonly columns: Column<R>[], readonly press: (row: R, event: MouseEvent | KeyboardEvent) => void, by = 0, readonly rowClass: (row: R) => string = () => "") {
    this.by = by;
    this.heads = columns.map((column, at) =>
      el("th", { class: column.class, title: column.help, scope: "col" }, column.sort ? el("button", { type: "button", text: column.title, on: { click: () => this.sortBy(at) } }) : column.title));
    const table = el("table", { "aria-label": label }, el("thead", {}, el("tr", {}, ...this.heads)), this.body);
    this.scroll = el("div", { class: "table", tabindex: "-1" }, table);
    this.box = this.scroll;
    this.scroll.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.scroll);
  }

  show(rows: R[]): void {
    this.rows = rows;
    this.order();
  }

  private sortBy(at: number): void {
    this.down = this.by === at ? !this.down : true;
    this.by = at;
    this.order();
  }

  private order(): void {
    const key = this.columns[this.by]?.sort;
    if (key) this.rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      const order = typeof x === "number" ? (y as number) - x : x < (y as string) ? -1 : x > (y as string) ? 1 : 0;
      return this.down ? order : -order;
    });
    this.heads.forEach((head, at) => {
      if (this.columns[at].sort) head.setAttribute("aria-sort", at === this.by ? (this.down ? "descending" : "ascending") : "none");
    });
    this.drawn = "";
    this.draw();
  }

  private drawn = "";

  private draw(): void {
    const room = Math.ceil((this.scroll.clientHeight || 400) / ROW);
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - 10);
    const last = Math.min(this.rows.length, first + room + 20);
    const key = `${first} ${last}`;
    if (key === this.drawn) return;
    this.drawn = key;
    clear(this.body);
    (this.before.firstChild as HTMLElement).style.height = `${first * ROW}px`;
    (this.after.firstChild as HTMLElement).style.height = `${(this.rows.length - last) * ROW}px`;
    this.body.append(this.before);
    for (const row of this.rows.slice(first, last)) {
      const cells = this.columns.map((column) => el("td", { class: column.class }, column.cell(row)));
      const line = el("tr", { tabindex: "0", class: this.rowClass(row) }, ...cells);
      line.addEventListener("click", (event) => this.press(row, event));
      line.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.stopPropagation(); this.press(row, event); } });
      this.body.append(line);
    }
    this.body.append(this.after);
  }
}
