// Unpacks the page's script, which the page has as a raw deflate stream in base 64 or 91, and runs it. Small data is unpacked at
// the same time, while the browser gets ready to paint the first view; the script gets it with `part`.

import { unpack, unpackScript } from "./base64";

/** Characters of data that are unpacked in less time than a first paint takes. */
const AT_ONCE = 1 << 20;

/** Done when the first view is painted. A page in the background paints nothing. */
const painted = new Promise<unknown>((done) => (document.hidden ? done(0) : requestAnimationFrame(() => setTimeout(done))));

const parts: Record<string, Promise<ArrayBuffer> | undefined> = {};

/** A part of the page, unpacked; the page has each of them once. */
const part = (id: string): Promise<ArrayBuffer> | undefined => {
  const text = document.getElementById(id)?.textContent;
  return (parts[id] ??= text ? (text.length < AT_ONCE ? unpack(text) : painted.then(() => unpack(text))) : undefined);
};

part("about");
part("columns");
Object.assign(globalThis, { part, painted });

void (async () => {
  const script = document.createElement("script");
  const { textContent, type } = document.getElementById("code") as HTMLScriptElement;
  script.text = await unpackScript(textContent!, type === "base91");
  document.body.append(script);
})();
