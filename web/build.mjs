// Builds the page's scripts and style, with their digests for the page's security policy. stacks.js is the script of pages
// with nothing but stacks: without the views of all else.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";

const out = process.argv[2] ?? "../crates/cli/src/html/bundle";
mkdirSync(out, { recursive: true });
const common = { bundle: true, minify: true, write: false, target: "es2022", charset: "utf8", legalComments: "none" };
const style = (await build({ ...common, entryPoints: ["src/page.css"] })).outputFiles[0].text.trim();
for (const [entry, name] of [["src/main.ts", "page.js"], ["src/main.ts", "stacks.js"], ["src/loader.ts", "loader.js"], ["src/plain.css", "plain.css"]]) {
  const define = { PAGE_STYLE: JSON.stringify(style), IS_WHOLE: String(name === "page.js") };
  const result = await build({ ...common, entryPoints: [entry], format: name.endsWith(".js") ? "iife" : undefined, define });
  // A script element ends at the first "</script", wherever it is.
  const text = result.outputFiles[0].text.replaceAll("</", "<\\/").trimEnd();
  writeFileSync(`${out}/${name}`, text);
  writeFileSync(`${out}/${name}.sha256`, createHash("sha256").update(text).digest("base64") + "\n");
  console.log(`${name}: ${text.length} bytes`);
}
