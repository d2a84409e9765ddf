// A table with columns that sort and rows that are made only where they are seen.

import { clear, el } from "./dom";
import { shorten } from "./format";

export interface Column<R> {
  title: string;
  help?: string;
  cell: (row: R) => string | Node;
  /** What the column sorts by. */
  sort?: (row: R) => number | string;
  class?: string;
}

const ROW = 22;

/** Large numbers first, texts by the alphabet. */
function compared<R>(key: (row: R) => number | string, a: R, b: R): number {
  const [x, y] = [key(a), key(b)];
  if (typeof x === "number") return (y as number) - x;
  return x < (y as string) ? -1 : x > (y as string) ? 1 : 0;
}

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
    new ResizeObserver(() => {
      const width = this.scroll.clientWidth;
      if (width !== this.width) this.drawn = "";
      this.width = width;
      this.draw();
    }).observe(this.scroll);
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
    // Rows that are equal in the column are ordered by the others, from the left: the order never depends on the one before.
    const others = this.columns.map((column) => column.sort).filter((sort) => sort !== undefined);
    if (key) this.rows.sort((a, b) => {
      const order = compared(key, a, b);
      if (order !== 0) return this.down ? order : -order;
      for (const other of others) {
        const next = compared(other, a, b);
        if (next !== 0) return next;
      }
      return 0;
    });
    this.heads.forEach((head, at) => {
      if (this.columns[at].sort) head.setAttribute("aria-sort", at === this.by ? (this.down ? "descending" : "ascending") : "none");
    });
    this.drawn = "";
    this.draw();
  }

  /** The rows that are drawn, at which width. */
  private drawn = "";
  private width = 0;

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
    this.fitNames();
  }

  /** Names that don't fit lose their middle: the end tells functions of one class from each other. */
  private fitNames(): void {
    const tooLong = [...this.body.querySelectorAll<HTMLElement>("td.name")].filter((cell) => cell.scrollWidth > cell.clientWidth);
    if (tooLong.length === 0) return;
    const pen = document.createElement("canvas").getContext("2d")!;
    pen.font = getComputedStyle(tooLong[0]).font;
    const measure = (text: string) => pen.measureText(text).width;
    for (const cell of tooLong) {
      const box = cell.firstElementChild ?? cell;
      const name = box.lastChild;
      if (!(name instanceof Text)) continue;
      cell.title ||= (box as HTMLElement).title || name.data;
      const excess = cell.scrollWidth - cell.clientWidth;
      name.data = shorten(name.data, measure(name.data) - excess - 2, measure) || name.data;
    }
  }
}

/** A picture's numbers as a table in its place, for those who don't see it: a button that switches. */
export class AsTable<R> {
  readonly button = el("button", { type: "button", class: "link", "aria-pressed": false, text: "as table", on: { click: () => this.toggle() } });
  private table: Table<R> | null = null;
  isOpen = false;

  constructor(what: string, readonly picture: HTMLElement, readonly make: () => Table<R>, readonly rows: () => R[]) {
    this.button.title = `${what}: the picture's numbers as a table`;
  }

  private toggle(): void {
    this.isOpen = !this.isOpen;
    this.button.textContent = this.isOpen ? "as picture" : "as table";
    this.button.setAttribute("aria-pressed", String(this.isOpen));
    if (!this.table) this.picture.after((this.table = this.make()).box);
    this.picture.hidden = this.isOpen;
    this.table.box.hidden = !this.isOpen;
    this.show();
  }

  /** The numbers of now. */
  show(): void {
    if (this.isOpen) this.table!.show(this.rows());
  }
}
