// Tries the page in a real browser: node test/page.mjs BROWSER TALLY FOLDER. A line per check: "ok …" or "FAILED …".
import { chromium } from "playwright-core";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { waiting } from "./made.mjs";
import { aboutOf, unpacked } from "./unpacked.mjs";

const [browserPath, tally, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const check = (what, holds, seen = "") => console.log(holds ? `ok ${what}` : `FAILED ${what}${seen === "" ? "" : `: ${seen}`}`);
const run = (args) => execFileSync(tally, args, { cwd: folder, encoding: "utf8", maxBuffer: 1 << 27, stdio: ["ignore", "pipe", "pipe"] });
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
  // Rows that are not seen are laid out soon after.
  await page.waitForFunction(() => document.querySelector("#pane-flame .flame").scrollHeight > 30000, null, { timeout: 10000 }).catch(() => undefined);
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

/** Functions that call each other in a circle are there once, as in the picture. */
async function circles() {
  writeFileSync(join(folder, "circle.folded"), "app;a;b;a;b;a;b;c 4\n");
  const file = join(folder, "circle.html");
  run(["flame", "--html", file, "circle.folded"]);
  run(["flame", "-o", join(folder, "circle.svg"), "circle.folded"]);
  for (const [hash, wanted] of [["", 4], ["#unfold=recursion", 8]]) {
    const page = await open(file, { hash });
    for (let at = 0; at < 8; at++) await page.keyboard.press("ArrowDown");
    const path = await page.locator("[role=tree] [role=treeitem]").allTextContents();
    check(`a circle of calls has ${wanted} frames with the address "${hash}"`, path.length === wanted && path.at(-1).includes("c"), path.join(" | "));
    await page.context().close();
  }
  const picture = readFileSync(join(folder, "circle.svg"), "utf8");
  check("the picture notes the repeats of a circle", picture.includes("<title>b ×3\n4 samples, 100.00 %, repeats up to 3 times"));
}

/** The data of pages of own recordings is that of the committed texts; GOLDEN=update writes them. */
function goldens() {
  const root = fileURLToPath(new URL("../../tests/", import.meta.url));
  writeFileSync(join(folder, "small.folded"), "app;main;parse 5\napp;main;parse;read_[k] 2\napp;main 1\n");
  const pages = {
    stacks: ["flame", "--html", "golden.html", "small.folded"],
    chains: ["report", "-q", "--html", "golden.html", "--symfs", join(root, "recordings/root"), "-i", join(root, "recordings/chains.data")],
    waits: ["report", "-q", "--html", "golden.html", "--kallsyms", "/dev/null", "--symfs", join(root, "recordings/root"), "-i", join(root, "golden/timeline/wait.data")],
    requests: ["io", "--html", "golden.html", "-i", join(root, "golden/io-requests/io.data")],
    comparison: ["diff", "--html", "golden.html", "--symfs", join(root, "recordings/root"), join(root, "recordings/chains.data"), join(root, "recordings/switches.data")],
  };
  for (const [name, args] of Object.entries(pages)) {
    run(args);
    // A machine that runs the kernel of the recording names the functions of its vdso.
    const text = unpacked(readFileSync(join(folder, "golden.html"), "utf8")).replace(/__vdso_\w+/g, "[vdso]");
    const file = fileURLToPath(new URL(`golden/${name}.txt`, import.meta.url));
    if (process.env.GOLDEN === "update") writeFileSync(file, text);
    const wanted = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
    const at = text.split("\n").findIndex((line, at) => line !== wanted[at]);
    check(`the data of the page of ${name} is the committed one`, text === wanted.join("\n"), `line ${at + 1}: ${text.split("\n")[at]}, committed ${wanted[at]}`);
  }
}

/** In a narrow window names lose their middle, not their end, and every tab has room. */
async function narrowNames() {
  const method = `a_name_of_a_class_with_many_words_that_needs_more_room_than_there_is_at_all::last`;
  writeFileSync(join(folder, "names.folded"), `app;JS:*fib /home/a user/app.js:1:13;make.<locals>.inner (x.py);std::map<int, char>::find;${method} 3\n`);
  const file = join(folder, "names.html");
  run(["flame", "--html", file, "names.folded"]);
  const page = await open(file, { width: 700, hash: "#tab=functions" });
  const cells = await page.locator("#pane-functions tbody td.name").evaluateAll((cells) => cells.map((cell) => ({ text: cell.textContent, cut: cell.scrollWidth > cell.clientWidth })));
  const texts = cells.map((cell) => cell.text);
  check("names in 700 px keep their end", cells.length === 5 && cells.every((cell) => !cell.cut) && texts.some((text) => /^\S*….*::last$/.test(text)), JSON.stringify(cells));
  check("Python's functions inside functions keep their names", texts.some((text) => text.startsWith("make.<locals>.inner")) && texts.includes("std::map<…>::find"), JSON.stringify(texts));
  check("functions of JavaScript have their file without its path", texts.includes("fib app.js:1"), JSON.stringify(texts));
  const wide = await page.locator(".tabs").evaluate((tabs) => tabs.scrollWidth - tabs.clientWidth);
  check("all tabs have room in 700 px", wide <= 0, `${wide} px too wide`);
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

/** The answers in words leave room for the graph, also where there are three findings. */
async function graphInView(file) {
  const page = await open(file);
  const seen = await page.evaluate(() => ({ top: document.querySelector(".flame canvas").getBoundingClientRect().top, foot: document.querySelector(".status").getBoundingClientRect().top }));
  check("four rows of the graph are in view without scrolling", seen.foot - seen.top >= 80, JSON.stringify(seen));
  await page.context().close();
}

/** Blame on the page is that of the text, and the sentence ends at its greatest cause. */
async function blamed(file) {
  const page = await open(file, { hash: "#tab=blame" });
  const about = aboutOf(readFileSync(file, "utf8"));
  // The page follows another thread where the main one mostly sleeps.
  const followed = ["--thread", String(about.path.end.tid), "--json", "-i", "wall.data"];
  const wanted = JSON.parse(run(["report", "--blame", ...followed]));
  const row = await page.locator("#pane-blame table").nth(1).locator("tbody tr:not(.gap)").first().innerText();
  const note = await page.locator("#pane-blame .note").innerText();
  const why = await page.locator(".why").count() ? await page.locator(".why a").allTextContents() : [];
  const sum = (values) => values.reduce((all, value) => all + value, 0);
  const cause = wanted.causes[0];
  const has = (text) => [cause.state, cause.function, cause.thread].every((word) => text.includes(word));
  check("Blame begins with the greatest cause of the text", has(row) && note.includes(wanted.threads[0].comm), `${row}; ${note}; ${JSON.stringify(cause)}`);
  const { chains, total_ns: total } = about.blame;
  check("chains and their states add up to the thread's time", sum(chains.map((chain) => chain.ns)) === wanted.total_ns && chains.every((chain) => sum(chain.states.map((state) => state.ns)) === chain.ns), JSON.stringify(chains.slice(0, 2)));
  check("the sentences are those of the chains with a tenth of the time", why.length === Math.min(3, chains.filter((chain) => chain.ns >= total / 10).length) && why.length > 0 && why.every((text, at) => chains[at].names.every((name) => text.includes(name)) && text.includes(chains[at].states[0].state)), why.join(" | "));
  const line = await page.evaluate(() => { const [name, text] = document.querySelectorAll(".why > :not([hidden])"); return text.getBoundingClientRect().top - name.getBoundingClientRect().top; });
  check("the first sentence is in the line of Why", Math.abs(line) < 4, `${line} px`);
  await path(page, about, sum, followed);
  check("Blame runs without errors", page.problems.length === 0, page.problems.join("; "));
  await page.context().close();
}

/** The critical path is that of the text, and a pointer on its strip names the thread. */
async function path(page, about, sum, followed) {
  const wanted = JSON.parse(run(["report", "--critical-path", ...followed]));
  const { pieces, names, begin_ns: begin } = about.path;
  const parts = pieces.flatMap((numbers) => Array.from({ length: numbers.length / 5 }, (_, at) => numbers.slice(at * 5, at * 5 + 5)));
  const of = (rows, state, ns) => sum(rows.filter((row) => state(row).startsWith("on CPU")).map(ns));
  const seen = [sum(parts.map((part) => part[4])), of(parts, (part) => names[part[1]], (part) => part[4])];
  const text = [sum(wanted.pieces.map((piece) => piece.to_ns - piece.from_ns)), of(wanted.parts, (part) => part.state, (part) => part.ns)];
  check("the strip of the critical path has the time and states of the text", seen[0] === text[0] && Math.abs(seen[1] - text[1]) < text[0] * 0.1 && pieces.length <= 300 && begin >= 0, `${seen}; text ${text}`);
  const box = await page.locator(".strips canvas").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 32);
  const status = await page.locator(".status").innerText();
  const threads = about.data.threads.map((thread) => `${thread.comm} ${thread.tid}`);
  check("a pointer on the critical path names thread and length", / of the critical path/.test(status) && threads.some((thread) => status.includes(thread)), status);
}

/** ns of a text like "1.23 ms". */
function nsOf(text) {
  const [, number, unit] = /^([\d.,]+) (ns|µs|ms|s)/.exec(text) ?? [0, "0", "ns"];
  return Number(number.replaceAll(",", "")) * { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 }[unit];
}
/** As near as three digits are. */
const isNear = (shown, wanted) => Math.abs(shown - wanted) <= Math.max(1, wanted * 0.006);
const rowsOf = (page, table) => page.locator(`${table} tbody tr:not(.gap)`).evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
/** Focuses a button and presses Enter, as someone without a mouse does. */
async function pressed(page, button) {
  await page.locator(button).first().focus();
  await page.keyboard.press("Enter");
}

/** Each picture has its numbers as a table, which a keyboard opens. */
async function tables(file) {
  const page = await open(file);
  await pressed(page, ".strips .link");
  const [head] = await page.locator(".strips .table thead tr").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
  const rows = await rowsOf(page, ".strips .table");
  const { threads } = JSON.parse(run(["report", "--wall", "--json", "-i", "wall.data"]));
  const column = (cells, name) => nsOf(cells[head.indexOf(name)] ?? "");
  const wrong = threads.rows.slice(0, 8).filter(({ tid, times }) => {
    const cells = rows.find(([name]) => name.endsWith(` ${tid}`)) ?? [];
    const wanted = { "on CPU": times.on_cpu_ns, preempted: times.preempted_ns, runnable: times.runnable_ns, idle: times.idle_ns, ...times.blocked_ns };
    return Object.entries(wanted).some(([state, ns]) => !isNear(column(cells, state), ns));
  });
  check("the threads' table has the times of report --wall", rows.length > 3 && head.length > 4 && wrong.length === 0, JSON.stringify([head, rows.slice(0, 4), wrong]));
  check("the table is in place of the picture", (await page.locator(".strip-body").isHidden()) && (await page.locator(".strips .link").first().getAttribute("aria-pressed")) === "true");
  await pressed(page, ".strips .link");
  check("the picture comes back", (await page.locator(".strip-body").isVisible()) && (await page.locator(".strips .table").isHidden()));
  const { total } = await dataset(page);
  await pressed(page, ".sticky > .link");
  const frames = await rowsOf(page, "#pane-flame .table");
  check("the flame graph's table begins with all of the selected time", frames.length > 10 && frames[0][4] === "all" && isNear(nsOf(frames[0][0]), Number(total)), JSON.stringify([total, frames.slice(0, 3)]));
  check("tables run without errors", page.problems.length === 0, page.problems.join("; "));
  await page.context().close();
  await heatTable(file);
  await knownFrames();
}

/** A row of the heat map's table is the sum of the span that it selects. */
async function heatTable(file) {
  const { data } = aboutOf(readFileSync(file, "utf8"));
  const event = data.sets.find((set) => !set.wall).name;
  const page = await open(file, { hash: `#of=${encodeURIComponent(event)}&tab=heat` });
  await page.locator("#pane-heat select").selectOption("");
  await pressed(page, "#pane-heat .link");
  await page.locator("#pane-heat thead button").filter({ hasText: /^all$/ }).click();
  const [row] = await rowsOf(page, "#pane-heat .table");
  await page.locator("#pane-heat tbody tr:not(.gap)").first().press("Enter");
  const { total } = await dataset(page);
  check("a row of the heat map's table has the sum of its span", Number(total) > 0 && isNear(nsOf(row[1]), Number(total)) && (await page.evaluate(() => location.hash)).includes("span="), `${row}; ${total}`);
  await page.context().close();
}

async function knownFrames() {
  writeFileSync(join(folder, "frames.folded"), "app;main;parse 5\napp;main;parse;lex 2\napp;main 1\n");
  const file = join(folder, "frames.html");
  run(["flame", "--html", file, "frames.folded"]);
  const page = await open(file);
  await pressed(page, ".sticky > .link");
  const rows = async () => (await rowsOf(page, "#pane-flame .table")).map((cells) => [cells[0], cells[2], cells[3]].join(" ")).join(", ");
  const all = await rows();
  await page.locator("#pane-flame tbody tr").filter({ hasText: "parse" }).press("Enter");
  check("the flame graph's table has every frame with its samples, and Enter zooms", all === "8 0 all, 8 1 app, 8 2 main, 7 3 parse, 2 4 lex" && (await rows()) === "7 3 parse, 2 4 lex", `${all}; ${await rows()}`);
  await page.context().close();
}

/** Who waited for whom is what flame --wakers has; a pointer on a wait names and marks the thread that ended it. */
async function wakers(file) {
  const sums = new Map();
  for (const line of run(["flame", "--wakers", "--folded", "-i", "wall.data"]).split("\n")) {
    const [, stack, ns] = /^(.*) (\d+)$/.exec(line) ?? [];
    const to = /;\[woken by ([^\]]*)\]/.exec(stack ?? "")?.[1];
    if (to === undefined || !/;\[(GIL|futex)\];/.test(stack)) continue;
    // Folded stacks have no spaces.
    sums.set(to, (sums.get(to) ?? 0) + Number(ns));
  }
  const page = await open(file, { hash: "#tab=waits&states=GIL,futex" });
  // The page has the names that Python gives its threads.
  const seen = new Map();
  for (const cells of await rowsOf(page, "#pane-waits .table:last-child")) {
    const to = cells[4].slice(2).replaceAll(" ", "_");
    seen.set(to, (seen.get(to) ?? 0) + nsOf(cells[0]));
  }
  const isSame = seen.size === sums.size && [...seen].every(([to, ns]) => isNear(ns, sums.get(to) ?? 0));
  check("who waited for whom is what flame --wakers has", isSame && seen.size > 0, JSON.stringify([...seen, ...sums]));
  await pointed(page, file);
  await page.context().close();
}

