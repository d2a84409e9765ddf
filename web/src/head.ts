// Head line, findings and state bar.

import { About, Data, Finding } from "./data";
import { clear, el } from "./dom";
import { amount, percent } from "./format";
import { stackWords } from "./functions";
import { allWaits } from "./glance";
import { classOf, stateColour, stateInk } from "./palette";
import { FRESH, Selection, Store } from "./selection";
import { sum, Sums } from "./sums";
import { isNamed, stackOf, stateMark, WaitRow, waitRows } from "./waits";

export interface HeadEvents { search(text: string): void; keys(): void; theme(): void; recording(): void }

export class Head {
  readonly box: HTMLElement;
  readonly input = el("input", { type: "search", placeholder: "/ search functions (regex)", "aria-label": "search functions, a regular expression", spellcheck: "false", autocomplete: "off" });
  private readonly found = el("output", { class: "found", "aria-live": "polite" });

  constructor(about: About, events: HeadEvents) {
    const [samples, ...quality] = about.quality.split(" · ");
    const more = [...quality, ...(about.machine ? about.machine.split(" · ") : [])].map((text) => el("span", { text }));
    const dot = el("button", { type: "button", class: `quality ${about.good ? "good" : "poor"}`, title: "about the recording", on: { click: () => events.recording() } }, el("i"), samples ?? "");
    this.input.addEventListener("input", () => events.search(this.input.value));
    this.box = el("header", { class: "head" },
      el("h1", { title: about.title, text: about.title }),
      el("p", { class: "facts" }, el("strong", { text: about.subtitle }), dot, ...more),
      el("div", { class: "tools" }, this.input, this.found,
        el("button", { type: "button", title: "light or dark (t)", "aria-label": "light or dark", text: "◐", on: { click: () => events.theme() } }),
        el("button", { type: "button", title: "all keys (?)", "aria-label": "all keys", text: "?", on: { click: () => events.keys() } })));
  }

  showFound(text: string, isError: boolean): void {
    this.found.textContent = text;
    this.found.classList.toggle("error", isError);
  }
}

/** States, and the word to search for, that show a finding in the other views. */
function proof(finding: Finding, data: Data): Partial<Selection> {
  const of: Record<string, string[]> = {
    "lock-contention": ["futex", "GIL", "file lock"], "kernel-lock": ["kernel lock"], disk: ["disk", "fsync", "page fault"], "disk-saturated": ["disk", "fsync", "page fault"],
    "memory-pressure": ["page fault", "memory", "disk"], "cpu-saturation": ["runnable", "preempted"], preemption: ["preempted"], "cgroup-throttled": ["runnable", "preempted"],
    "waiting-for-others": ["poll", "socket", "pipe", "child", "futex"], polling: ["timer"], "cpu-bound": ["on CPU"], "system-calls": ["on CPU"], "page-faults": ["on CPU"],
    "serial-bottleneck": ["on CPU"], "memory-bound": ["on CPU"], "short-processes": ["on CPU"], convoy: ["futex", "GIL", "file lock"], "serial-chain": ["futex", "pipe", "socket", "poll", "child"],
    "slow-peer": ["socket", "poll", "pipe"], "garbage-collection": ["GC"], "head-of-line": ["on CPU", "disk", "socket", "pipe", "timer", "futex"], idle: ["idle"],
  };
  const wanted = (of[finding.name] ?? []).filter((state) => data.states.includes(state));
  const isIdle = finding.name === "idle";
  const base: Partial<Selection> = { states: wanted, search: "", idle: isIdle, zoom: [], focus: "", tab: "flame" };
  const place = isWaiting(finding) && !isIdle ? matching(finding, wanted, data) : [];
  const last = finding.stacks[0]?.stack.split(" < ").at(-1) ?? "";
  // Not each wait of the state is for it.
  if (place.length && isNamed(last)) return { ...base, states: [...new Set(place.map((row) => data.states[row.state]))], focus: last };
  const first = finding.stacks[0]?.stack.split(" < ")[0] ?? "";
  return { ...base, search: /^[\w:.@~]{3,}$/.test(first) ? `^${first.replace(/[.]/g, "\\.")}$` : "" };
}

/** Whether its stacks are those of waits. */
function isWaiting({ name, stacks }: Finding): boolean {
  return name !== "cpu-saturation" && /^where threads (wait|are blocked)/.test(stacks[0]?.what ?? "");
}

/** Waits at the place of its first stack: in its states, or in any where it is none of them, as a server's lock in an event loop. */
function matching({ stacks }: Finding, states: string[], data: Data): WaitRow[] {
  const rows = allWaits(data).rows.filter((row) => stackOf(data, row.node).join(" < ").startsWith(stacks[0].stack));
  const own = rows.filter((row) => states.includes(data.states[row.state]));
  return own.length ? own : rows;
}

export function cards(data: Data, store: Store): HTMLElement | null {
  const { about } = data;
  if (about.findings.length === 0) {
    return about.no_verdict ? el("p", { class: "note", text: `no findings: ${about.no_verdict}` }) : null;
  }
  const all = about.findings.length;
  return el("section", { class: "cards", "aria-label": "findings" }, ...about.findings.map((finding, at) => card(finding, at, all, data, store)));
}

