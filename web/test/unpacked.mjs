// The data of a page as text, read by docs/formats/page.md and not by the page's own script.
import { inflateRawSync } from "node:zlib";

function varints(bytes) {
  const values = [];
  for (let at = 0; at < bytes.length; ) {
    let [value, scale, byte] = [0, 1, 128];
    while (byte >= 128) {
      byte = bytes[at++];
      value += (byte & 127) * scale;
      scale *= 128;
    }
    values.push(value);
  }
  return values;
}

/** The columns, each a buffer. */
function columnsOf(page) {
  const bytes = inflateRawSync(Buffer.from(element(page, "columns"), "base64"));
  const columns = [];
  for (let at = 0; at < bytes.length; ) {
    let [length, scale, byte] = [0, 1, 128];
    while (byte >= 128) {
      byte = bytes[at++];
      length += (byte & 127) * scale;
      scale *= 128;
    }
    columns.push(bytes.subarray(at, at + length));
    at += length;
  }
  return columns;
}

const element = (page, id) => new RegExp(`<script type="[^"]*" id="${id}">(.*?)</script>`, "s").exec(page)[1];

function textsOf(shared, others, bytes) {
  let [before, at] = [Buffer.alloc(0), 0];
  return shared.map((same, text) => {
    before = Buffer.concat([before.subarray(0, same), bytes.subarray(at, at + others[text])]);
    at += others[text];
    return before.toString();
  });
}

/** A page's texts. */
export const aboutOf = (page) => JSON.parse(inflateRawSync(Buffer.from(element(page, "about"), "base64")).toString());

const signed = (step) => (step % 2 ? -(step + 1) / 2 : step / 2);

/** The items that have a time and no length. */
function samplesOf({ each, threads, begins, lengths }) {
  const thread = threads.flatMap((thread, at) => (at % 2 ? Array(thread).fill(threads[at - 1]) : []));
  const samples = [];
  let since = 0;
  begins.forEach((begin, item) => {
    since = begin + (item > 0 && thread[item] === thread[item - 1] ? since : 0);
    if (since > 0 && lengths[item] === 0) samples.push({ place: each[item], thread: thread[item], since });
  });
  return samples;
}

/** Threads, then for each set a line per stack and state: amount, samples, items, longest, stack; sorted. */
export function unpacked(page) {
  const { data } = aboutOf(page);
  const columns = columnsOf(page);
  const next = () => columns.shift();
  const names = textsOf(varints(next()), varints(next()), next());
  const kinds = [...next()];
  next();
  const [ups, frames] = [varints(next()), varints(next())];
  next();
  const stacks = [];
  const open = [];
  ups.forEach((up, at) => {
    open.length = Math.max(0, open.length - up);
    open.push(`${names[frames[at]]}/${kinds[frames[at]]}`);
    stacks.push(open.slice(1).join(";"));
  });
  const lines = data.threads.map((thread) => `thread ${thread.comm} ${thread.from}-${thread.to}${thread.idle ? " idle" : ""}`);
  let samples = null;
  for (const set of data.sets) {
    let [placeFrames, states, places, threads, begins, lengths] = [varints(next()), [...next()], ...Array.from({ length: 4 }, () => varints(next()))];
    const [waits, others, counts] = Array.from({ length: 3 }, () => varints(next()));
    next();
    const longer = varints(next());
    let frame = 0;
    let each = lengths.map((_, item) => (places.length ? places[item] : item));
    let where = placeFrames.map((step, place) => [(frame += signed(step)), states[place]]);
    each = each.map((place) => where[place]);
    if (set.alike) {
      each = [...samples.map((sample) => sample.place), ...each];
      begins = [...samples.map((sample) => sample.since), ...begins];
      lengths = [...samples.map(() => 0), ...lengths];
      threads = [...samples.flatMap((sample) => [sample.thread, 1]), ...threads];
    }
    const amounts = lengths.map((length) => (length > 0 ? waits : others).shift());
    const ticks = lengths.map((length, item) => (length > 0 ? Math.ceil(amounts[item] / data.tick_ns) + signed(length - 1) : 0));
    const alike = ticks.length - (longer.length || ticks.length);
    const longest = ticks.map((length, item) => Math.min(length, Math.floor(amounts[item] / data.tick_ns)) + signed(longer[item - alike] ?? 0));
    samples ??= samplesOf({ each, threads, begins, lengths });
    const sums = new Map();
    amounts.forEach((amount, item) => {
      const [node, state] = each[item];
      const key = `${data.states[state] ?? "-"} ${stacks[node]}`;
      const sum = sums.get(key) ?? [0, 0, 0, 0];
      sums.set(key, [sum[0] + amount, sum[1] + counts[item], sum[2] + 1, Math.max(sum[3], longest[item])]);
    });
    const items = threads.filter((_, at) => at % 2).reduce((sum, count) => sum + count, 0);
    lines.push(`set ${set.name} in ${set.unit}: ${items} items, ${begins.filter((begin) => begin > 0).length} with a time, ${ticks.filter((length) => length > 0).length} with a length`);
    lines.push(...[...sums].map(([key, [amount, samples, count, longest]]) => `${amount} ${samples} ${count} ${longest} ${key}`).sort());
  }
  return `${lines.join("\n")}\n`;
}
