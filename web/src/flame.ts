// A flame graph in its own scroll box. Only visible rows are drawn, so the canvas is never taller than the window.

import { clear, el, fit } from "./dom";
import { lengthOf, plainName, shorten } from "./format";
import { Kind } from "./data";
import { frameColour, ink, isDark, stateColour } from "./palette";
import { Frame } from "./stacks";

const ROW = 19;
const UNDERLINE = 4;
const LEAST = 0.4;
const FONT = "12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";

/** ms until the rows that are not seen are laid out, and frames that a drag left out are drawn. */
const SOON = 120;

/** px of the narrowest frames with callees, and of neighbours that are one cell; of a drag's pictures. */
const [FINE, COARSE] = [{ callees: LEAST * 2, cell: 1 }, { callees: 2, cell: 2 }];

/** Narrower frames have no label. */
const LABEL = 36;

let wide = 0;

/** A name for so many px. All characters of the font's basic ones are of one width. */
function fitted(context: CanvasRenderingContext2D, name: string, px: number): string {
  wide ||= context.measureText("m".repeat(64)).width / 64;
  const most = Math.floor(px / wide);
  if (!/^[ -~…×]*$/.test(name)) return shorten(name, px, (text) => context.measureText(text).width);
  return name.length <= most ? name : shorten(name, most, lengthOf);
}

/** A frame's place; `end` is beyond `x + w` where narrow neighbours are drawn with it. */
interface Cell { frame: Frame; x: number; w: number; end: number; row: number; pale: boolean }

/** How frames are shown in place of the colours of kinds and states. */
export interface Look { colour(frame: Frame): string; sign(frame: Frame): string }

export interface FlameEvents {
  hover(frame: Frame | null, root: Frame): void;
  zoom(frame: Frame): void;
  focus(frame: Frame): void;
  drop(frame: Frame): void;
  menu(frame: Frame, x: number, y: number): void;
}

export class FlameView {
  readonly box: HTMLElement;
  private readonly canvas = el("canvas", { "aria-hidden": "true" });
  /** Matches of a search, above the frames: a search draws no frame anew. Made for the first one. */
  private matched: HTMLCanvasElement | null = null;
  private readonly layers = el("div", { class: "layers" }, this.canvas);
  private readonly spacer = el("div", { class: "spacer" });
  private readonly tree = el("ul", { class: "sr", role: "tree", "aria-label": "stack of the selected frame" });
  private root: Frame | null = null;
  private zoomed: Frame | null = null;
  /** By row, from left to right. */
  private cells: Cell[][] = [];
  private readonly marks = [el("div", { class: "mark hovered", hidden: true }), el("div", { class: "mark cursor", hidden: true })];
  private hovered: Frame | null = null;
  cursor: Frame | null = null;
  private hit: Uint8Array | null = null;
  private rows = 0;
  private look: Look | null = null;
  private hasStates = false;

  constructor(label: string, readonly states: string[], readonly events: FlameEvents, readonly upwards = false) {
    this.box = el("div", { class: "flame", tabindex: "0", role: "application", "aria-label": label }, this.layers, this.spacer, ...this.marks, this.tree);
    this.box.addEventListener("scroll", () => this.draw());
    this.canvas.addEventListener("mousemove", (event) => this.hover(this.at(event)));
    this.canvas.addEventListener("mouseleave", () => this.hover(null));
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("dblclick", (event) => { const frame = this.at(event); if (frame?.parent) events.focus(frame); });
    this.canvas.addEventListener("contextmenu", (event) => {
      const frame = this.at(event);
      if (!frame) return;
      event.preventDefault();
      events.menu(frame, event.clientX, event.clientY);
    });
    // It also reports the size that the first drawing had.
    new ResizeObserver(() => { if (this.drawn !== this.box.clientWidth || this.tall !== this.box.clientHeight) this.draw(); }).observe(this.box);
  }