/** Waits of a length are those of the text, and the same however they are selected. */
async function waitLengths(file) {
  const text = (least) => run(["flame", "--off-cpu", "--folded", "--min-block", least, "-i", "wall.data"]).split("\n").reduce((sum, line) => sum + (Number(/ (\d+)$/.exec(line)?.[1]) || 0), 0);
  for (const [least, ns] of [["1ms", 1e6], ["5ms", 5e6], ["20ms", 20e6]]) {
    const page = await open(file, { hash: `#waits=${ns}-` });
    const [wanted, { total }] = [text(least), await dataset(page)];
    check(`waits of at least ${least} on the page are those of --min-block`, Number(total) === wanted && wanted > 0, `${total}, the text has ${wanted}`);
    await page.context().close();
  }
  const page = await open(file, { hash: "#tab=latency" });
  const totalOf = async () => Number((await dataset(page)).total);
  const choices = await page.locator("#pane-latency .choice button").allTextContents();
  check("Latency offers lengths", choices.join(", ") === "any length, 100 µs, 1 ms, 5 ms, 10 ms, 100 ms, 1 s", choices.join(", "));
  await page.locator("#pane-latency .choice button", { hasText: "5 ms" }).click();
  const long = await totalOf();
  check("a button of Latency selects long waits", long === text("5ms"), `${long}`);
  const sides = await page.locator("#pane-latency .note").first().textContent();
  const rows = await page.locator("#pane-latency .table tbody tr:not(.gap)").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
  // Not all rows are drawn.
  const isShare = ([time, share]) => Math.abs(parseFloat(share) - (100 * nsOf(time)) / long) < 0.6;
  check("Latency shows where these waits and all others were", /5.00 ms or longer: (.*?s)\./.test(sides) && isNear(nsOf(/longer: (.*?s)\./.exec(sides)[1]), long) && rows.length > 2 && rows.every(isShare), `${sides} ${JSON.stringify(rows.slice(0, 8))}`);
  await page.goBack();
  const lengths = page.locator("#pane-latency .card").first().locator("button.length");
  await lengths.first().click();
  const one = await totalOf();
  await lengths.last().click({ modifiers: ["Shift"] });
  const [all, hash] = [await totalOf(), await page.evaluate(() => location.hash)];
  check("a click on a length selects it, with shift up to another", one > 0 && all > one && /waits=\d+-\d+/.test(hash) && (await page.locator("#pane-latency button.length[aria-pressed=true]").count()) === (await lengths.count()), `${one} ${all} ${hash}`);
  check("Latency runs without errors", page.problems.length === 0, page.problems.join("; "));
  await page.context().close();
}

