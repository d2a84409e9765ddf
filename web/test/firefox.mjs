// Opens a profile with the Firefox Profiler's own command, and prints the value of each stack, kind by kind.
// node firefox.mjs PROFILER_CLI PROFILE MOST_THREADS; status 3: it doesn't start in time, or there are more threads.
import { spawnSync } from "node:child_process";

const TRIES = 4;
const [command, profile, most] = process.argv.slice(2);
const ask = (...args) => spawnSync(command, args, { encoding: "utf8", maxBuffer: 1 << 30 });
const answer = (...args) => {
  const run = ask(...args, "--json");
  if (run.status !== 0) throw new Error(`${args.join(" ")}: ${run.stderr}`);
  return JSON.parse(run.stdout);
};

// Its server has half a second to begin, which is too little on a busy machine.
const begin = () => ask("load", profile).status === 0;
try {
  if (![...Array(TRIES)].some(begin)) process.exit(3);
  const { threads } = answer("thread", "list");
  if (threads.length > Number(most)) process.exit(3);
  for (const { threadHandle, name } of threads) {
    const kind = / \(([^()]*)\)$/.exec(name)?.[1] ?? name;
    const tree = answer(
      ...["thread", "samples-top-down", "--thread", threadHandle, "--include-idle", "--max-lines", "1000000"],
    );
    // Times are in ms.
    const factor = tree.weightType === "tracing-ms" ? 1e6 : 1;
    const nodes = [{ path: [], node: tree.regularCallTree }];
    while (nodes.length > 0) {
      const { path, node } = nodes.pop();
      const own = Math.round(node.selfSamples * factor);
      if (own > 0) console.log(`${own}\t${kind}\t${path.join(";")}`);
      for (const child of node.children ?? []) {
        nodes.push({ path: [...path, child.name.replaceAll(";", ":")], node: child });
      }
    }
  }
} finally {
  ask("stop", "--all");
}