const LEAST_PLACE = 0.1;

/** The place of a finding, with the callers that tell it from others where it is about waits. */
function placeOf(finding: Finding, data: Data): { share: string; what: string; stack: string } | null {
  // A file's name in place of a function explains nothing.
  const stack = finding.stacks.find((of) => of.stack.split(" < ").some(isNamed)) ?? finding.stacks[0];
  // Where time is spread out, one place explains nothing.
  if (!stack || stack.share < LEAST_PLACE) return null;
  const found = { share: percent(stack.share, 1), what: stack.what, stack: stack.stack };
  const { states, idle } = proof(finding, data);
  if (!isWaiting(finding) || !states?.length) return found;
  const selection = { ...FRESH, states, idle: idle ?? false };
  const sums = idle ? sum(data, selection) : allWaits(data).sums;
  const exact = idle ? [] : matching(finding, states, data);
  const rows = exact.length ? exact : (idle ? waitRows(data, sums, selection) : allWaits(data).rows.filter((row) => states.includes(data.states[row.state])));
  const row = rows.find((of) => stackOf(data, of.node).some(isNamed)) ?? rows[0];
  return row ? { share: percent(row.total, sums.whole), what: row === rows[0] ? "most of it" : "most of what has a name", stack: row.label } : found;
}

/** Programs named in a card. */
const PROGRAMS = 4;

/** The programs that had the CPUs, with their shares of all time on them; "" where all is of one. */
function onTheCpus(data: Data): string {
  const { threads } = data.about.data;
  const [set, on] = [data.sets[0], data.states.indexOf("on CPU")];
  const names = new Map(threads.filter((thread) => thread.tid === thread.pid).map((thread) => [thread.pid, thread.comm]));
  const sums = new Map<string, number>();
  for (let item = 0; item < set.items; item++) {
    const thread = threads[set.thread[item]];
    if (!thread || set.placeState[set.place[item]] !== on) continue;
    const name = names.get(thread.pid) ?? thread.comm;
    sums.set(name, (sums.get(name) ?? 0) + set.amount[item]);
  }
  const whole = [...sums.values()].reduce((all, value) => all + value, 0);
  const rows = [...sums].sort((a, b) => b[1] - a[1]).slice(0, PROGRAMS);
  return sums.size > 1 ? `on the CPUs: ${rows.map(([name, value]) => `${name} ${percent(value, whole)}`).join(", ")}` : "";
}

function card(finding: Finding, at: number, all: number, data: Data, store: Store): HTMLElement {
  const plain = (text: string) => text.replace(/[^\w%]/g, "");
  const known: string[] = [plain(finding.claim)];
  // The evidence lists the first one, too, with its share.
  const first = finding.detail.replace(/^most of it for /, "");
  const detail = first !== finding.detail && finding.evidence.some((fact) => fact.includes(first)) ? "" : finding.detail;
  const facts = [detail, ...finding.evidence].filter((fact) => {
    const isNew = fact !== "" && !known.includes(plain(fact));
    known.push(plain(fact));
    return isNew;
  }).slice(0, finding.fix ? 1 : 2);
  const place = placeOf(finding, data);
  const programs = finding.name === "cpu-saturation" && !place ? onTheCpus(data) : "";
  const checked = finding.checked_against.length ? `also measured: ${finding.checked_against.join(" · ")}` : "";
  const box = el("article", { class: "card" },
    el("h2", { title: `${finding.claim}\n${checked}` }, ...(all > 1 ? [el("b", { class: "rank", text: `${at + 1} `, title: `finding ${at + 1} of ${all}` })] : []), finding.claim),
    el("ul", {}, ...facts.map((fact) => el("li", { text: fact, title: fact })), programs ? el("li", { text: programs }) : null,
      place ? el("li", { class: "stack-line", title: place.stack }, `${place.what}: ${place.share} `, el("code", { text: stackWords(data, place.stack) })) : null,
      finding.fix ? el("li", { class: "fix", text: `fix: ${withoutCommand(finding)}`, title: finding.fix }) : null),
    el("footer", {}, el("span", { class: all > 2 ? "spare" : undefined, text: checked, title: checked }),
      finding.next ? el("span", { class: "next" }, el("code", { text: finding.next, title: `${finding.next} — ${finding.advice}` }), copyButton(finding.next)) : null,
      el("button", { type: "button", class: "show", text: "show", title: "selects the states and functions that prove it", on: { click: () => store.change(proof(finding, data)) } })));
  return box;
}

/** The remedy; its command is at the foot of the card. */
function withoutCommand({ fix, next }: Finding): string {
  return next && fix.endsWith(`: ${next}`) ? fix.slice(0, -next.length - 2).replace(/[;,] [^;,]*$/, "") : fix;
}

function copyButton(text: string): HTMLElement {
  const button = el("button", { type: "button", title: "copy", "aria-label": "copy the command", text: "copy" });
  button.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(text).catch(() => undefined);
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 900);
  });
  return button;
}

/** px before a label. */
const INDENT = 7;

