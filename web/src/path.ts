// The critical path over time: which thread's doing the run waited for, moment by moment.

import { stateOf } from "./blame";
import { CriticalPath, Data } from "./data";
import { duration, percent } from "./format";
import { LETTER, StateClass, classOf, isDark, stateInk, texture } from "./palette";

interface Part { thread: string; state: string; target: string; fn: string; ns: number }
/** Begin and end in ticks; the parts add up to it. */
interface Stretch { from: number; to: number; ns: number; parts: Part[] }

/** `on CPU` of `on CPU, no sample`. */
const plain = (state: string) => state.split(",")[0].replace(/^waited for.*/, "other");

const ORDER = Object.keys(LETTER) as StateClass[];

/** Each state once, in the same order everywhere: running is on top, as in the threads' strips. */
function byState(parts: Part[]): [string, number][] {
  const sums = new Map<string, number>();
  for (const { state, ns } of parts) sums.set(plain(state), (sums.get(plain(state)) ?? 0) + ns);
  return [...sums].sort(([a], [b]) => ORDER.indexOf(classOf(a)) - ORDER.indexOf(classOf(b)));
}

export class PathStrip {
  readonly stretches: Stretch[] = [];
  /** ns by state, most first. */
  readonly states: [string, number][];
  readonly total: number;

  constructor(data: Data, readonly path: CriticalPath) {
    const tick = data.about.data.tick_ns;
    const threads = new Map(data.about.data.threads.map((thread) => [thread.tid, `${thread.comm} ${thread.tid}`]));
    const sums = new Map<string, number>();
    let now = path.begin_ns;
    for (const numbers of path.pieces) {
      const parts: Part[] = [];
      let ns = 0;
      for (let at = 0; at < numbers.length; at += 5) {
        const [tid, state, target, fn, long] = numbers.slice(at, at + 5);
        parts.push({ thread: tid === 0 ? "other threads" : threads.get(tid - 1) ?? `thread ${tid - 1}`, state: path.names[state], target: path.names[target], fn: path.names[fn], ns: long });
        sums.set(plain(path.names[state]), (sums.get(plain(path.names[state])) ?? 0) + long);
        ns += long;
      }
      this.stretches.push({ from: now / tick, to: (now + ns) / tick, ns, parts });
      now += ns;
    }
    this.states = [...sums].sort((a, b) => b[1] - a[1]);
    this.total = now - path.begin_ns;
  }

  /** Full height: a piece in its state's colour; short ones together as shares. */
  draw(context: CanvasRenderingContext2D, view: [number, number], width: number, y: number, height: number): void {
    const scale = width / (view[1] - view[0]);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const { from, to, ns, parts } of this.stretches) {
      const x = Math.max(0, (from - view[0]) * scale);
      const wide = Math.min(width, (to - view[0]) * scale) - x;
      if (wide <= 0) continue;
      let top = y;
      for (const [state, part] of byState(parts)) {
        const tall = (part / ns) * height;
        context.fillStyle = texture(context, state);
        context.fillRect(x, top, Math.max(wide - (wide > 3 ? 0.6 : 0), 0.5), tall);
        top += tall;
      }
      const { thread, state } = parts[0];
      if (parts.length > 1 || wide < 40) continue;
      const text = [thread, thread.replace(/ \d+$/, "")].find((text) => context.measureText(text).width < wide - 8);
      if (!text) continue;
      context.fillStyle = stateInk(plain(state));
      context.fillText(text, x + 4, y + height / 2 + (isDark() ? 0 : 0.5));
    }
  }

  /** Thread, state, function and length of the piece at a moment. */
  textAt(tick: number): string {
    const stretch = this.stretches.find((of) => of.from <= tick && tick < of.to);
    if (!stretch) return "the critical path has no piece here";
    const { parts, ns } = stretch;
    const words = ({ thread, state, target, fn }: Part) => {
      const what = `${thread} ${stateOf({ state, target })}`;
      return fn && !fn.startsWith("[") ? `${what}, ${state.startsWith("on CPU") ? "most often " : ""}in ${fn}` : what;
    };
    if (parts.length === 1) return `${duration(ns)} of the critical path: ${words(parts[0])}`;
    return `${duration(ns)} of the critical path in short pieces: ${parts.slice(0, 4).map((part) => `${words(part)} ${percent(part.ns, ns)}`).join(" · ")}`;
  }
}
