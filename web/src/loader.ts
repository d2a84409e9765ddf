// Unpacks the page's script, which the page has as a raw deflate stream in base64, and runs it.

void (async () => {
  const bytes = Uint8Array.from(atob(document.getElementById("code")!.textContent!), (char) => char.charCodeAt(0));
  const script = document.createElement("script");
  script.textContent = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
  document.body.append(script);
})();
