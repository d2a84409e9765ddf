// Bytes of what the page has packed: raw deflate streams as text, which browsers unpack where they can: that is many times
// faster.

function fromBase64(base64: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native(base64);
  return Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0));
}

/** Base 85 with the digits `(` to `|`, and `!` for `<`: that of the whole script, which is most of a small page. */
function fromBase85(digits: string): Uint8Array<ArrayBuffer> {
  // Few steps for each word: the browser interprets them.
  const text = new TextEncoder().encode(`${digits.replaceAll("!", "<")}||||`);
  const words = new DataView(new ArrayBuffer(Math.ceil(digits.length / 5) * 4));
  for (let at = 0, to = 0; at < digits.length; at += 5, to += 4) {
    words.setUint32(to, (((text[at] * 85 + text[at + 1]) * 85 + text[at + 2]) * 85 + text[at + 3]) * 85 + text[at + 4] - 40 * 52822061);
  }
  return new Uint8Array(words.buffer, 0, Math.floor(digits.length * 0.8));
}

/** A script, unpacked: `isLong` ones are in base 85. */
export const unpackScript = (text: string, isLong: boolean): Promise<string> => inflate((isLong ? fromBase85 : fromBase64)(text)).text();

export const unpack = (base64: string): Promise<ArrayBuffer> => inflate(fromBase64(base64)).arrayBuffer();

/** The bytes go straight into the stream: one that reads a blob asks the browser's main process for each part. */
function inflate(bytes: Uint8Array<ArrayBuffer>): Response {
  const { readable, writable } = new DecompressionStream("deflate-raw");
  const writer = writable.getWriter();
  void writer.write(bytes);
  void writer.close();
  return new Response(readable);
}