  /** Shows a graph; `path` is the zoomed frame's. */
  show(root: Frame, path: string[], hit: Uint8Array | null, upright: boolean, look: Look | null = null): void {
    const isNew = this.root?.label !== root.label;
    const zoomed = root.find(path);
    const isSame = this.root === root && this.zoomed === zoomed && this.upright === upright && !look && this.drawn > 0;
    this.root = root;
    this.zoomed = zoomed;
    this.hit = hit;
    this.look = look;
    this.hasStates = this.states.length > 1;
    this.upright = upright;
    this.hovered = null;
    this.cursor = this.cursor ? root.find(this.cursor.path) : null;
    if (isSame) this.drawMatches();
    else this.draw();
    // Callers are above the function at the foot.
    if (isNew && this.upwards) this.box.scrollTop = this.box.scrollHeight;
  }

  private upright = false;

  redraw(): void {
    this.draw();
  }

  /** The width at which the frames are drawn, 0 before; the height, and how far they were scrolled. */
  private drawn = 0;
  private tall = 0;
  private top = 0;

  /** Pictures that follow each other as those of a drag are coarse; the last of them is soon drawn in full. */
  private detail = FINE;
  private laidAt = -Infinity;
  private finer: ReturnType<typeof setTimeout> | undefined;

  private layout(width: number, now: number): void {
    const zoomed = this.zoomed!;
    this.detail = now - this.laidAt < SOON ? COARSE : FINE;
    this.laidAt = now;
    this.laidOut = [zoomed, width];
    clearTimeout(this.finer);
    if (this.detail === COARSE) this.finer = setTimeout(() => this.refine(), SOON);
    const above: Frame[] = [];
    for (let frame = zoomed.parent; frame; frame = frame.parent) above.unshift(frame);
    this.cells = above.map((frame, row) => [{ frame, x: 0, w: width, end: width, row, pale: true }]);
    this.open = [{ frame: zoomed, x: 0, w: width, end: width, row: above.length, pale: false }];
  }

  private refine(): void {
    if (this.detail === FINE) return;
    [this.laidOut, this.laidAt] = [[null, 0], -Infinity];
    this.draw();
  }

  /** The row below those that are laid out; empty when all are. */
  private open: Cell[] = [];
  private later: ReturnType<typeof setTimeout> | undefined;

  /** Lays out rows up to one, and those below it soon after: a drag draws many times only what is seen. */
  private layDown(last: number): void {
    while (this.open.length && this.cells.length <= last) {
      this.cells.push(this.open);
      this.open = this.below(this.open);
    }
    clearTimeout(this.later);
    if (this.open.length) {
      this.rows = Math.max(this.rows, this.cells.length + 1);
      this.later = setTimeout(() => this.layDown(Infinity), SOON);
    } else this.rows = this.cells.length;
    const tall = `${Math.max(0, this.rows * ROW + 4 - this.box.clientHeight)}px`;
    if (this.spacer.style.height !== tall) this.spacer.style.height = tall;
  }

  /** The row below. Frames that are too narrow to be seen are not even made, and narrow neighbours are one cell. */
  private below(row: Cell[]): Cell[] {
    const next: Cell[] = [];
    const { callees, cell: least } = this.detail;
    let last: Cell | null = null;
    for (const cell of row) {
      if (cell.w < callees || cell.frame.value <= 0) continue;
      const scale = cell.w / cell.frame.value;
      let x = cell.x;
      for (const frame of cell.frame.wide((LEAST * 0.999) / scale)) {
        const w = frame.value * scale;
        if (w >= LEAST && (w >= least || !last || x - last.end > 0.01 || last.end - last.x >= least)) {
          next.push((last = { frame, x, w, end: x + w, row: cell.row + 1, pale: false }));
        } else if (w >= LEAST && last) last.end = Math.max(last.end, x + w);
        x += w;
      }
    }
    return next;
  }

  private laidOut: [Frame | null, number] = [null, 0];

  draw(): void {
    const [width, height] = [this.box.clientWidth, this.box.clientHeight];
    if (!this.root || width < 20 || height < 20) return;
    const start = performance.now();
    if (this.laidOut[0] !== this.zoomed || this.laidOut[1] !== width) this.layout(width, start);
    // Rows from the foot have their place only when all are known.
    this.layDown(this.upwards !== this.upright ? Infinity : (this.box.scrollTop + height) / ROW);
    const context = fit(this.canvas, width, height);
    if (!context) return;
    const top = this.box.scrollTop;
    context.font = FONT;
    context.textBaseline = "middle";
    this.theme();
    for (let row = 0; row < this.rows; row++) {
      const y = this.y(row, height) - top;
      if (y > -ROW && y < height) for (const cell of this.cells[row] ?? []) this.drawCell(context, cell, y);
    }
    [this.drawn, this.tall, this.top] = [width, height, top];
    this.drawMatches();
    this.placeMarks();
    document.documentElement.dataset.drawMs = (performance.now() - start).toFixed(2);
  }

