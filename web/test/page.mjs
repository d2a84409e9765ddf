// Tries the page in a real browser: node test/page.mjs BROWSER TALLY FOLDER. A line per check: "ok …" or "FAILED …".
import { chromium } from "playwright-core";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const [browserPath, tally, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const check = (what, holds, seen = "") => console.log(holds ? `ok ${what}` : `FAILED ${what}${seen === "" ? "" : `: ${seen}`}`);
const run = (args) => execFileSync(tally, args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });

async function open(file, { width = 1280, height = 800, scheme = "light", scale = 1, hash = "", script = true } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, deviceScaleFactor: scale, javaScriptEnabled: script });
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("console", (message) => { if (message.type() === "error") page.problems.push(message.text()); });
  page.on("request", (request) => { if (!/^(file|blob|data):/.test(request.url())) page.problems.push(`request of ${request.url()}`); });
  await page.goto(`file://${file}${hash}`);
  if (script) await page.waitForFunction(() => document.documentElement.dataset.ready, null, { timeout: 20000 });
  return page;
}
const dataset = (page) => page.evaluate(() => ({ ...document.documentElement.dataset }));

/** Stacks whose sums are known, as a folded file. */
function folded() {
  let seed = 7;
  const random = (most) => { seed = (seed * 1103515245 + 12345) & 0x7fffffff; return seed % most; };
  const lines = [];
  let [all, matching] = [0, 0];
  for (let i = 0; i < 20000; i++) {
    const path = ["app"];
    for (let depth = 0; depth < 4 + random(20); depth++) path.push(random(23) === 0 ? `parse_${random(40)}` : `step_${depth}_${random(12)}`);
    const count = 1 + random(9);
    lines.push(`${path.join(";")} ${count}`);
    all += count;
    if (path.some((name) => name.includes("parse"))) matching += count;
  }
  writeFileSync(join(folder, "known.folded"), lines.join("\n") + "\n");
  return matching / all;
}

async function searchShare() {
  const truth = folded();
  const file = join(folder, "known.html");
  run(["flame", "--html", file, "known.folded"]);
  for (const width of [420, 800, 1280, 2200]) {
    const page = await open(file, { width, hash: "#search=parse" });
    const { found } = await dataset(page);
    check(`the search share is the truth in ${width} px`, Math.abs(Number(found) - truth) < 1e-9, `${found}, truth ${truth}`);
    check(`the page runs without errors in ${width} px`, page.problems.length === 0, page.problems.join("; "));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    check(`nothing is wider than a window of ${width} px`, wide <= 0, `${wide} px too wide`);
    await page.context().close();
  }
}

async function deepStacks() {
  const path = Array.from({ length: 2000 }, (_, depth) => `frame_${depth}`).join(";");
  writeFileSync(join(folder, "deep.folded"), `${path} 5\n`);
  const file = join(folder, "deep.html");
  run(["flame", "--html", file, "deep.folded"]);
  const page = await open(file, { scale: 2 });
  const seen = await page.evaluate(() => {
    const canvas = document.querySelector("#pane-flame canvas");
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let drawn = 0;
    for (let at = 3; at < pixels.length; at += 4) if (pixels[at] > 0) drawn++;
    return { height: canvas.height, drawn, scroll: document.querySelector("#pane-flame .flame").scrollHeight };
  });
  check("2,000 frames on a dense screen are drawn on a canvas no taller than the window", seen.height <= 1600 && seen.drawn > 10000 && seen.scroll > 30000, JSON.stringify(seen));
  await page.context().close();
}

async function hostileNames() {
  const bad = "</script><img src=x onerror=document.title=1>";
  writeFileSync(join(folder, "bad.folded"), `${bad};__proto__;constructor;"quote' 3\n`);
  const file = join(folder, "bad.html");
  run(["flame", "--html", file, "bad.folded"]);
  const page = await open(file, { hash: "#tab=functions" });
  const images = await page.evaluate(() => document.images.length);
  const shown = await page.locator('#pane-functions [title*="<img src=x onerror=document.title=1>"]').count();
  check("hostile names stay text", images === 0 && shown > 0 && page.problems.length === 0, `${images} ${page.problems}`);
  await page.context().close();
}