/** A pointer on the longest wait names the thread that ended it, and marks its strip where that is one. */
async function pointed(page, file) {
  const about = aboutOf(readFileSync(file, "utf8"));
  const { longest } = JSON.parse(run(["report", "--wall", "--json", "-i", "wall.data"]));
  const names = await page.locator(".strips .thread").evaluateAll((names) => names.map((name) => Number(name.dataset.tid)));
  const wait = longest.find(({ tid, waker }) => waker && names.includes(tid));
  const box = await page.locator(".strips canvas").boundingBox();
  const thread = await page.locator(`.strips .thread[data-tid="${wait.tid}"]`).boundingBox();
  const middle = (wait.at_ns + wait.length_ns / 2) / about.data.tick_ns / about.data.ticks;
  await page.mouse.move(box.x + middle * box.width, thread.y + thread.height / 2);
  const status = await page.locator(".status").innerText();
  const long = nsOf(/ for ([\d.,]+ \S+)/.exec(status)?.[1] ?? "");
  check("a pointer on the longest wait names its length and the thread that ended it", isNear(long, wait.length_ns) && status.includes(`ended by ${wait.waker.name}`), `${status}; ${JSON.stringify(wait).slice(0, 200)}`);
  const marked = await page.locator(".wake").evaluate((mark) => (mark.hidden ? "" : mark.dataset.to));
  check("a mark is at the thread that ended it or nowhere", marked === "" || Number(marked) === wait.waker.tid, `${marked}; ${wait.waker.tid}`);
}

