// Colours: the hue of a frame shows the kind of code, that of a state what a thread did.

import { Kind } from "./data";

export type StateClass = "on" | "runnable" | "preempted" | "lock" | "disk" | "memory" | "poll" | "timer" | "other" | "idle";

const CLASS: Record<string, StateClass> = {
  "on CPU": "on", runnable: "runnable", preempted: "preempted", idle: "idle",
  futex: "lock", GIL: "lock", "kernel lock": "lock", "file lock": "lock",
  disk: "disk", fsync: "disk", "page fault": "memory", memory: "memory", GC: "memory", "in the queue": "runnable", "in the device": "disk",
  poll: "poll", socket: "poll", pipe: "poll", aio: "poll",
  timer: "timer", child: "timer", signal: "timer", ipc: "timer", tty: "timer", stopped: "timer",
};

export function classOf(state: string): StateClass {
  return CLASS[state] ?? "other";
}

const LIGHT: Record<StateClass, string> = {
  on: "#2c9c5c", runnable: "#f0b429", preempted: "#a8500f", lock: "#cd1d78", disk: "#1c595e", memory: "#600c00",
  poll: "#6fa3e8", timer: "#815bdb", other: "#9ba3b2", idle: "#d6dae1",
};
const DARK: Record<StateClass, string> = {
  on: "#3fb873", runnable: "#f2bd3f", preempted: "#c1651c", lock: "#d54e7e", disk: "#2793b2", memory: "#e45448",
  poll: "#6b9ce0", timer: "#ccb9e3", other: "#91969f", idle: "#3f454f",
};

/** Letter of a state where there is no colour. */
export const LETTER: Record<StateClass, string> = { on: "#", runnable: "r", preempted: "p", lock: "L", disk: "d", memory: "m", poll: "w", timer: "t", other: "o", idle: "." };

const scheme = matchMedia("(prefers-color-scheme: dark)");
const paper = matchMedia("print");

export function isDark(): boolean {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : scheme.matches;
}

export function stateColour(state: string): string {
  return (isDark() && !paper.matches ? DARK : LIGHT)[classOf(state)];
}

/** Ink on a state's colour. */
export function stateInk(state: string): string {
  const of = classOf(state);
  if (isDark()) return of === "idle" ? "#e6e8ec" : "#101317";
  return ["preempted", "lock", "disk", "memory", "timer"].includes(of) ? "#ffffff" : "#15181d";
}

// Hue, saturation, lightness; dark lightness.
const KINDS: Record<number, [number, number, number, number]> = {
  [Kind.Task]: [220, 12, 80, 36], [Kind.Program]: [14, 78, 74, 36], [Kind.Library]: [46, 75, 72, 34],
  [Kind.Kernel]: [272, 50, 82, 38], [Kind.Jit]: [110, 42, 72, 34], [Kind.Python]: [212, 60, 78, 36], [Kind.Inlined]: [172, 40, 72, 34],
  [Kind.Waiting]: [207, 55, 76, 36], [Kind.Unknown]: [40, 5, 80, 36],
};
export const KIND_WORDS: [Kind, string][] = [[Kind.Program, "program"], [Kind.Library, "library"], [Kind.Kernel, "kernel"], [Kind.Jit, "run-time code"], [Kind.Python, "Python"], [Kind.Inlined, "inlined"], [Kind.Waiting, "waiting"], [Kind.Unknown, "no name"]];

/** The same name has the same shade everywhere and always. */
export function frameColour(name: string, kind: number, pale: boolean, night = isDark()): string {
  const [hue, saturation, light, dark] = KINDS[kind] ?? KINDS[Kind.Unknown];
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  hash ^= hash >>> 15;
  const unit = (bits: number) => (bits & 255) / 255 - 0.5;
  const shade = name ? unit(hash >>> 8) : 0;
  const turn = name ? unit(hash) * 12 : 0;
  const lightness = night ? dark + shade * 6 : light + shade * 8;
  const level = pale ? (night ? lightness * 0.6 + 8 : lightness * 0.5 + 47) : lightness;
  return hex(hue + turn, (pale ? saturation * 0.6 : night ? saturation * 0.7 : saturation) / 100, level / 100);
}

function hex(hue: number, saturation: number, lightness: number): string {
  const chroma = saturation * Math.min(lightness, 1 - lightness);
  const channel = (offset: number) => {
    const k = (offset + hue / 30 + 12) % 12;
    return Math.round(255 * (lightness - chroma * Math.max(-1, Math.min(k - 3, 9 - k, 1)))).toString(16).padStart(2, "0");
  };
  return `#${channel(0)}${channel(8)}${channel(4)}`;
}

export function ink(): string {
  return isDark() ? "#f2f3f5" : "#15181d";
}

/** Blue for less, orange for more; `by` from -1 to 1. */
export function diffColour(by: number): string {
  const size = Math.min(1, Math.abs(by));
  if (size < 0.005) return isDark() ? "#4a4f58" : "#d9dce1";
  const lightness = isDark() ? 26 + 12 * size : 90 - 32 * size;
  return by > 0 ? `hsl(24 85% ${lightness}%)` : `hsl(212 75% ${lightness}%)`;
}

let patterns: Record<string, CanvasPattern | null> = {};

/** Stripes that tell preempted from runnable without colour. */
export function texture(context: CanvasRenderingContext2D, state: string): string | CanvasPattern {
  const colour = stateColour(state);
  if (classOf(state) !== "preempted") return colour;
  const key = colour;
  if (!(key in patterns)) {
    const tile = document.createElement("canvas");
    [tile.width, tile.height] = [6, 6];
    const on = tile.getContext("2d")!;
    on.fillStyle = colour;
    on.fillRect(0, 0, 6, 6);
    on.strokeStyle = "rgba(255,255,255,.45)";
    on.lineWidth = 1.2;
    on.beginPath();
    for (const x of [-6, 0, 6]) { on.moveTo(x, 6); on.lineTo(x + 6, 0); }
    on.stroke();
    patterns[key] = context.createPattern(tile, "repeat");
  }
  return patterns[key] ?? colour;
}
