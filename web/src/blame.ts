// What the main thread's time went to, through its waits for other threads: a sentence, and the tables behind it.

import { Blame, BlameCause, Data } from "./data";
import { el } from "./dom";
import { duration, percent } from "./format";
import { Store } from "./selection";
import { Table } from "./table";

/** Causes of less are no part of a sentence. */
const LEAST = 0.05;
/** A sentence that explains less explains nothing. */
const ENOUGH = 0.25;

/** Neighbours of one name are one member of the chain. */
function names(cause: BlameCause): string[] {
  return cause.chain.filter((name, at) => at === 0 || name !== cause.chain[at - 1]);
}

function stateOf({ state, target }: BlameCause): string {
  return target ? `${state} ${state === "preempted" ? "by" : "for"} ${target}` : state;
}

/** `on CPU in crunch 52 %`; shares are of all the time. */
function words(cause: BlameCause, total: number): string {
  return `${stateOf(cause)}${cause.function ? ` in ${cause.function}` : ""} ${percent(cause.ns, total)}`;
}

/** `main waits for worker, which waits for feeder: on CPU in crunch 52 %`: the chain with most time, and what it ends with. */
export function sentence({ causes, total_ns: total }: Blame): string {
  const key = (cause: BlameCause) => names(cause).join("\n");
  const sums = new Map<string, number>();
  for (const cause of causes) sums.set(key(cause), (sums.get(key(cause)) ?? 0) + cause.ns);
  const [most] = [...sums].sort((a, b) => b[1] - a[1]);
  if (!most) return "";
  const of = causes.filter((cause) => key(cause) === most[0] && !cause.lacks_evidence);
  const ends = of.filter((cause) => cause.ns >= total * LEAST).slice(0, 3);
  if (ends.reduce((sum, cause) => sum + cause.ns, 0) < total * ENOUGH) return "";
  const [first, ...others] = most[0].split("\n");
  const chain = others.map((name, at) => `${at === 0 ? "waits" : "which waits"} for ${name}`).join(", ");
  return `${first}${chain ? ` ${chain}` : ""}: ${ends.map((cause) => words(cause, total)).join(" · ")}`;
}

export class BlameView {
  readonly box = el("div", { class: "pane" });

  constructor(data: Data, blame: Blame, store: Store) {
    const total = blame.total_ns;
    const whose = blame.threads.map((thread) => `${thread.comm} ${thread.tid}`).join(", ");
    const unknown = blame.without_evidence_ns > 0 ? ` · ${percent(blame.without_evidence_ns, total)} without evidence` : "";
    const rest = total - blame.causes.reduce((sum, cause) => sum + cause.ns, 0);
    const smaller = rest > 0 ? ` · smaller causes not listed: ${duration(rest)}` : "";
    const known = new Set(data.names);
    const causes = new Table<BlameCause>("causes", [
      { title: "time", class: "n", sort: (cause) => cause.ns, cell: (cause) => duration(cause.ns) },
      { title: "%", class: "n", cell: (cause) => percent(cause.ns, total) },
      { title: "thread", sort: (cause) => cause.thread, cell: (cause) => cause.thread },
      { title: "state", sort: (cause) => cause.state, cell: stateOf },
      { title: "function", class: "name", sort: (cause) => cause.function, cell: (cause) => `${cause.function}${cause.line ? ` (${cause.line})` : ""}` },
      { title: "waited for through", class: "wide", cell: (cause) => (cause.chain.length > 1 ? names(cause).join(" → ") : "itself") },
    ], (cause) => { if (known.has(cause.function)) store.change({ focus: cause.function, zoom: [], tab: "flame" }); });
    causes.show([...blame.causes]);
    this.box.append(el("p", { class: "note", text: `Wall-clock time of ${whose}, ${duration(total)}, whole recording: where it went through the waits for other threads${unknown}${smaller} · a click shows the function` }), causes.box);
    if (blame.waits.length === 0) return;
    this.box.append(el("h3", { text: "Who waited for whom on the way, of the same time" }));
    this.box.append(el("ul", {}, ...blame.waits.map((edge) => el("li", { text: `${edge.thread} → ${edge.waited_for}: ${duration(edge.ns)}, ${percent(edge.ns, total)}` }))));
  }
}