/** The brush has the sums of the same span in the text report. */
async function brush(file) {
  const page = await open(file);
  const about = aboutOf(readFileSync(file, "utf8"));
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
    const isMarked = await page.locator(".why i").isVisible();
    check("answers of the whole recording are marked while a span is selected", isMarked);
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
  check("the first view makes room for the page", (await page.locator("main.first").count()) === 0, "it is still there");
  const pdf = await page.pdf({ landscape: true, format: "A4", printBackground: true });
  const pages = (pdf.toString("latin1").match(/\/Type\s*\/Page\b/g) ?? []).length;
  check("the page prints on at most three sheets", pages >= 1 && pages <= 3, `${pages} sheets`);
  await page.context().close();
  const plain = await open(file, { script: false });
  const text = await plain.locator("noscript").count() ? await plain.locator("main.plain").innerText() : "";
  check("without a script there are tables", /function/.test(text) && /self/.test(text), text.slice(0, 80));
  const first = plain.locator("main.first");
  const bar = await first.locator("svg svg").evaluateAll((cells) => cells.reduce((sum, cell) => sum + cell.getBoundingClientRect().width, 0));
  const [width, heading] = [await first.locator("> svg").evaluate((svg) => svg.getBoundingClientRect().width), await first.locator("h1").innerText()];
  check("without a script there are a heading and the states' shares", heading.length > 0 && Math.abs(bar - width) < 2, `${heading}: ${bar} of ${width} px`);
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
    const heads = page.locator("#pane-compare thead button");
    const order = () => page.locator("#pane-compare tbody tr:not(.gap)").evaluateAll((rows) => rows.map((row) => row.cells[8].textContent).join());
    const fresh = await order();
    for (const head of ["function", "self before", "change"]) await heads.filter({ hasText: new RegExp(`^${head}$`) }).first().click();
    check(`rows of equal change have one order (${scheme})`, (await order()) === fresh, `${await order()}; ${fresh}`);
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

/** Colours as the page draws them: contrast of their ink, and how far apart they are for readers who see fewer colours. */
async function colours(file) {
  for (const scheme of ["light", "dark"]) {
    const page = await open(file, { scheme });
    const parts = await page.evaluate(() => [...document.querySelectorAll(".states .bar button")].map((part) => ({ state: part.dataset.state, back: getComputedStyle(part).backgroundColor, ink: getComputedStyle(part).color })));
    const text = await page.evaluate(() => [".facts", ".status", ".tabs button", ".note", ".thread"].map((name) => document.querySelector(name)).filter(Boolean).map((node) => ({ state: node.className, back: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(node).color })));
    const poor = [...parts, ...text].filter(({ back, ink }) => contrast(rgb(back), rgb(ink)) < 4.5);
    check(`ink has a contrast of 4.5 to 1 (${scheme})`, parts.length > 2 && poor.length === 0, JSON.stringify(poor));
    await page.context().close();
  }
  const source = readFileSync(fileURLToPath(new URL("../src/palette.ts", import.meta.url)), "utf8");
  for (const name of ["LIGHT", "DARK"]) {
    const table = new RegExp(`const ${name}[^=]*= \\{(.*?)\\};`, "s").exec(source)[1];
    const all = [...table.matchAll(/(\w+): "(#[0-9a-f]{6})"/g)].map(([, state, hex]) => [state, [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16))]);
    for (const [sight, matrix] of Object.entries(SIGHTS)) {
      const close = [];
      all.forEach(([a, x], at) => all.slice(at + 1).forEach(([b, y]) => {
        const far = distance(lab(seen(x, matrix)), lab(seen(y, matrix)));
        // Preempted has stripes, and idle is left out unless it is asked for.
        if (far < 12 && ![a, b].includes("preempted")) close.push(`${a} ${b} ${far.toFixed(1)}`);
      }));
      check(`states are apart in ${name.toLowerCase()} colours with ${sight}`, all.length === 10 && close.length === 0, close.join(", "));
    }
  }
}

// Viénot, Brettel and Mollon 1999, on linear RGB.
const SIGHTS = {
  "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  deuteranopia: [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
  protanopia: [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
};
const rgb = (text) => text.match(/[\d.]+/g).slice(0, 3).map(Number);
const linear = (value) => (value <= 10.31475 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
const luminance = (colour) => [0.2126, 0.7152, 0.0722].reduce((sum, part, at) => sum + part * linear(colour[at]), 0);
const contrast = (a, b) => { const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y); return (high + 0.05) / (low + 0.05); };
/** Linear RGB as a reader sees it. */
const seen = (colour, matrix) => matrix.map((row) => Math.max(0, Math.min(1, row.reduce((sum, part, at) => sum + part * linear(colour[at]), 0))));
function lab([r, g, b]) {
  const xyz = [0.4124 * r + 0.3576 * g + 0.1805 * b, 0.2126 * r + 0.7152 * g + 0.0722 * b, 0.0193 * r + 0.1192 * g + 0.9505 * b];
  const [x, y, z] = xyz.map((value, at) => value / [0.95047, 1, 1.08883][at]).map((value) => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116));
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}
const distance = (a, b) => Math.hypot(...a.map((value, at) => value - b[at]));

