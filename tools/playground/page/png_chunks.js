// PNG files as chunks (PNG specification, section 5).

export const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];

export const TRACE = 'To trace a photograph, use "Trace…".';

/** An error for a file that cannot be used. The message tells the user what to do. */
export class FileError extends Error {}

export function damaged(name) {
  throw new FileError(`${name}: is damaged. Save it again as PNG.`);
}

export function isPng(bytes) {
  return SIGNATURE.every((value, at) => bytes[at] === value);
}

/** Yield each chunk. isWhole() returns whether its checksum is correct. Throw FileError if a chunk is cut off. */
export function* chunks(bytes, name) {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  for (let at = SIGNATURE.length; at + 12 <= bytes.length;) {
    const length = view.getUint32(at), end = at + 8 + length;
    if (end + 4 > bytes.length) damaged(name);
    const body = bytes.subarray(at + 4, end), kind = String.fromCharCode(...body.subarray(0, 4));
    yield { kind, content: body.subarray(4), isWhole: () => crc32(body) === view.getUint32(end) };
    if (kind === "IEND") return;
    at = end + 4;
  }
}

/** Return a chunk as bytes. */
export function chunk(kind, content) {
  const bytes = new Uint8Array(content.length + 12), view = new DataView(bytes.buffer);
  view.setUint32(0, content.length);
  bytes.set([...kind].map(letter => letter.charCodeAt(0)), 4);
  bytes.set(content, 8);
  view.setUint32(content.length + 8, crc32(bytes.subarray(4, content.length + 8)));
  return bytes;
}

export function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}
