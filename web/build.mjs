// Builds the page's scripts and style, with their digests for the page's security policy. page.js is the script of pages of
// recordings, sums.js that of pages without times: calls, requests and comparisons. stacks.js is that of pages with nothing
// but stacks. Each lacks the views of what its pages can't have.
import zopfli from "@gfx/zopfli";
import { build } from "esbuild";
import { minify } from "terser";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";

const out = process.argv[2] ?? "../crates/cli/src/html/bundle";
mkdirSync(out, { recursive: true });

/** The rules of a style whose classes are all in a script; `css` is minified. */
function usedRules(css, script) {
  const isUsed = (selector) => [...selector.matchAll(/\.([a-z][\w-]*)/g)].every(([, name]) => new RegExp(`["'\\x60 ]${name}["'\\x60 ]`).test(script));
  let [kept, at] = ["", 0];
  while (at < css.length) {
    const open = css.indexOf("{", at);
    let [end, depth] = [open + 1, 1];
    for (; depth > 0; end++) depth += css[end] === "{" ? 1 : css[end] === "}" ? -1 : 0;
    const [head, body] = [css.slice(at, open), css.slice(open + 1, end - 1)];
    if (head.startsWith("@")) {
      const inside = head.startsWith("@media") ? usedRules(body, script) : body;
      if (inside) kept += `${head}{${inside}}`;
    } else {
      const selectors = head.split(",").filter(isUsed);
      if (selectors.length) kept += `${selectors.join(",")}{${body}}`;
    }
    at = end;
  }
  return kept;
}

/** Names of private members: a few letters do for them. Names of the page's data, the selection and elements stay. */
function privateNames() {
  const texts = readdirSync("src").filter((name) => name.endsWith(".ts")).map((name) => [name, readFileSync(`src/${name}`, "utf8")]);
  const data = new Set(texts.filter(([name]) => ["data.ts", "selection.ts", "dom.ts"].includes(name)).flatMap(([, text]) => text.match(/[A-Za-z]\w*/g)));
  const names = texts.flatMap(([, text]) => [...text.matchAll(/\bprivate (?:readonly )?(\w+)/g)].map(([, name]) => name));
  // One that is a word in quotes may be the key of an object.
  const isQuoted = (name) => texts.some(([, text]) => text.includes(`"${name}"`));
  return [...new Set(names)].filter((name) => !data.has(name) && !isQuoted(name));
}

/** A few percent smaller than what esbuild's one pass leaves. */
const SMALLER = { ecma: 2022, compress: { passes: 4, keep_fargs: false, hoist_props: true, pure_getters: true, unsafe_arrows: true, unsafe_methods: true }, mangle: { properties: { regex: new RegExp(`^(?:${privateNames().join("|")})$`) } }, format: { ecma: 2022 } };
const common = { bundle: true, minify: true, write: false, target: "es2022", charset: "utf8", legalComments: "none" };
const style = (await build({ ...common, entryPoints: ["src/page.css"] })).outputFiles[0].text.trim();
for (const [entry, name] of [["src/main.ts", "page.js"], ["src/main.ts", "sums.js"], ["src/main.ts", "stacks.js"], ["src/loader.ts", "loader.js"], ["src/plain.css", "plain.css"]]) {
  const define = { PAGE_STYLE: "PAGE_STYLE", IS_WHOLE: String(name !== "stacks.js"), HAS_TIMES: String(name === "page.js") };
  const result = await build({ ...common, entryPoints: [entry], format: name.endsWith(".js") ? "iife" : undefined, define });
  const bundled = result.outputFiles[0].text;
  const script = name.endsWith(".js") ? (await minify(bundled, SMALLER)).code : bundled;
  const used = usedRules(style, script);
  // A script element ends at the first "</script", wherever it is.
  // Nearly all of a small page's script runs when it opens: the browser parses its functions once, not twice.
  const hint = name === "stacks.js" ? "//# allFunctionsCalledOnLoad\n" : "";
  const text = hint + script.replace("PAGE_STYLE", () => JSON.stringify(used)).replaceAll("</", "<\\/").trimEnd();
  writeFileSync(`${out}/${name}`, text);
  writeFileSync(`${out}/${name}.sha256`, createHash("sha256").update(text).digest("base64") + "\n");
  // As small as a deflate stream gets: the script is most of a small page.
  if (["page.js", "sums.js", "stacks.js"].includes(name)) writeFileSync(`${out}/${name}.deflate`, await zopfli.deflateAsync(Buffer.from(text), { numiterations: 15 }));
  console.log(`${name}: ${text.length} bytes`);
}