/** Own time and the functions that divide it, as named at first sight: those of the same stacks as text. */
async function parts() {
  const program = `volatile unsigned long sum;
__attribute__((noinline)) void spin(unsigned long n) { for (unsigned long i = 0; i < n; i++) sum += i; }
__attribute__((noinline)) void alpha(void) { spin(400000000); sum++; }
__attribute__((noinline)) void beta(void) { spin(200000000); sum++; }
int main(void) { alpha(); beta(); return 0; }
`;
  writeFileSync(join(folder, "parts.c"), program);
  try {
    execFileSync("cc", ["-g", "-O1", "-o", "parts", "parts.c"], { cwd: folder, stdio: "ignore" });
    run(["run", "-o", "parts.data", "--html", "parts.html", "--", "./parts"]);
  } catch (error) {
    console.log(`skipped: can't compile or record here: ${String(error.stderr ?? error).split("\n")[0]}`);
    return;
  }
  const file = join(folder, "parts.html");
  const states = aboutOf(readFileSync(file, "utf8")).data.states.map((state) => `[${state}]`);
  const lines = run(["export", "--to", "folded", "--event", "wall", "--idle", "-i", "parts.data"]).trim().split("\n").map((line) => [line.slice(0, line.lastIndexOf(" ")).split(";"), Number(line.slice(line.lastIndexOf(" ") + 1))]);
  const running = lines.filter(([path]) => !states.includes(path.at(-1)));
  const sum = (of) => of.reduce((all, [, ns]) => all + ns, 0);
  const share = (isOf) => (100 * sum(running.filter(([path]) => isOf(path)))) / sum(running);
  const page = await open(file);
  const words = await page.locator(".why > *").allTextContents();
  const named = (line) => Object.fromEntries([...(words[words.indexOf(line) + 1] ?? "").matchAll(/(\w+) ([\d.]+) %/g)].map(([, name, percent]) => [name, Number(percent)]));
  const near = (shown, truth) => Math.abs(shown - truth) < 0.051;
  const [own, by] = [named("CPU time: "), named("By caller: ")];
  const truths = Object.fromEntries(["alpha", "beta"].map((name) => [name, share((path) => path.includes(name))]));
  check("functions that divide the CPU time have the shares of the text", truths.alpha > truths.beta && ["alpha", "beta"].every((name) => near(by[name], truths[name])), `${words.join("|")}; ${JSON.stringify(truths)}`);
  // It calls nothing: what is below is the kernel's work for it, or nobody's.
  const spin = share((path) => path.includes("spin") && !path.includes("[unknown]"));
  check("the function with most own time has the share of the text", near(own.spin, spin), `${words.join("|")}; ${spin}`);
  await page.context().close();
}

/** Lengths of waits: 30 sleeps of 5 ms and 10 of 40 ms. */
async function sleeps() {
  writeFileSync(join(folder, "sleeps.c"), "#include <unistd.h>\nint main(void) { for (int i = 0; i < 40; i++) usleep(i % 4 ? 5000 : 40000); return 0; }\n");
  try {
    execFileSync("cc", ["-g", "-O1", "-o", "sleeps", "sleeps.c"], { cwd: folder, stdio: "ignore" });
    run(["run", "-o", "sleeps.data", "--html", "sleeps.html", "--", "./sleeps"]);
  } catch (error) {
    console.log(`skipped: can't compile or record here: ${String(error.stderr ?? error).split("\n")[0]}`);
    return;
  }
  const page = await open(join(folder, "sleeps.html"), { hash: "#tab=waits&idle=1" });
  const rows = await page.locator("#pane-waits table").first().locator("tbody tr:not(.gap)").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
  const [, , waits, p50, p99] = rows.find((cells) => ["idle", "timer"].includes(cells[7])) ?? [];
  const ms = (text) => Number(/^([\d.]+) ms$/.exec(text)?.[1]);
  // A sleep is as long as it was asked for, and a little more until its timer fires.
  check("half of 40 sleeps took 5 ms, the longest 40 ms", waits === "40" && ms(p50) >= 5 && ms(p50) < 6 && ms(p99) >= 40, JSON.stringify(rows));
  await page.context().close();
}

/** After a drag there and back, the sums and the picture are those of the same span on a fresh page. */
async function drag(file, what = "") {
  const page = await open(file);
  const dragged = await page.evaluate(async () => {
    const canvas = document.querySelector(".strip-area canvas");
    const box = canvas.getBoundingClientRect();
    const [clientY, pointerId] = [box.top + 60, 1];
    canvas.setPointerCapture = () => {};
    const at = (part) => box.left + part * box.width;
    canvas.dispatchEvent(new PointerEvent("pointerdown", { clientX: at(0.4), clientY, button: 0, pointerId }));
    for (const part of [0.5, 0.8, 0.6, 0.9, 0.7]) {
      canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: at(part), clientY, pointerId }));
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    }
    canvas.dispatchEvent(new PointerEvent("pointerup", { pointerId }));
    await new Promise((done) => setTimeout(done, 400));
    return { total: document.documentElement.dataset.total, status: document.querySelector(".status").textContent, hash: location.hash, picture: document.querySelector("#pane-flame canvas").toDataURL() };
  });
  const fresh = await open(file, { hash: dragged.hash });
  await fresh.waitForTimeout(400);
  const [total, status, picture] = await fresh.evaluate(() => [document.documentElement.dataset.total, document.querySelector(".status").textContent, document.querySelector("#pane-flame canvas").toDataURL()]);
  check(`soon after a drag all frames are drawn${what}`, dragged.picture === picture && picture.length > 5000, `${dragged.picture.length} and ${picture.length} characters`);
  check(`a drag has the sums of a fresh page${what}`, Number(total) > 0 && dragged.total === total && dragged.status === status, `${dragged.total} ${dragged.status}; fresh ${total} ${status}`);
  await page.context().close();
  await fresh.context().close();
}

