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

function textsOf(column) {
  const texts = [];
  let before = Buffer.alloc(0);
  for (let at = 0; at < column.length; ) {
    const number = () => {
      let [value, scale, byte] = [0, 1, 128];
      while (byte >= 128) {
        byte = column[at++];
        value += (byte & 127) * scale;
        scale *= 128;
      }
      return value;
    };
    const [shared, length] = [number(), number()];
    before = Buffer.concat([before.subarray(0, shared), column.subarray(at, at + length)]);
    at += length;
    texts.push(before.toString());
  }
  return texts;
}

/** Threads, then for each set a line per stack and state: amount, samples, items, stack; sorted. */
export function unpacked(page) {
  const { data } = JSON.parse(element(page, "about"));
  const columns = columnsOf(page);
  const next = () => columns.shift();
  const names = textsOf(next());
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
  for (const set of data.sets) {
    const [placeFrames, states, places, threads, begins, lengths, amounts, counts] = [varints(next()), [...next()], ...Array.from({ length: 6 }, () => varints(next()))];
    next();
    let frame = 0;
    const nodes = placeFrames.map((step) => (frame += step % 2 ? -(step + 1) / 2 : step / 2));
    const sums = new Map();
    amounts.forEach((amount, item) => {
      const place = places.length ? places[item] : item;
      const key = `${data.states[states[place]] ?? "-"} ${stacks[nodes[place]]}`;
      const sum = sums.get(key) ?? [0, 0, 0];
      sums.set(key, [sum[0] + amount, sum[1] + counts[item], sum[2] + 1]);
    });
    const items = threads.filter((_, at) => at % 2).reduce((sum, count) => sum + count, 0);
    lines.push(`set ${set.name} in ${set.unit}: ${items} items, ${begins.filter((begin) => begin > 0).length} with a time, ${lengths.filter((length) => length > 0).length} with a length`);
    lines.push(...[...sums].map(([key, [amount, samples, count]]) => `${amount} ${samples} ${count} ${key}`).sort());
  }
  return `${lines.join("\n")}\n`;
}
