// Measures pages and pictures in a real browser: node test/bench.mjs BROWSER TALLY FOLDER [TOOLS as JSON [SIZES]].
// Each time is a median in ms of script by the clock; in brackets the mean time that the page's main thread was on a CPU
// for it, painting included: that is the one to compare where other programs run. First paint and load are the best of five
// loads in turn with the other pictures, from the navigation: first paint is the browser's entry "first-contentful-paint",
// load is the end of the frame in which all is drawn. A page of tally shows its head and the widest frames first.
import { chromium } from "playwright-core";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { folded, recorded, tree } from "./made.mjs";
import { converted, convertedTimes, loadable, speedscopeTimes } from "./peers.mjs";

const [browserPath, tally, folder, given, sizes] = process.argv.slice(2);
const tools = given ? JSON.parse(given) : {};
mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox", "--allow-file-access-from-files", "--enable-unsafe-swiftshader"] });

const row = (cells) => console.log(`| ${cells.join(" | ")} |`);
const ms = (value) => (value === null ? "–" : value < 10 ? value.toFixed(1) : value.toFixed(0));
const both = (pair) => (pair === null ? "–" : `${ms(pair[0])} (${ms(pair[1])})`);
const NOTHING = { load: null, hover: null, zoom: null, search: null, brush: null };
/** The times of a page that is closed after. */
async function timesOf(measured) {
  const page = await open();
  const seen = await measured(page).catch((error) => console.log(`skipped: ${error.message.split("\n")[0]}`));
  await page.context().close();
  return seen ?? NOTHING;
}
/** Loads of each file. */
const LOADS = 5;

/** From the navigation to the first paint and to the frame with all, and CPU time: the best of some loads, all files in turn. */
async function openings(files) {
  const seen = files.map(() => ({ paint: [], load: [], cpu: [] }));
  for (let load = 0; load < LOADS; load++) {
    for (const [at, file] of files.entries()) {
      const page = await open();
      const times = await page.goto(pathToFileURL(file).href).then(() => page.evaluate(() => drawn)).catch(() => [Infinity, Infinity]);
      seen[at].paint.push(times[0]);
      seen[at].load.push(times[1]);
      seen[at].cpu.push(await page.cpuMs().catch(() => Infinity));
      await page.context().close();
    }
  }
  const best = (values) => (Math.min(...values) === Infinity ? null : Math.min(...values));
  return seen.map(({ paint, load, cpu }) => ({ paint: best(paint), load: [best(load), best(cpu)] }));
}
const megabytes = (file) => `${(statSync(file).size / 1e6).toFixed(2)} MB`;

async function open() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(120000);
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  page.cpuMs = async () => 1000 * (await session.send("Performance.getMetrics")).metrics.find((metric) => metric.name === "TaskDuration").value;
  /** The median of an action's script, and the CPU time of one. */
  page.timed = async (act, times) => {
    const before = await page.cpuMs();
    const script = await page.evaluate(act);
    return script === null ? null : [script, ((await page.cpuMs()) - before) / times];
  };
  await page.addInitScript(() => {
    // A page of tally sets `ready` when it is built; others draw before they are loaded.
    const ended = async () => {
      while (document.getElementById("code") && !document.documentElement.dataset.ready) await new Promise((done) => setTimeout(done));
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      const load = performance.now();
      const paint = await new Promise((done) => {
        new PerformanceObserver((list) => list.getEntriesByName("first-contentful-paint").forEach((entry) => done(entry.startTime))).observe({ type: "paint", buffered: true });
        setTimeout(() => done(Infinity), 60000);
      });
      return [paint, load];
    };
    window.drawn = new Promise((done) => addEventListener("load", () => ended().then(done)));
    // Script of one action until it returns: the median of `times`, each drawn before the next.
    window.measure = async (act, times) => {
      const seen = [];
      for (let at = 0; at < times; at++) {
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        const start = performance.now();
        act(at);
        seen.push(performance.now() - start);
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      }
      return seen.sort((a, b) => a - b)[times >> 1];
    };
    window.fire = (node, type, more) => node.dispatchEvent(new MouseEvent(type, { bubbles: true, ...more }));
  });
  return page;
}

/** A page of tally: until it is drawn, hover, zoom, search, and a drag over the threads. */
async function ours(file) {
  const page = await open();
  await page.goto(pathToFileURL(file).href);
  await page.waitForFunction(() => document.documentElement.dataset.ready);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const hover = await page.timed(() => {
    const canvas = document.querySelector("#pane-flame canvas");
    const box = canvas.getBoundingClientRect();
    return measure((at) => fire(canvas, "mousemove", { clientX: box.left + 40 + at * 150, clientY: box.top + 50 + at * 19 }), 8);
  }, 8);
  const zoom = await page.timed(() => {
    const canvas = document.querySelector("#pane-flame canvas");
    const box = canvas.getBoundingClientRect();
    return measure((at) => fire(canvas, "click", { clientX: box.left + 30, clientY: box.top + (at % 2 ? 8 : 28) }), 8);
  }, 8);
  const search = await page.timed(() => {
    const input = document.querySelector("input[type=search]");
    return measure((at) => { input.value = "parse".slice(0, 1 + at); input.dispatchEvent(new Event("input")); }, 5);
  }, 5);
  const brush = await page.timed(() => {
    const canvas = document.querySelector(".strip-area canvas");
    if (!canvas) return null;
    const input = document.querySelector("input[type=search]");
    input.value = "";
    input.dispatchEvent(new Event("input"));
    const box = canvas.getBoundingClientRect();
    const [y, pointerId] = [box.top + 60, 1];
    canvas.setPointerCapture = () => {};
    canvas.dispatchEvent(new PointerEvent("pointerdown", { clientX: box.left + 100, clientY: y, button: 0, pointerId }));
    // The drag is applied in a frame of its own: its time is the page's own number.
    const seen = [];
    return (async () => {
      for (let at = 0; at < 9; at++) {
        canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + 200 + at * 70, clientY: y, pointerId }));
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        seen.push(Number(document.documentElement.dataset.updateMs));
      }
      canvas.dispatchEvent(new PointerEvent("pointerup", { pointerId }));
      return seen.sort((a, b) => a - b)[4];
    })();
  }, 9);
  await page.context().close();
  return { hover, zoom, search, brush };
}

