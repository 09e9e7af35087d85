// Read and write maps of ids as PNG. A browser's own decoder returns colours and loses palette indices.

import { FileError, SIGNATURE, TRACE, chunk, chunks, damaged, isPng } from "png_chunks";

const GREY = 0, PALETTE = 3;
const KINDS = { 2: "RGB colours", 4: "grey levels with transparency", 6: "RGB colours with transparency" };
const MAX_PIXELS = 89478485;

/**
 * Read a map of ids from a PNG: grey levels with 1, 8 or 16 bits, or palette indices.
 * Return { width, height, values: Uint32Array }. Throw FileError if the file cannot be used.
 */
export async function decodeIds(buffer, name) {
  const bytes = new Uint8Array(buffer);
  if (!isPng(bytes)) {
    throw new FileError(`${name}: is no PNG. Save the label map as a PNG of class ids. ${TRACE}`);
  }
  const { header, data } = readParts(bytes, name);
  const { width, height, bits } = header;
  const rowBytes = Math.ceil((width * bits) / 8);
  const inflated = await begin(data.stream().pipeThrough(new DecompressionStream("deflate")), (rowBytes + 1) * height);
  if (!inflated) damaged(name);
  const rows = unfiltered(inflated, rowBytes, height, Math.max(1, bits / 8), name);
  return { width, height, values: unpacked(rows, width, height, bits) };
}

/** Return { width, height } from the first 24 bytes of a PNG, or null for other files. */
export function readSize(buffer) {
  if (!isPng(new Uint8Array(buffer)) || buffer.byteLength < 24) return null;
  const view = new DataView(buffer);
  return { width: view.getUint32(16), height: view.getUint32(20) };
}

/** Throw FileError if a file has more pixels than a page can open. */
export function checkSize(name, width, height) {
  if (width * height <= MAX_PIXELS) return;
  throw new FileError(
    `${name}: is ${width}x${height}, more than the ${MAX_PIXELS} pixels that can be opened. Make it smaller.`);
}

function readParts(bytes, name) {
  let header = null;
  const data = [];
  for (const { kind, content } of chunks(bytes, name)) {
    if (kind === "IHDR") header = readHeader(content, name);
    if (kind === "IDAT") data.push(content);
  }
  if (!header || !data.length) damaged(name);
  return { header, data: new Blob(data) };
}

function readHeader(content, name) {
  if (content.length !== 13) damaged(name);
  const view = new DataView(content.buffer, content.byteOffset);
  const width = view.getUint32(0), height = view.getUint32(4), [bits, kind] = content.subarray(8);
  if (kind in KINDS) {
    throw new FileError(
      `${name}: holds ${KINDS[kind]}, but must hold class ids. Convert colours to ids with ` +
      `python -m tools.convert_data colors-to-ids FROM TO. ${TRACE}`);
  }
  if (!width || !height) damaged(name);
  checkSize(name, width, height);
  const known = kind === GREY ? [1, 8, 16] : kind === PALETTE ? [1, 2, 4, 8] : [];
  if (!known.includes(bits)) throw new FileError(`${name}: has ${bits} bits per pixel. Save it as 8- or 16-bit PNG.`);
  if (content[12]) throw new FileError(`${name}: is interlaced. Save it without interlacing.`);
  return { width, height, bits };
}

/** Undo the filters of the rows (PNG specification, section 9). */
function unfiltered(data, rowBytes, height, step, name) {
  const out = new Uint8Array(rowBytes * height);
  for (let y = 0, from = 0; y < height; y++) {
    const filter = data[from++], row = y * rowBytes, above = row - rowBytes;
    if (filter > 4) damaged(name);
    for (let x = 0; x < rowBytes; x++) {
      const left = x >= step ? out[row + x - step] : 0;
      const up = y ? out[above + x] : 0;
      const corner = y && x >= step ? out[above + x - step] : 0;
      out[row + x] = data[from++] + predicted(filter, left, up, corner);
    }
  }
  return out;
}

function predicted(filter, left, up, corner) {
  switch (filter) {
    case 0: return 0;
    case 1: return left;
    case 2: return up;
    case 3: return (left + up) >> 1;
    default: { // Paeth
      const byLeft = Math.abs(up - corner), byUp = Math.abs(left - corner);
      const byCorner = Math.abs(left + up - 2 * corner);
      if (byLeft <= byUp && byLeft <= byCorner) return left;
      return byUp <= byCorner ? up : corner;
    }
  }
}

function unpacked(rows, width, height, bits) {
  const values = new Uint32Array(width * height), rowBytes = Math.ceil((width * bits) / 8);
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++, at++) {
      const first = y * rowBytes;
      if (bits === 16) values[at] = (rows[first + 2 * x] << 8) | rows[first + 2 * x + 1];
      else if (bits === 8) values[at] = rows[first + x];
      else values[at] = (rows[first + ((x * bits) >> 3)] >> (8 - bits - ((x * bits) & 7))) & ((1 << bits) - 1);
    }
  }
  return values;
}

/** Return a grey PNG of ids below 65536 as a Blob. It has 16 bits if `bits` is 16 or an id exceeds 255, else 8. */
export async function encodeIds(width, height, values, bits = 8) {
  const deep = bits === 16 || values.some(value => value > 255);
  const step = deep ? 2 : 1, rows = new Uint8Array((width * step + 1) * height);
  for (let y = 0, from = 0, to = 0; y < height; y++) {
    rows[to++] = 0; // no filter
    for (let x = 0; x < width; x++, from++) {
      if (deep) rows[to++] = values[from] >> 8;
      rows[to++] = values[from] & 255;
    }
  }
  const header = new Uint8Array(13), view = new DataView(header.buffer);
  view.setUint32(0, width);
  view.setUint32(4, height);
  header.set([deep ? 16 : 8, GREY], 8);
  const data = await piped(new Blob([rows]), new CompressionStream("deflate"));
  const parts = [chunk("IHDR", header), chunk("IDAT", data), chunk("IEND", new Uint8Array())];
  return new Blob([new Uint8Array(SIGNATURE), ...parts], { type: "image/png" });
}

/** Return the first `length` bytes of a stream, or null if the stream is shorter. Do not read the rest. */
export async function begin(stream, length) {
  const bytes = new Uint8Array(length), reader = stream.getReader();
  for (let at = 0; at < length;) {
    const { done, value } = await reader.read().catch(() => ({ done: true }));
    if (done) return null;
    bytes.set(value.subarray(0, length - at), at);
    at += value.length;
  }
  reader.cancel().catch(() => {});
  return bytes;
}

/** Return the bytes of a Blob after a transform stream, such as a CompressionStream. */
export async function piped(blob, stream) {
  return new Uint8Array(await new Response(blob.stream().pipeThrough(stream)).arrayBuffer());
}
