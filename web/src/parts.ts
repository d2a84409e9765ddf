// The parts of a program: callers that divide its time among them.

import { Data, Kind } from "./data";
import { isStart } from "./stacks";
import { Sums } from "./sums";
import { isNamed } from "./waits";

/** Shares of the whole: of a part at least, of a caller of nearly everything, and of what is left to its callees at least. */
const [LEAST, NEARLY_ALL, LEFT] = [0.04, 0.85, 0.6];

/** Functions and their amounts of a state with all that they call, most first: below callers of nearly everything. */
export function partsOf(data: Data, { set, cells, cell }: Sums, wanted: number): [string, number][] {
  const { parent, end, nodeName, names, kinds } = data;
  const total = new Float64Array(parent.length);
  for (let at = 0; at < cell.length; at++) {
    const place = cells.place[at];
    if (set.placeState[place] === wanted) total[set.placeNode[place]] += cell[at];
  }
  for (let node = total.length - 1; node > 0; node--) total[parent[node]] += total[node];
  const whole = total[0];
  const parts = new Map<string, number>();
  const open = [0];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    const name = names[nodeName[node]];
    const hasName = node !== 0 && kinds[nodeName[node]] !== Kind.Task && isNamed(name) && !isStart(name);
    const below: number[] = [];
    let rest = 0;
    for (let child = node + 1; child < end[node]; child = end[child]) {
      if (kinds[nodeName[child]] === Kind.Kernel || total[child] < whole * LEAST) continue;
      below.push(child);
      rest += total[child];
    }
    if (below.length && (!hasName || (total[node] >= whole * NEARLY_ALL && rest >= total[node] * LEFT))) open.push(...below);
    else if (hasName) parts.set(name, (parts.get(name) ?? 0) + total[node]);
  }
  return [...parts].sort((a, b) => b[1] - a[1]);
}
