// Unpacks the page's script, which the page has as a raw deflate stream in base64, and runs it.

import { unpack } from "./base64";

void (async () => {
  const script = document.createElement("script");
  script.textContent = await unpack(document.getElementById("code")!.textContent!).text();
  document.body.append(script);
})();
