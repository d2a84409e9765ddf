// Bytes of what the page has packed: raw deflate streams as text, which browsers unpack where they can: that is many times
// faster.

function fromBase64(base64: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native(base64);
  return Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0));
}

/** Base 85 with the digits `(` to `|`, and `!` for `<`: the script's, which is most of a small page. */
function fromBase85(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length * 0.8);
  for (let at = 0, to = 0; at < text.length; to += 4) {
    let word = 0;
    for (let digit = 5; digit > 0; digit--) {
      const code = text.charCodeAt(at++) || 124;
      word = word * 85 + (code === 33 ? 60 : code) - 40;
    }
    for (let byte = 0; byte < 4; byte++) bytes[to + byte] = word >>> (24 - 8 * byte);
  }
  return bytes;
}

/** A script, unpacked. */
export const unpackScript = (text: string): Promise<string> => inflate(fromBase85(text)).text();

export const unpack = (base64: string): Promise<ArrayBuffer> => inflate(fromBase64(base64)).arrayBuffer();

/** The bytes go straight into the stream: one that reads a blob asks the browser's main process for each part. */
function inflate(bytes: Uint8Array<ArrayBuffer>): Response {
  const { readable, writable } = new DecompressionStream("deflate-raw");
  const writer = writable.getWriter();
  void writer.write(bytes);
  void writer.close();
  return new Response(readable);
}
