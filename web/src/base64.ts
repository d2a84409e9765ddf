// Bytes of what the page has packed: raw deflate streams as text, which browsers unpack where they can: that is many times
// faster.

function fromBase64(base64: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native(base64);
  return Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0));
}

/** Base 91 with the digits `#` to `}`, and `!` for `<`: that of the whole script, which is most of a small page. */
function fromBase91(digits: string): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(digits.replaceAll("!", "<"));
  const pairs = text.length >> 1;
  const bytes = new Uint8Array((pairs * 13 + (text.length & 1) * 6) >> 3);
  // Bits beyond those that count are shifted out in the end.
  let [bits, count, to, at] = [0, 0, 0, 0];
  const put = (length: number, value: number) => {
    bits = (bits << length) | value;
    for (count += length; count >= 8; ) bytes[to++] = bits >> (count -= 8);
  };
  while (at < pairs * 2) put(13, text[at++] * 91 + text[at++] - 3220);
  if (at < text.length) put(6, text[at] - 35);
  return bytes;
}

/** A script, unpacked: `isLong` ones are in base 91. */
export const unpackScript = (text: string, isLong: boolean): Promise<string> => inflate((isLong ? fromBase91 : fromBase64)(text)).text();

export const unpack = (base64: string): Promise<ArrayBuffer> => inflate(fromBase64(base64)).arrayBuffer();

/** The bytes go straight into the stream: one that reads a blob asks the browser's main process for each part. */
function inflate(bytes: Uint8Array<ArrayBuffer>): Response {
  const { readable, writable } = new DecompressionStream("deflate-raw");
  const writer = writable.getWriter();
  void writer.write(bytes);
  void writer.close();
  return new Response(readable);
}