/** A program that runs, waits for a lock and sleeps, recorded here if that is allowed. */
function recordWall() {
  const program = `import threading, time
lock = threading.Lock()
def work():
    for i in range(60):
        with lock:
            sum(range(20000)); time.sleep(0.002)
threads = [threading.Thread(target=work) for i in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
`;
  writeFileSync(join(folder, "work.py"), program);
  try {
    run(["run", "-o", "wall.data", "--html", "wall.html", "--", "python3", "work.py"]);
  } catch (error) {
    console.log(`skipped: can't record here: ${String(error.stderr ?? error).split("\n")[0]}`);
    return false;
  }
  return existsSync(join(folder, "wall.html"));
}

async function keyWalk(file) {
  const page = await open(file);
  const tabs = await page.locator("[role=tab]").allTextContents();
  const shown = [];
  for (let at = 1; at <= Math.min(9, tabs.length); at++) {
    await page.keyboard.press(String(at));
    const pane = page.locator("[role=tabpanel]:visible");
    shown.push((await pane.count()) === 1 && (await pane.boundingBox()).height > 40 && (await pane.textContent()).length + (await pane.locator("canvas").count()) > 0);
  }
  check("every tab opens by its key", tabs.length >= 7 && shown.every(Boolean), `${tabs}: ${shown}`);
  await page.keyboard.press("1");
  for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
  const zoomed = await page.evaluate(() => location.hash);
  check("arrows and Enter zoom, and the address has the names", /zoom=\w/.test(zoomed), zoomed);
  await page.goBack();
  check("Back takes the zoom away", !(await page.evaluate(() => location.hash)).includes("zoom="));
  await page.goForward();
  await page.keyboard.press("0");
  for (const key of ["s", "i", "u", "o", "g", "[", "]", "t", "w"]) await page.keyboard.press(key);
  check("w opens the waits", (await page.evaluate(() => location.hash)).includes("tab=waits"));
  await page.keyboard.press("/");
  await page.keyboard.type("(");
  check("a broken pattern is reported", (await page.locator(".found.error").textContent()).length > 5);
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  check("? lists the keys", await page.locator("dialog").isVisible());
  check("the key walk runs without errors and requests", page.problems.length === 0, page.problems.join("; "));
  await page.context().close();
}

async function roles(file) {
  const page = await open(file);
  const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, select, [tabindex='0']")]
    .filter((node) => !node.closest("[hidden]") && !(node.getAttribute("aria-label") || node.textContent.trim() || node.title || node.labels?.length)).map((node) => node.outerHTML.slice(0, 80)));
  check("every control has a name", nameless.length === 0, nameless.join(" "));
  const found = await page.evaluate(() => ["banner", "main", "status"].map((role) => document.querySelector({ banner: "header", main: "main", status: "[role=status]" }[role]) !== null)
    .concat(document.querySelector("[role=status]").getAttribute("aria-live") === "polite", document.querySelectorAll("[role=tab][aria-selected=true]").length === 1));
  check("landmarks, tabs and the live status are there", found.every(Boolean), String(found));
  await page.keyboard.press("ArrowDown");
  check("the cursor's path is a tree", (await page.locator("[role=tree] [role=treeitem]").count()) > 0);
  await page.context().close();
}