  /** Outlines of the frames under the mouse and the cursor: moving one draws nothing anew. */
  private placeMarks(): void {
    [this.hovered, this.cursor].forEach((frame, at) => {
      const [mark, cell] = [this.marks[at], frame && this.cellOf(frame)];
      mark.hidden = !cell;
      if (!cell) return;
      const [width, y] = [Math.max(cell.w - (cell.w > 3 ? 1 : 0), 1), this.y(cell.row, this.box.clientHeight)];
      Object.assign(mark.style, { transform: `translate(${cell.x}px,${y}px)`, width: `${width}px`, height: `${ROW - 1}px` });
    });
  }

  private cellOf(frame: Frame): Cell | undefined {
    let depth = 0;
    for (let above = frame.parent; above; above = above.parent) depth++;
    if (this.open.length && depth >= this.cells.length) this.layDown(Infinity);
    return this.cells[depth]?.find((cell) => cell.frame === frame);
  }

  private readonly day = new Map<number, string>();
  private readonly night = new Map<number, string>();
  private colours = this.day;

  private colour(frame: Frame, pale: boolean): string {
    const key = ((frame.own === null ? frame.id : -1) * 16 + frame.kind) * 2 + (pale ? 1 : 0);
    let colour = this.colours.get(key);
    if (colour === undefined) this.colours.set(key, (colour = frameColour(frame.label, frame.kind, pale, this.dark)));
    return colour;
  }

  private y(row: number, height: number): number {
    const down = this.upwards !== this.upright;
    return down ? Math.max(height, this.rows * ROW + 2) - (row + 1) * ROW : row * ROW;
  }

  private drawCell(context: CanvasRenderingContext2D, { frame, x, w, end, pale }: Cell, y: number): void {
    const gap = w > 3 ? 1 : 0;
    const [width, height] = [Math.max(end - x - gap, 0.5), ROW - 1];
    context.fillStyle = this.look ? this.look.colour(frame) : this.colour(frame, pale);
    context.fillRect(x, y, width, height);
    if (!this.look && w >= 2 && this.hasStates) this.underline(context, frame, x, y + height - UNDERLINE, width);
    if (w > LABEL) this.label(context, frame, x, y, w);
  }

  private drawMatches(): void {
    const { hit } = this;
    if (this.matched) this.matched.hidden = !hit;
    if (!hit || this.drawn === 0) return;
    if (!this.matched) this.layers.append((this.matched = el("canvas", { class: "matches", "aria-hidden": "true" })));
    // The box is not asked: a look at its size would be a layout for each letter of a search.
    const { drawn: width, tall: height, top } = this;
    const context = fit(this.matched, width, height);
    if (!context) return;
    context.fillStyle = this.dark ? "rgba(255,214,0,.28)" : "rgba(255,225,0,.5)";
    context.strokeStyle = this.dark ? "#ffd600" : "#6b3fa0";
    context.beginPath();
    for (let row = 0; row < this.rows; row++) {
      const y = this.y(row, height) - top;
      if (y <= -ROW || y >= height) continue;
      for (const { x, w, end, frame } of this.cells[row] ?? []) {
        if (w >= 1 && frame.name >= 0 && hit[frame.name] === 1) context.rect(x + 1, y + 1, Math.max(end - x - (w > 3 ? 3 : 2), 0.5), ROW - 3);
      }
    }
    // Outlines too: a match is seen without colour. Both are mixed with what is below, so labels stay readable.
    context.lineWidth = 2;
    context.fill();
    context.stroke();
  }