/** Two spans: early() ran in the first one only, late() in the second, steady() in both; the sums are those of report --time. */
async function spans() {
  const program = `import time
def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: sum(range(500))
def early(seconds): spin(seconds)
def late(seconds): spin(seconds)
def steady(seconds): spin(seconds)
for i in range(10): early(0.04); steady(0.04)
for i in range(10): late(0.04); steady(0.04)
`;
  writeFileSync(join(folder, "halves.py"), program);
  try {
    run(["record", "-q", "-g", "-o", "halves.data", "--", "python3", "halves.py"]);
  } catch (error) {
    console.log(`skipped: can't record here: ${String(error.stderr ?? error).split("\n")[0]}`);
    return;
  }
  run(["report", "--html", "halves.html", "-i", "halves.data"]);
  const file = join(folder, "halves.html");
  const about = aboutOf(readFileSync(file, "utf8"));
  const { tick_ns: tick } = about.data;
  // The samples as text tell where the halves begin.
  const samples = run(["script", "--ns", "-F", "time,ip,sym", "-i", "halves.data"]).split("\n\n").map((text) => [/(\d+)\.(\d{9}):/.exec(text), text]).filter(([time]) => time);
  const ns = ([, seconds, parts]) => BigInt(seconds) * 1000000000n + BigInt(parts);
  const ticks = (time) => Number((ns(time) - BigInt(about.begin_ns)) / BigInt(tick));
  const first = (name) => ticks(samples.find(([, text]) => text.includes(` ${name} `))[0]);
  const ends = [[first("early"), first("late")], [first("late"), ticks(samples.at(-1)[0])]];
  const [a, b] = ends.map((of) => of.map((at) => ((at * tick) / 1e9).toFixed(6)).join("-"));
  const page = await open(file, { hash: `#span=${a}` });
  await page.locator(".crumbs button", { hasText: "compare" }).click();
  const kept = await page.evaluate(() => [location.hash, document.querySelector(".strips h2").textContent, document.querySelector(".strip-area .base").hidden]);
  check("a selected span is kept as A", kept[0] === `#base=${a}` && kept[1].includes("span B") && kept[2] === false, kept.join(" "));
  const area = await page.locator(".strip-area canvas").boundingBox();
  await page.mouse.move(area.x + area.width * 0.6, area.y + 30);
  await page.mouse.down();
  await page.mouse.move(area.x + area.width * 0.7, area.y + 30, { steps: 3 });
  await page.mouse.move(area.x + area.width * 0.9, area.y + 30, { steps: 3 });
  await page.mouse.up();
  await page.waitForFunction(() => location.hash.includes("span="));
  const dragged = await page.evaluate(() => ({ hash: location.hash, hidden: [...document.querySelectorAll(".strip-area .span")].map((box) => box.hidden), crumbs: document.querySelector(".crumbs").innerText }));
  check("a drag selects B, and both are in the address and marked", dragged.hash.includes(`base=${a}`) && dragged.hidden.every((hidden) => !hidden) && /A: .*B: /s.test(dragged.crumbs), JSON.stringify(dragged));
  const fresh = await open(file, { hash: `#tab=functions&base=${a}&span=${b}&search=early%7Clate%7Csteady` });
  const seen = await dataset(fresh);
  const seconds = (at) => { const ns = BigInt(about.begin_ns) + BigInt(at) * BigInt(tick); return `${ns / 1000000000n}.${String(ns % 1000000000n).padStart(9, "0")}`; };
  const wanted = ends.map((of) => {
    const text = run(["report", "--stdio", "--no-children", "-g", "none", "-s", "comm", "--show-total-period", "--time", of.map(seconds).join(","), "-i", "halves.data"]);
    return [...text.matchAll(/^\s+[\d.]+%\s+(\d+)/gm)].reduce((sum, match) => sum + Number(match[1]), 0);
  });
  check("both sides have the sums of report --time", wanted.every((ns) => ns > 0) && Number(seen.base) === wanted[0] && Number(seen.total) === wanted[1], `${seen.base} ${seen.total}; ${wanted}`);
  await sidesOf(fresh, ends.map(([from, to]) => ((to - from) * tick) / 1e9));
  for (const key of ["Escape", "Escape"]) await fresh.keyboard.press(key);
  const once = await fresh.evaluate(() => location.hash);
  await fresh.keyboard.press("Escape");
  check("Escape drops B, then A, and Back brings them again", once.includes("base=") && !once.includes("span=") && !(await fresh.evaluate(() => location.hash)).includes("base=") && (await fresh.goBack(), await fresh.goBack(), await fresh.evaluate(() => location.hash)).includes(`span=${b}`), once);
  check("comparing spans runs without errors", page.problems.length + fresh.problems.length === 0, [...page.problems, ...fresh.problems].join("; "));
  await page.context().close();
  await fresh.context().close();
}

/** Short waits are summed by place: those that a wait represents were before it, since the one before in its place. */
async function shortWaits() {
  const file = join(folder, "short-waits.html");
  writeFileSync(file, waiting(readFileSync(join(folder, "known.html"), "utf8")));
  const totals = [];
  for (const hash of ["focus=seldom", "focus=seldom&span=0.0-1.0", "focus=seldom&span=1.0-2.0", "focus=often&span=0.0-1.0"]) {
    const page = await open(file, { hash: `#${hash}` });
    totals.push(Number((await dataset(page)).total) / 1e6);
    await page.context().close();
  }
  const [whole, first, second, often] = totals;
  check("short waits are spread since the wait before in their place, not since any other", whole === 950 && Math.abs(first - (949 * 1000) / 1900) < 0.1 && Math.abs(first + second - 950) < 1e-5 && often === 90.001, totals.join(" "));
}

/** The functions' table of two spans, per second and as they are. */
async function sidesOf(page, long) {
  const rows = async () => new Map((await rowsOf(page, "#pane-functions")).map((cells) => [/^(early|late|steady)\b/.exec(cells[6])?.[1] ?? cells[6], cells]));
  const second = await rows();
  const total = (rows, name) => [3, 4].map((column) => nsOf(rows.get(name)?.[column] ?? ""));
  const [early, late, steady] = ["early", "late", "steady"].map((name) => total(second, name));
  check("a function of one span is there only, one of both in both", early[0] > 0 && early[1] === 0 && late[0] === 0 && late[1] > 0 && steady.every((ns) => ns > 0) && [...second.values()][0].every((cell) => !cell.includes("NaN")), JSON.stringify([early, late, steady, [...second.values()].slice(0, 4)]));
  await page.keyboard.press("1");
  const colours = await page.evaluate(() => document.querySelector("#pane-flame .legend").textContent);
  await page.locator("#pane-flame .choice button", { hasText: "per span" }).click();
  await page.locator("#tab-functions").click();
  const whole = total(await rows(), "steady");
  check("amounts per span are those per second times its seconds", colours.includes("only in A") && whole.every((ns, side) => Math.abs(ns / long[side] - steady[side]) < steady[side] * 0.02), `${whole} ${steady} ${long}; ${colours}`);
  await page.goBack();
  await page.goBack();
  await page.goBack();
}