/** The brush has the sums of the same span in the text report. */
async function brush(file) {
  const page = await open(file);
  const about = await page.evaluate(() => JSON.parse(document.getElementById("about").textContent));
  const set = about.data.sets.find((set) => !set.wall);
  const begin = BigInt(about.begin_ns);
  const seconds = (tick) => { const ns = begin + BigInt(tick) * BigInt(about.data.tick_ns); return `${ns / 1000000000n}.${String(ns % 1000000000n).padStart(9, "0")}`; };
  for (const [a, b] of [[0.1, 0.35], [0.4, 0.9]]) {
    const span = [Math.round(about.data.ticks * a), Math.round(about.data.ticks * b)];
    const at = span.map((tick) => ((tick * about.data.tick_ns) / 1e9).toFixed(6));
    await page.evaluate((hash) => { location.hash = hash; }, `of=${encodeURIComponent(set.name)}&span=${at.join("-")}`);
    await page.waitForTimeout(50);
    await page.reload();
    await page.waitForFunction(() => document.documentElement.dataset.ready);
    const { total } = await dataset(page);
    const text = run(["report", "--stdio", "--no-children", "-g", "none", "-s", "comm", "--show-total-period", "--time", `${seconds(span[0])},${seconds(span[1])}`, "-i", "wall.data"]);
    const section = text.split(/^# Samples:/m).find((part) => part.includes(`'${set.name}'`)) ?? "";
    const period = [...section.matchAll(/^\s+[\d.]+%\s+(\d+)/gm)].reduce((sum, match) => sum + Number(match[1]), 0);
    check(`a span's sum is that of report --time (${at.join(" to ")} s)`, period > 0 && Number(total) === period, `${total} on the page, ${period} in the report`);
  }
  await page.context().close();
}

async function looks(file) {
  for (const [what, opts] of [["dark", { scheme: "dark" }], ["narrow", { width: 420, height: 800 }], ["wide", { width: 2200, height: 1200 }]]) {
    const page = await open(file, opts);
    const { back, wide } = await page.evaluate(() => ({ back: getComputedStyle(document.body).backgroundColor, wide: document.documentElement.scrollWidth - innerWidth }));
    const isRight = what === "dark" ? back === "rgb(20, 23, 27)" : wide <= 0;
    check(`the page is right when ${what}`, isRight && page.problems.length === 0, `${back} ${wide} ${page.problems}`);
    await page.context().close();
  }
  const page = await open(file);
  const pdf = await page.pdf({ landscape: true, format: "A4", printBackground: true });
  const pages = (pdf.toString("latin1").match(/\/Type\s*\/Page\b/g) ?? []).length;
  check("the page prints on at most three sheets", pages >= 1 && pages <= 3, `${pages} sheets`);
  await page.context().close();
  const plain = await open(file, { script: false });
  const text = await plain.locator("noscript").count() ? await plain.locator("main.plain").innerText() : "";
  check("without a script there are findings and tables", /function/.test(text) && /self/.test(text), text.slice(0, 80));
  await plain.context().close();
}

/** Two recordings on one page: the numbers are those of the text. */
async function comparison() {
  const recordings = fileURLToPath(new URL("../../tests/recordings/", import.meta.url));
  const [before, after] = ["chains.data", "switches.data"].map((name) => join(recordings, name));
  const symfs = ["--symfs", join(recordings, "root")];
  const file = join(folder, "diff.html");
  run(["diff", ...symfs, "--html", file, before, after]);
  const text = run(["diff", ...symfs, "-t", "|", "-q", "--sort", "symbol", before, after]);
  for (const scheme of ["light", "dark"]) {
    const page = await open(file, { scheme, hash: "#tab=compare" });
    const row = page.locator("#pane-compare tbody tr:not(.gap)").first();
    const cells = await row.locator("td").allTextContents();
    const line = text.split("\n").find((line) => line.trimEnd().endsWith(` ${cells[8]}`)) ?? "";
    const [shown, wanted] = [cells[2].replace("−", "-").replace(/ points$/, ""), line.split("|")[1]?.trim().replace("%", "")];
    check(`the greatest change is that of tally diff (${scheme})`, shown === wanted, `${cells} on the page, ${line} in the text`);
    check(`both sides are whole (${scheme})`, Math.abs(Number((await dataset(page)).total) - 2e9) < 1e4, (await dataset(page)).total);
    await row.click();
    const focused = await page.evaluate(() => location.hash);
    await page.goBack();
    const before = await page.evaluate(() => location.hash);
    check(`a click selects a function, and Back drops it (${scheme})`, focused.includes("focus=") && !before.includes("focus="), `${focused} ${before}`);
    await page.keyboard.press("1");
    for (const key of ["ArrowDown", "s", "i", "c", "Escape"]) await page.keyboard.press(key);
    check(`a comparison runs without errors (${scheme})`, page.problems.length === 0, page.problems.join("; "));
    await page.context().close();
  }
}

await searchShare();
await comparison();
await deepStacks();
await hostileNames();
if (recordWall()) {
  const file = join(folder, "wall.html");
  for (const part of [keyWalk, roles, brush, looks]) await part(file);
  const size = readFileSync(file).length;
  check("the page of a short recording is small", size < 400000, `${size} bytes`);
}
await browser.close();
