// Unpacks the page's script, which the page has as a raw deflate stream in base64, and runs it.

import { fromBase64 } from "./base64";

void (async () => {
  const script = document.createElement("script");
  const stream = new Blob([fromBase64(document.getElementById("code")!.textContent!)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  script.textContent = await new Response(stream).text();
  document.body.append(script);
})();