  private label(context: CanvasRenderingContext2D, frame: Frame, x: number, y: number, w: number): void {
    const plain = plainName(frame.label);
    const label = frame.repeats > 1 && frame.kind !== Kind.Unknown ? `${plain} ×${frame.repeats}` : plain;
    const sign = this.look && w > 90 ? this.look.sign(frame) : "";
    const text = sign + fitted(context, label, w - 9 - (sign ? context.measureText(sign).width : 0));
    context.fillStyle = this.ink;
    context.fillText(text, x + 4, y + (ROW - 1 - (this.look ? 0 : UNDERLINE)) / 2 + 0.5);
  }

  private dark = false;
  private ink = "";
  private stateColours: string[] = [];

  /** Asked for once for a drawing: it takes longer than to draw a frame. */
  private theme(): void {
    this.dark = isDark();
    this.ink = ink();
    this.colours = this.dark ? this.night : this.day;
    this.stateColours = this.states.map(stateColour);
  }

  private underline(context: CanvasRenderingContext2D, frame: Frame, x: number, y: number, width: number): void {
    let at = x;
    this.stateColours.forEach((colour, index) => {
      const part = (frame.states[index] / frame.value) * width;
      if (!(part > 0.2)) return;
      context.fillStyle = colour;
      context.fillRect(at, y, part, UNDERLINE);
      at += part;
    });
  }

  private at(event: MouseEvent): Frame | null {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top + this.box.scrollTop];
    const down = this.upwards !== this.upright;
    const row = Math.floor((down ? Math.max(this.box.clientHeight, this.rows * ROW + 2) - y : y) / ROW);
    const cells = this.cells[row];
    if (!cells) return null;
    let [low, high] = [0, cells.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (cells[middle].x <= x) low = middle + 1;
      else high = middle;
    }
    const cell = cells[low - 1];
    return cell && x < Math.max(cell.end, cell.x + 1) ? cell.frame : null;
  }

  private hover(frame: Frame | null): void {
    if (frame === this.hovered) return;
    this.hovered = frame;
    this.canvas.style.cursor = frame ? "pointer" : "default";
    this.placeMarks();
    this.events.hover(frame ?? this.cursor, this.root!);
  }

  private click(event: MouseEvent): void {
    const frame = this.at(event);
    this.box.focus({ preventScroll: true });
    if (!frame) return;
    if (event.altKey) return this.events.drop(frame);
    this.cursor = frame;
    this.events.zoom(frame);
  }

  /** Moves the cursor to the caller, a callee or a neighbour. */
  move(key: string): boolean {
    const now = this.cursor ?? this.zoomed;
    if (!now || !this.root) return false;
    const down = this.upwards !== this.upright;
    const siblings = now.parent?.children ?? [now];
    const at = siblings.findIndex((frame) => frame.label === now.label && frame.kind === now.kind);
    const next = {
      [down ? "ArrowUp" : "ArrowDown"]: now.children[0],
      [down ? "ArrowDown" : "ArrowUp"]: now.parent ?? undefined,
      ArrowLeft: siblings[at - 1], ArrowRight: siblings[at + 1],
    }[key];
    if (next) this.goTo(next);
    return true;
  }

  goTo(frame: Frame): void {
    this.cursor = frame;
    const cell = this.cellOf(frame);
    if (cell) {
      const y = this.y(cell.row, this.box.clientHeight);
      if (y < this.box.scrollTop) this.box.scrollTop = y;
      else if (y + ROW > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = y + ROW - this.box.clientHeight;
    }
    this.placeMarks();
    this.describe(frame);
    this.events.hover(frame, this.root!);
  }

  /** The cursor's path as a tree for screen readers. */
  private describe(frame: Frame): void {
    clear(this.tree);
    [...frame.path].forEach((label, level) => {
      this.tree.append(el("li", { role: "treeitem", "aria-level": level + 1, "aria-selected": level === frame.path.length - 1, text: label }));
    });
  }

  /** The frames that match the search, largest first. */
  matches(): Frame[] {
    this.refine();
    this.layDown(Infinity);
    const seen = this.cells.flat().filter((cell) => this.hit && cell.frame.name >= 0 && this.hit[cell.frame.name]);
    return seen.map((cell) => cell.frame).sort((a, b) => b.value - a.value);
  }
}
