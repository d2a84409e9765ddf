// Opens a profile in speedscope itself, lets it write what it has read, and prints the sum of each kind of value.
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
  for (const read of written.profiles) {
    const kind = /\(([^()]*)\)$/.exec(read.name)?.[1] ?? read.name;
    let sum = 0;
    if (read.type === "sampled") for (const weight of read.weights) sum += weight;
    else sum = read.endValue - read.startValue;
    sums.set(kind, (sums.get(kind) ?? 0) + sum);
  }
  for (const [kind, sum] of sums) console.log(`${Math.round(sum)} ${kind}`);
} finally {
  await browser.close();
}
