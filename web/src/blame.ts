// What the main thread's time went to, through its waits for other threads: a sentence, and the tables behind it.

import { Blame, BlameCause, BlameChain, Data } from "./data";
import { el } from "./dom";
import { duration, percent } from "./format";
import { shortFunction, withFile } from "./functions";
import { Store } from "./selection";
import { Table } from "./table";

/** Chains, and states, of less are no part of a sentence. */
const [LEAST_CHAIN, LEAST] = [0.1, 0.03];
/** Sentences. */
const MOST = 3;

/** Neighbours of one name are one member of the chain. */
function names(cause: BlameCause): string[] {
  return cause.chain.filter((name, at) => at === 0 || name !== cause.chain[at - 1]);
}

/** `by rustc` after being preempted, `for socket` after a wait. */
const byOrFor = (state: string, target: string) => `${state === "preempted" ? "by" : "for"} ${target}`;

/** `preempted by rustc`. */
export function stateOf({ state, target }: { state: string; target: string | null }): string {
  return target ? `${state} ${byOrFor(state, target)}` : state;
}

/** `main waits for worker, which waits for feeder`. */
function chainWords(names: string[]): string {
  const [first, ...others] = names;
  return `${first}${others.map((name, at) => `${at === 0 ? " waits" : ", which waits"} for ${name}`).join("")}`;
}

/** `on CPU 52 % (crunch 50 %)`: the function, or what was waited for, where it is most of it. Shares are of all the time. */
function stateWords(data: Data, { state, ns, target, function: fn }: BlameChain["states"][number], total: number): string {
  const isMost = (of: [string, number] | null) => of !== null && of[1] >= ns / 3;
  const share = (of: [string, number]) => (of[1] >= ns * 0.95 ? "" : ` ${percent(of[1], total)}`);
  const more = [
    target && isMost(target) ? byOrFor(state, target[0]) + share(target) : "",
    fn && isMost(fn) ? `in ${shortFunction(data, fn[0])}${share(fn)}` : "",
  ].filter(Boolean);
  return `${state} ${percent(ns, total)}${more.length ? ` (${more.join(", ")})` : ""}`;
}

/** For each chain with a tenth of the time: `93 % g++ → cc1plus: preempted 48 % (by rustc 30 %), on CPU 45 %`. */
export function sentences(data: Data, { chains, total_ns: total }: Blame): string[] {
  const shown = chains.filter((chain) => chain.ns >= total * LEAST_CHAIN).slice(0, MOST);
  return shown.map((chain) => {
    const states = chain.states.filter((state) => state.ns >= total * LEAST).slice(0, 4).map((state) => stateWords(data, state, total));
    return `${chainWords(chain.names)} ${percent(chain.ns, total)}${states.length ? `: ${states.join(", ")}` : ""}`;
  });
}

/** Whose time the sentences are about. */
export function whose(blame: Blame): string {
  return `wall-clock time of ${blame.threads.map((thread) => `${thread.comm} ${thread.tid}`).join(", ")}, ${duration(blame.total_ns)}, through its waits for other threads`;
}

export class BlameView {
  readonly box = el("div", { class: "pane" });

  constructor(data: Data, blame: Blame, store: Store) {
    const total = blame.total_ns;
    const unknown = blame.without_evidence_ns > 0 ? ` · ${percent(blame.without_evidence_ns, total)} without evidence` : "";
    const rest = total - blame.causes.reduce((sum, cause) => sum + cause.ns, 0);
    const smaller = rest > 0 ? ` · smaller causes not listed: ${duration(rest)}` : "";
    const known = new Set(data.names);
    const causes = new Table<BlameCause>("causes", [
      { title: "time", class: "n", sort: (cause) => cause.ns, cell: (cause) => duration(cause.ns) },
      { title: "%", class: "n", cell: (cause) => percent(cause.ns, total) },
      { title: "thread", sort: (cause) => cause.thread, cell: (cause) => cause.thread },
      { title: "state", sort: (cause) => cause.state, cell: stateOf },
      { title: "function", class: "name", sort: (cause) => cause.function, cell: (cause) => `${withFile(data, cause.function)}${cause.line ? ` (${cause.line})` : ""}` },
      { title: "waited for through", class: "wide", cell: (cause) => (cause.chain.length > 1 ? names(cause).join(" → ") : "itself") },
    ], (cause) => { if (known.has(cause.function)) store.change({ focus: cause.function, zoom: [], tab: "flame" }); });
    causes.show([...blame.causes]);
    const chains = new Table<BlameChain>("chains of waits", [
      { title: "time", class: "n", sort: (chain) => chain.ns, cell: (chain) => duration(chain.ns) },
      { title: "%", class: "n", cell: (chain) => percent(chain.ns, total) },
      { title: "chain", sort: (chain) => chain.names.join(), cell: (chain) => chainWords(chain.names) },
      { title: "what the last one did", class: "name", cell: (chain) => chain.states.slice(0, 5).map((state) => stateWords(data, state, total)).join(" · ") },
    ], () => undefined);
    chains.show([...blame.chains]);
    this.box.append(el("p", { class: "note", text: `${whose(blame)}, whole recording${unknown}${smaller}` }), chains.box, el("h3", { text: "By function — a click shows it" }), causes.box);
    if (blame.waits.length === 0) return;
    this.box.append(el("h3", { text: "Who waited for whom on the way, of the same time" }));
    this.box.append(el("ul", {}, ...blame.waits.map((edge) => el("li", { text: `${edge.thread} → ${edge.waited_for}: ${duration(edge.ns)}, ${percent(edge.ns, total)}` }))));
  }
}
