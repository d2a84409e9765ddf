// Numbers as people read them.

const SPACES: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];

export function duration(ns: number): string {
  for (const [size, unit] of SPACES) {
    if (ns >= size * 0.9995) return `${significant(ns / size)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

export function significant(value: number): string {
  if (value < 9.9995) return value.toFixed(2);
  if (value < 99.95) return value.toFixed(1);
  return grouped(Math.round(value));
}

export function grouped(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

export function percent(part: number, whole: number): string {
  const value = whole > 0 ? (100 * part) / whole : 0;
  return value > 0 && value < 0.05 ? "<0.1 %" : `${value.toFixed(1)} %`;
}

export function amount(value: number, unit: string): string {
  const scaled = /^1e(\d+) (.*)$/.exec(unit);
  if (scaled) return divided(value / 10 ** Number(scaled[1]), scaled[2]);
  return unit === "ns" ? duration(value) : `${grouped(value)}${unit === "samples" ? "" : ` ${unit}`}`;
}

/** A value of a comparison: divided by the side's samples, time or work. */
function divided(value: number, unit: string): string {
  if (unit.startsWith("ns")) return `${duration(value)}${unit.slice(2)}`;
  return `${unit === "%" || value < 99.95 ? value.toFixed(2) : grouped(value)} ${unit}`;
}

/** A difference with its sign; shares differ by points. */
export function change(value: number, unit: string): string {
  const text = amount(Math.abs(value), unit).replace(/ %$/, " points");
  return `${!/[1-9]/.test(text) ? "±" : value > 0 ? "+" : "−"}${text}`;
}

/** From one length of time to another, which is not in it and may be infinite. */
export function range([from, to]: [number, number]): string {
  return Number.isFinite(to) ? `of ${duration(from)} to ${duration(to)}` : `of ${duration(from)} or longer`;
}

export function countOf(count: number, one: string, many: string): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

/** A length of time for an axis: as few digits as the step needs. */
export function tickLabel(ns: number, step: number): string {
  const [size, unit] = SPACES.find(([size]) => step >= size * 0.0999 && (size < 1e9 || ns >= 1e9 || step >= 1e8)) ?? [1, "ns"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  return `${(ns / size).toFixed(Math.min(digits, 3))} ${unit}`;
}

/** `fib app.js:1` of V8's `JS:*fib /home/user/app.js:1:13`; other names as they are. */
export function plainName(name: string): string {
  if (!name.startsWith("JS:")) return name;
  const v8 = /^JS:[~*^+]?(\S*) (?:.*\/)?([^/]+):(\d+):(\d+)$/.exec(name);
  return v8 ? `${v8[1] || (v8[3] + v8[4] === "11" ? "(module)" : "(anonymous)")} ${v8[2]}:${v8[3]}` : name;
}

/** Fewer letters of a name tell nothing: `f…0`. */
const LEAST_LETTERS = 4;

/** Template arguments first, then the middle: the last component is what tells names of one template from another. */
export function shorten(name: string, width: number, measure: (text: string) => number): string {
  if (measure(name) <= width) return name;
  // An address is a name only as a whole.
  if (/^function 0x[0-9a-f]+( ×\d+)?$/.test(name)) return measure(name.slice(9)) <= width ? name.slice(9) : "";
  // Of several functions the first and the last tell them from others.
  if (name.includes(" < ")) return middle(name, width, measure);
  // The file of a Python function is the first to go.
  const plain = withoutArguments(name).replace(/ \([^()]*\)$/, "").replaceAll("::<…>", "");
  if (plain !== name && measure(plain) <= width) return plain;
  // Not the numbers that compilers put after names.
  const last = Math.max(plain.lastIndexOf("::"), plain.search(/\.[A-Za-z_$][\w$]*$/));
  const tail = last > 0 ? plain.slice(last) : "";
  for (const text of [tail ? `…${tail}` : "", plain]) {
    if (text && measure(text) <= width) return text;
  }
  return middle(tail && measure(tail) < width * 2 ? `…${tail}` : plain, width, measure);
}

/** The width of a text where each character has the width 1. */
export const lengthOf = (text: string): number => text.length;

function middle(text: string, width: number, measure: (text: string) => number): string {
  if (measure === lengthOf) return kept(text, Math.floor(width) - 1);
  let [low, high] = [0, text.length];
  while (low < high) {
    const keep = (low + high + 1) >> 1;
    if (measure(kept(text, Math.max(LEAST_LETTERS, keep))) <= width) low = keep;
    else high = keep - 1;
  }
  return kept(text, low);
}

/** So many characters of both ends, or nothing. */
function kept(text: string, count: number): string {
  return count < LEAST_LETTERS ? "" : `${text.slice(0, Math.ceil(count / 2))}…${text.slice(text.length - Math.floor(count / 2))}`;
}

export function withoutArguments(name: string): string {
  let [depth, text] = [0, ""];
  for (let at = 0; at < name.length; at++) {
    const char = name[at]!;
    // Not the arrows and shifts of operators, and not Python's `f.<locals>.g` and `f (<frozen abc>)`.
    if (char === "<" && at > 0 && name[at - 1] !== "." && !name.startsWith(" (", at - 2) && !name.slice(Math.max(0, at - 9), at).endsWith("operator") && name[at - 1] !== "<") {
      if (depth++ === 0) text += "<…";
    } else if (char === ">" && depth > 0 && name[at - 1] !== "-") {
      if (--depth === 0) text += ">";
    } else if (depth === 0) text += char;
  }
  return depth === 0 ? text : name;
}

/** `W.put` of `W.put(java.lang.String)`; not of Python's `run (work.py)`, and not of operators. */
export function withoutParameters(name: string): string {
  return name.replace(/(?<=[\w$>])(?<!operator)\([^()]*\)$/, "");
}