/** Labels of goroutines: frames where they are grouped by, and none elsewhere; their time is that of the text. */
async function labels() {
  const source = fileURLToPath(new URL("../../tests/programs/labels.go", import.meta.url));
  try {
    execFileSync("go", ["build", "-o", "labels", source], { cwd: folder, stdio: "ignore", env: { ...process.env, GOCACHE: join(folder, "go-cache") } });
    run(["run", "-F", "999", "-o", "labels.data", "--html", "labels.html", "--", "./labels", "400"]);
  } catch (error) {
    console.log(`skipped: no go that builds, or can't record here: ${String(error.stderr ?? error).split("\n")[0]}`);
    return;
  }
  const rows = (key) => JSON.parse(run(["report", "--wall", "--sort", key, "--json", "-i", "labels.data"])).labels.rows;
  const active = ({ times }) => times.total_ns - times.idle_ns;
  const routes = rows("label:route");
  const of = (label) => routes.find((row) => row.label === label);
  const [pay, list] = ["/pay", "/list"].map(of);
  if (!pay || !list) {
    console.log("skipped: labels of goroutines can't be read here");
    return;
  }
  const [a, b] = [pay, list].map(({ times }) => times.on_cpu_ns);
  check("the work with one label has twice the CPU time of that with the other", Math.abs(a / (a + b) - 2 / 3) < 0.07, `${a} ${b}`);
  const whole = run(["report", "--wall", "--json", "-i", "labels.data"]);
  const sum = (values) => values.reduce((all, value) => all + value, 0);
  check("all labels together have all of the wall clock", sum(routes.map(({ times }) => times.total_ns)) === JSON.parse(whole).times.total_ns, `${sum(routes.map(({ times }) => times.total_ns))}`);
  const file = join(folder, "labels.html");
  for (const [label, row] of [["route=/pay", pay], ["route=/list", list]]) {
    const page = await open(file, { hash: `#focus=${encodeURIComponent(label)}` });
    const { total } = await dataset(page);
    check(`stacks of ${label} on the page have its time`, Number(total) === active(row), `${total}, the text has ${active(row)}`);
    await page.context().close();
  }
  const page = await open(file);
  const line = await page.locator(".why").innerText();
  check("the first view has the labels with most time", /By label:[\s\S]*route=\/pay/.test(line), line);
  const frames = async () => (await rowsOf(page, "#pane-flame .table")).map((cells) => `${cells[2]} ${cells.at(-1)}`);
  await pressed(page, ".sticky > .link");
  const plain = await frames();
  await page.locator("#pane-flame .choice button", { hasText: /^labels$/ }).click();
  const grouped = await frames();
  check("labels are frames only where they are the groups", plain.length > 5 && !plain.some((text) => text.includes("route=")) && grouped.includes("1 route=/pay") && grouped.includes("2 user=7"), `${plain.slice(0, 5)}; ${grouped.slice(0, 5)}`);
  await page.locator("#tab-waits").click();
  const places = (await rowsOf(page, "#pane-waits .table")).map((cells) => cells.at(-1));
  check("labels are no places of waits", places.length > 0 && !places.some((place) => /route=|user=/.test(place)), places.slice(0, 5).join(" | "));
  check("labels run without errors", page.problems.length === 0, page.problems.join("; "));
  await page.context().close();
}

/** Lines of source with their shares: those of the text. */
async function source() {
  const program = "#include <stdint.h>\nvolatile uint64_t sum;\nint main(void) {\n  for (uint64_t i = 0; i < 300000000; i++)\n    sum += i ^ (i >> 3);\n  return 0;\n}\n";
  writeFileSync(join(folder, "spin.c"), program);
  try {
    execFileSync("cc", ["-g", "-O1", "-o", "spin", "spin.c"], { cwd: folder, stdio: "ignore" });
    run(["record", "-q", "-g", "-o", "spin.data", "--", "./spin"]);
  } catch (error) {
    console.log(`skipped: can't compile or record here: ${String(error.stderr ?? error).split("\n")[0]}`);
    return;
  }
  run(["report", "--html", "spin.html", "-i", "spin.data"]);
  const page = await open(join(folder, "spin.html"), { hash: "#tab=source" });
  await page.waitForSelector(".hot table");
  const first = await page.locator(".hot tr").first().locator("td").allTextContents();
  const code = await page.locator("#pane-source .code").innerText();
  check("the hottest line is the loop's", /^spin\.c:[45]$/.test(first[1]) && Number.parseFloat(first[0]) > 20, first.join(" | "));
  check("source is between the instructions", code.includes("sum += i ^ (i >> 3);") && page.problems.length === 0, `${code.slice(0, 200)} ${page.problems}`);
  const own = await page.locator(".why").innerText();
  check("without findings the functions that ran are named", /Own time:\s*by function: main (9\d|100)/.test(own.replace(/\s+/g, " ")), own);
  await page.locator(".hot button").first().click();
  const same = await page.locator(".code tr.same").evaluateAll((rows) => rows.map((row) => row.dataset.place));
  const seen = await page.locator(".code tr.same").first().evaluate((row) => { const [at, box] = [row.getBoundingClientRect(), row.closest(".code").getBoundingClientRect()]; return at.top >= box.top && at.bottom <= box.bottom && at.top < innerHeight; });
  check("a click on a hot line shows its source and instructions", same.length > 1 && same.every((place) => place === first[1]) && seen, `${same} ${seen}`);
  await page.locator(".code tr.source", { hasText: first[2].trim() }).first().click();
  check("a second click marks them no more", (await page.locator(".code tr.same").count()) === 0);
  await drag(join(folder, "spin.html"), " of samples that all have one state");
  check("a recording of the CPU alone has no tabs of waits", (await page.locator("#tab-waits, #tab-locks").count()) === 0);
  await page.context().close();
}

