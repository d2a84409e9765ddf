// Unpacks the page's script, which the page has as a raw deflate stream in base64, and runs it. The script unpacks the rest
// with the same function.

import { unpack } from "./base64";

Object.assign(globalThis, { unpack });

void (async () => {
  const script = document.createElement("script");
  script.textContent = await unpack(document.getElementById("code")!.textContent!).text();
  document.body.append(script);
})();
