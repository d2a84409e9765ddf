// Bytes of what the page has packed: a raw deflate stream in base64, which browsers unpack where they can: that is many times
// faster.

function fromBase64(base64: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native(base64);
  return Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0));
}

/** The bytes go straight into the stream: one that reads a blob asks the browser's main process for each part. */
export function unpack(base64: string): Response {
  const { readable, writable } = new DecompressionStream("deflate-raw");
  const writer = writable.getWriter();
  void writer.write(fromBase64(base64));
  void writer.close();
  return new Response(readable);
}