/** Traced calls: the counts are those of the program. */
async function tracedCalls() {
  const program = `volatile int sum;
__attribute__((noinline)) void leaf(int n) { for (int i = 0; i < n; i++) sum += i; }
__attribute__((noinline)) void work(void) { for (int i = 0; i < 10; i++) leaf(1000 * i); }
int main(void) { for (int i = 0; i < 3; i++) work(); return 0; }
`;
  writeFileSync(join(folder, "calls.c"), program);
  try {
    execFileSync("cc", ["-pg", "-O1", "-o", "calls", "calls.c"], { cwd: folder, stdio: "ignore" });
    run(["calls", "record", "-o", "calls.trace", "--", "./calls"]);
  } catch (error) {
    console.log(`skipped: can't compile or trace here: ${String(error.stderr ?? error).split("\n")[0]}`);
    return;
  }
  run(["calls", "flame", "--html", "calls.html", "-i", "calls.trace"]);
  const page = await open(join(folder, "calls.html"), { hash: "#tab=calls" });
  const rows = await page.locator("#pane-calls table").first().locator("tbody tr:not(.gap)").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
  const counts = Object.fromEntries(rows.map((cells) => [cells.at(-1), cells[3]]));
  check("Calls counts each call of the program", counts.leaf === "30" && counts.work === "3" && counts.main === "1", JSON.stringify(counts));
  await page.setViewportSize({ width: 400, height: 800 });
  const right = await page.locator("#pane-calls table").first().evaluate((table) => [table.querySelector("td.name span").getBoundingClientRect().right, table.parentElement.getBoundingClientRect().right]);
  check("names of traced functions are in view in 400 px", right[0] <= right[1], right.join(" "));
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.locator("#pane-calls tbody tr", { hasText: "leaf" }).first().click();
  const detail = await page.locator("#pane-calls .split").innerText();
  check("a click on a function shows its lengths and slowest calls", detail.includes("lengths of 30 calls of leaf") && detail.includes("work"), detail.slice(0, 200));
  const lengths = page.locator("#pane-calls button.length");
  await lengths.first().click();
  await lengths.last().click({ modifiers: ["Shift"] });
  const paths = await page.locator("#pane-calls .paths").innerText();
  check("a range of lengths shows who made those calls", paths.includes("who called leaf: 30 calls") && paths.includes("100.0 % of these") && /leaf\s+work\s+main/.test(paths), paths);
  await page.locator("#pane-calls button.link").click();
  const hash = await page.evaluate(() => location.hash);
  check("Calls leads to the flame graph of a function", hash.includes("focus=leaf") && page.problems.length === 0, `${hash} ${page.problems}`);
  await page.context().close();
}

/** Requests to disks: the rows are those of the text. */
async function requests() {
  const recording = fileURLToPath(new URL("../../tests/golden/io-requests/io.data", import.meta.url));
  run(["io", "--html", "io.html", "-i", recording]);
  const numbers = JSON.parse(run(["io", "--json", "-i", recording]));
  const page = await open(join(folder, "io.html"), { hash: "#tab=io" });
  const rows = await page.locator("#pane-io table").first().locator("tbody tr:not(.gap)").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
  const shown = rows.map((cells) => Number(cells[2])).reduce((sum, count) => sum + count, 0);
  const wanted = numbers.devices.reduce((sum, device) => sum + device.requests, 0);
  check("Requests has all requests by whom", shown === wanted && wanted === 13, `${shown} on the page, ${wanted} in the text: ${JSON.stringify(rows)}`);
  check("Requests names the processes", rows.some((cells) => cells.at(-1).startsWith("write dd 30996")), JSON.stringify(rows));
  const total = numbers.operations.reduce((sum, operation) => sum + operation.device.total_ns + (operation.queue.total_ns ?? 0), 0);
  const seen = Number((await dataset(page)).total);
  check("the page of requests has the time of the text", Math.abs(seen - total) <= 1 && page.problems.length === 0, `${seen} on the page, ${total} in the text; ${page.problems}`);
  await page.context().close();
}

/** The picture for mail and wikis: as wide as the window, head and status in it, the same share. */
async function picture() {
  const truth = folded();
  const file = join(folder, "known.svg");
  run(["flame", "-o", file, "known.folded"]);
  for (const [width, scheme] of [[420, "light"], [1280, "dark"], [2200, "light"]]) {
    const context = await browser.newContext({ viewport: { width, height: 400 }, colorScheme: scheme });
    const page = await context.newPage();
    const problems = [];
    page.on("pageerror", (error) => problems.push(error.message));
    await page.goto(`file://${file}#find=parse`);
    const found = await page.evaluate(() => {
      const box = (id) => document.getElementById(id).getBoundingClientRect();
      const [head, status, frame] = [box("head"), box("status"), document.querySelector("#frames rect").getBoundingClientRect()];
      return { text: document.getElementById("search").textContent, head: head.top, foot: status.bottom, wide: frame.width, back: getComputedStyle(document.querySelector(".back")).fill };
    });
    const share = Number(/([\d.]+) %/.exec(found.text)?.[1]);
    check(`the picture's share is the truth in ${width} px`, Math.abs(share - 100 * truth) < 0.006, `${found.text}, truth ${100 * truth}`);
    check(`the picture fits ${width} px, with its head and status in the window`, Math.abs(found.wide - (width - 20)) < 30 && Math.abs(found.head) < 1 && found.foot <= 401 && problems.length === 0, `${JSON.stringify(found)} ${problems}`);
    check(`the picture is ${scheme} when the reader is`, found.back === (scheme === "dark" ? "rgb(20, 23, 27)" : "rgb(251, 250, 247)"), found.back);
    await page.keyboard.press("Escape");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Enter");
    check(`the picture's zoom is in the address by name in ${width} px`, (await page.evaluate(() => location.hash)).includes("zoom=app"), await page.evaluate(() => location.hash));
    await context.close();
  }
}

goldens();
await searchShare();
await comparison();
await deepStacks();
await circles();
await hostileNames();
await narrowNames();
await picture();
await source();
await spans();
await shortWaits();
await labels();
await parts();
await sleeps();
await tracedCalls();
await requests();
if (recordWall()) {
  const file = join(folder, "wall.html");
  for (const part of [keyWalk, roles, graphInView, blamed, tables, wakers, waitLengths, brush, drag, looks, colours]) await part(file);
  const size = readFileSync(file).length;
  check("the page of a short recording is small", size < 400000, `${size} bytes`);
  const shell = readFileSync(file, "utf8").replace(/<main class="first">.*?<\/noscript>/s, "").replace(/(id="(?:about|columns|sources)">)[^<]*/g, "$1").length;
  check("a page without its data takes at most 60 kB", shell > 50000 && shell <= 60000, `${shell} bytes`);
}
await browser.close();