/** What a thread does in a state, for readers to whom its name says little. */
const MEANINGS: Record<string, string> = {
  "runnable": "waits for a CPU", "preempted": "another thread runs instead", "futex": "waits for a lock or a thread", "GIL": "waits for Python's lock", "poll": "waits for events", "child": "waits for a process",
  "fsync": "waits until the disk has it", "timer": "sleeps", "idle": "waits for work", "page fault": "waits for a page of memory", "aio": "waits for asynchronous I/O", "ipc": "waits for another process",
};

/** All thread time by state; a click filters. */
export class StateBar {
  readonly box = el("section", { class: "states", "aria-label": "time by state" });
  private readonly bar = el("div", { class: "bar", role: "group" });
  private readonly heading = el("h2", {});
  /** States whose part of the bar is too short for a label. */
  private readonly small = el("p", { class: "small" });
  private readonly before = el("div", { class: "row before" });
  private readonly idle = el("button", { type: "button", class: "link" });
  private readonly pen = el("canvas").getContext("2d")!;

  constructor(readonly data: Data, readonly store: Store) {
    this.box.append(el("div", { class: "row" }, this.heading, this.small, this.idle), this.bar, this.before);
    this.idle.addEventListener("click", () => store.change({ idle: !store.current.idle }));
  }

  /** `before` is what a comparison begins with: a narrow bar in the same order. */
  show(sums: Sums, selection: Selection, before: Sums | null = null): void {
    const { data } = this;
    this.box.hidden = !sums.set.wall;
    if (this.box.hidden) return;
    clear(this.bar);
    this.heading.textContent = `${before ? "B: " : ""}Where ${amount(sums.whole, sums.set.unit)} of ${data.about.io ? "requests'" : data.about.calls ? "calls'" : "thread"} time went — click a state to filter everything below`;
    const idle = data.states.indexOf("idle");
    this.idle.hidden = idle < 0 || (sums.idleLeftOut === 0 && !selection.idle);
    this.idle.textContent = selection.idle ? "leave out idle time" : `idle left out: ${amount(sums.idleLeftOut, sums.set.unit)} — count it`;
    const parts = [...sums.states].map((value, state) => ({ value, state: data.states[state], at: state }));
    const shown = parts.filter((part) => part.value > 0 && (part.at !== idle || selection.idle)).sort((a, b) => b.value - a.value);
    for (const { value, state } of shown) {
      const isOn = selection.states.includes(state);
      const text = `${state} ${percent(value, sums.whole)}`;
      const part = el("button", { type: "button", class: classOf(state), title: `${text} · ${amount(value, sums.set.unit)}`, "aria-pressed": isOn, "aria-label": `${text}, ${amount(value, sums.set.unit)}`, "data-state": state, text });
      if (MEANINGS[state]) part.dataset.meaning = `${state}: ${MEANINGS[state]} ${percent(value, sums.whole)}`;
      part.style.flexGrow = String(value);
      part.style.backgroundColor = stateColour(state);
      part.style.color = stateInk(state);
      if (selection.states.length && !isOn) part.classList.add("off");
      part.addEventListener("click", (event) => {
        const others = selection.states.filter((other) => other !== state);
        this.store.change({ states: event.shiftKey ? (isOn ? others : [...selection.states, state]) : isOn && selection.states.length === 1 ? [] : [state] });
      });
      this.bar.append(part);
    }
    this.showBefore(before, sums, selection);
    // A part of a word is no label: the name alone, or none. Widths are read at once: each change after a look is a layout.
    clear(this.small);
    const small: HTMLElement[] = [];
    const buttons = [...this.bar.querySelectorAll("button")];
    const rooms = buttons.map((part) => part.clientWidth - INDENT);
    this.pen.font = getComputedStyle(buttons[0] ?? this.bar).font;
    buttons.forEach((part, at) => {
      const { state, meaning } = part.dataset;
      const text = [meaning, part.textContent!, state!].find((text) => text && this.pen.measureText(text).width <= rooms[at]);
      if (text) part.textContent = text;
      if (text) return;
      part.textContent = "";
      const mark = stateMark(state!);
      mark.append(` ${part.title.split(" · ")[0].slice(state!.length + 1)}`);
      small.push(mark);
    });
    this.small.append(...small.slice(0, 3));
  }

  private showBefore(before: Sums | null, now: Sums, selection: Selection): void {
    this.before.hidden = !before;
    if (!before) return;
    const idle = selection.idle ? -1 : this.data.states.indexOf("idle");
    const states = [...before.states.keys()].filter((state) => state !== idle && before.states[state] > 0).sort((a, b) => now.states[b] - now.states[a]);
    const bar = el("div", { class: "total-bar" }, ...states.map((state) => {
      const part = el("i", { title: `A: ${this.data.states[state]} ${percent(before.states[state], before.whole)}` });
      part.style.width = `${(100 * before.states[state]) / before.whole}%`;
      part.style.background = stateColour(this.data.states[state]);
      return part;
    }));
    this.before.replaceChildren(el("span", { text: `A: ${amount(before.whole, before.set.unit)}` }), bar);
  }
}
