// Opens a profile in speedscope itself, lets it write what it has read, and prints the sum of each stack.
// node speedscope.mjs BROWSER INDEX_HTML PROFILE
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";

const [executablePath, index, profile] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  await page.goto(`file://${index}`);
  await page.locator("input[type=file]").first().setInputFiles(profile);
  const button = page.getByText("Export", { exact: false }).first();
  await button.waitFor({ timeout: 60000 });
  const download = page.waitForEvent("download");
  await button.click();
  const written = JSON.parse(readFileSync(await (await download).path(), "utf8"));
  const sums = new Map();
  const frames = written.shared.frames.map((frame) => frame.name.replaceAll(";", ":"));
  const add = (kind, stack, value) => {
    const key = `${kind}\t${stack.map((frame) => frames[frame]).join(";")}`;
    sums.set(key, (sums.get(key) ?? 0) + value);
  };
  for (const read of written.profiles) {
    const kind = /\(([^()]*)\)$/.exec(read.name)?.[1] ?? read.name;
    if (read.type === "sampled") {
      read.samples.forEach((stack, at) => add(kind, stack, read.weights[at]));
      continue;
    }
    const stack = [];
    let since = read.startValue;
    for (const { type, frame, at } of read.events) {
      if (at > since) add(kind, stack, at - since);
      since = at;
      if (type === "O") stack.push(frame);
      else stack.pop();
    }
    if (read.endValue > since) add(kind, stack, read.endValue - since);
  }
  for (const [stack, sum] of sums) console.log(`${Math.round(sum)}\t${stack}`);
} finally {
  await browser.close();
}