/** A picture of rectangles in groups: tally's own, flamegraph.pl's or inferno's. */
async function picture(page, file) {
  await page.goto(pathToFileURL(file).href);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const zoom = await page.timed(() => {
    const frames = [...document.querySelectorAll("#frames > *, .func_g")];
    const wide = frames.filter((frame) => frame.getBoundingClientRect().width > 60).slice(1);
    return measure((at) => fire(wide[(at * 7 + 3) % wide.length].querySelector("rect") ?? wide[0], "click"), 5);
  }, 5).catch(() => null);
  const hover = await page.timed(() => {
    const frames = [...document.querySelectorAll("#frames > *, .func_g")];
    return measure((at) => fire(frames[(at * 37) % frames.length].querySelector("rect"), "mouseover"), 5);
  }, 5).catch(() => null);
  // All frames, as in the others: a search in a zoomed picture looks at few.
  await page.evaluate(async () => {
    fire(document.getElementById("unzoom") ?? document.getElementById("reset"), "click");
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  }).catch(() => null);
  const search = await page.timed(() => {
    const texts = ["p", "pa", "par", "pars", "parse"];
    if (typeof window.search === "function") return measure((at) => window.search(texts[at]), 5);
    const button = document.getElementById("search");
    return button ? measure((at) => { window.prompt = () => texts[at]; fire(button, "click"); }, 5) : null;
  }, 5).catch(() => null);
  return { hover, zoom, search, brush: null };
}

function line(what, file, opened, seen) {
  row([what, megabytes(file), ms(opened.paint), both(seen.load ?? opened.load), both(seen.hover), both(seen.zoom), both(seen.search), both(seen.brush)]);
}

{
  // What a plain loop costs beside whatever else runs here, to judge the other numbers by: about 60 ms when nothing does.
  const page = await open();
  await page.goto("about:blank");
  const loop = await page.evaluate(() => measure(() => { let sum = 0; for (let i = 0; i < 1e8; i++) sum = (sum + i * 7) | 0; return sum; }, 3));
  console.log(`100 M steps of a loop: ${ms(loop)} ms`);
  await page.context().close();
}
row(["picture", "file", "first paint", "load", "hover", "zoom", "search", "brush"]);
row(Array(8).fill("---"));
{
  // The browser's own part of each first paint below.
  const file = join(folder, "empty.html");
  writeFileSync(file, "<!DOCTYPE html><meta charset=utf-8><title>empty</title><p>empty</p>");
  line("a page with one word", file, (await openings([file]))[0], NOTHING);
}

/** Writes the pictures of as many frames: names, files, and how the times of each are measured. */
function pictures(nodes) {
  const made = tree(nodes);
  const name = `${nodes / 1000}k`;
  const stacks = join(folder, `${name}.folded`);
  if (!existsSync(stacks)) writeFileSync(stacks, folded(made));
  const html = join(folder, `${name}.html`);
  execFileSync(tally, ["flame", "--html", html, stacks]);
  const all = [[`tally page, ${name} frames`, html, () => ours(html)]];
  if (nodes >= 100000) {
    const file = join(folder, `${name}-samples.html`);
    writeFileSync(file, recorded(readFileSync(html, "utf8"), made, 8, 1000000));
    all.push([`tally page, ${name} frames, 1 M samples`, file, () => ours(file)]);
  }
  const svg = join(folder, `${name}.svg`);
  execFileSync(tally, ["flame", "-o", svg, stacks]);
  all.push([`tally SVG, ${name}`, svg, () => timesOf((page) => picture(page, svg))]);
  for (const [tool, command] of Object.entries(tools)) {
    const path = join(folder, `${name}-${tool.replace(/\W/g, "")}`);
    if (tool === "speedscope") {
      const file = loadable(stacks, `${path}.js`);
      all.push([`${tool}, ${name}`, file, () => timesOf((page) => speedscopeTimes(page, command[0], file))]);
    } else if (tool === "jfrconv") {
      const file = converted(command[0], stacks, `${path}.html`);
      all.push([`async-profiler, ${name}`, file, () => timesOf((page) => convertedTimes(page, file))]);
    } else {
      const file = `${path}.svg`;
      writeFileSync(file, execFileSync(command[0], [...command.slice(1), stacks], { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }));
      all.push([`${tool}, ${name}`, file, () => timesOf((page) => picture(page, file))]);
    }
  }
  return all;
}

for (const nodes of (sizes ?? "1000,20000,100000,200000").split(",").map(Number)) {
  const all = pictures(nodes);
  // speedscope opens a script in its own page.
  const own = all.filter(([, file]) => !file.endsWith(".js"));
  const opened = new Map((await openings(own.map(([, file]) => file))).map((times, at) => [own[at][1], times]));
  for (const [what, file, measured] of all) line(what, file, opened.get(file) ?? { paint: null, load: null }, await measured());
}
await browser.close();
