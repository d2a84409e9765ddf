// Unpacks the page's script, which the page has as a raw deflate stream in base 85, and runs it. The script unpacks the rest
// with `unpack`.

import { unpack, unpackScript } from "./base64";

Object.assign(globalThis, { unpack });

void (async () => {
  // The first view is painted before anything is unpacked. A page in the background paints nothing.
  await new Promise<unknown>((done) => (document.hidden ? done(0) : requestAnimationFrame(() => setTimeout(done))));
  const script = document.createElement("script");
  script.text = await unpackScript(document.getElementById("code")!.textContent!).text();
  document.body.append(script);
})();
