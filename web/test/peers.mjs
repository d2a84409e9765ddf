// Other viewers of the same stacks: pages of async-profiler's converter, and speedscope from its npm package.
import { execFileSync } from "node:child_process";
import { readFileSync, realpathSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

const twoFrames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));

/** The page of `jfrconv STACKS PAGE`: all its frames are on one canvas. */
export function converted(command, stacks, file) {
  execFileSync(command, [stacks, file], { stdio: "ignore" });
  return file;
}

export async function convertedTimes(page, file) {
  await page.goto(pathToFileURL(file).href);
  await page.evaluate(twoFrames);
  // Rows are 16 px, the first function is the lowest; a click is that of the last move.
  const hover = await page.timed(() => {
    const canvas = document.getElementById("canvas");
    const box = canvas.getBoundingClientRect();
    return measure((at) => fire(canvas, "mousemove", { clientX: box.left + 40 + at * 150, clientY: box.bottom - 40 - at * 16 }), 8);
  }, 8);
  const zoom = await page.timed(() => {
    const canvas = document.getElementById("canvas");
    const box = canvas.getBoundingClientRect();
    return measure((at) => {
      const place = { clientX: box.left + 30, clientY: box.bottom - (at % 2 ? 8 : 24) };
      fire(canvas, "mousemove", place);
      fire(canvas, "click", place);
    }, 8);
  }, 8);
  const search = await page.timed(() => {
    const texts = ["p", "pa", "par", "pars", "parse"];
    return measure((at) => {
      window.prompt = () => texts[at];
      fire(document.getElementById("search"), "click");
    }, 5);
  }, 5);
  return { hover, zoom, search, brush: null };
}

/** What `speedscope FILE` opens: its own page, with the stacks in a script next to it. */
export function loadable(stacks, file) {
  const text = readFileSync(stacks).toString("base64");
  writeFileSync(file, `speedscope.loadFileFromBase64(${JSON.stringify(basename(stacks))}, ${JSON.stringify(text)})`);
  return file;
}

/** It has no functions to call: real events of mouse and keyboard, so there is CPU time but no time of script. */
export async function speedscopeTimes(page, program, file) {
  const shell = join(dirname(realpathSync(program)), "../dist/release/index.html");
  const start = performance.now();
  await page.goto(`${pathToFileURL(shell).href}#localProfilePath=${file}`);
  await page.waitForFunction(() => document.title.includes(".folded"), null, { timeout: 120000 });
  await page.evaluate(twoFrames);
  const load = [performance.now() - start, await page.cpuMs()];
  // Merged by stack, as in all others.
  await page.keyboard.press("2");
  await page.evaluate(twoFrames);
  const used = async (act, times) => {
    await page.evaluate(twoFrames);
    const before = await page.cpuMs();
    for (let at = 0; at < times; at++) {
      await act(at);
      await page.evaluate(twoFrames);
    }
    return [null, ((await page.cpuMs()) - before) / times];
  };
  const hover = await used((at) => page.mouse.move(60 + at * 120, 330 + at * 20), 8);
  const zoom = await used((at) => page.mouse.dblclick(60, 170 + (at % 2) * 20), 8);
  await page.keyboard.press("Control+f");
  await page.evaluate(twoFrames);
  const search = await used((at) => page.keyboard.type("parse"[at]), 5);
  return { load, hover, zoom, search, brush: null };
}
