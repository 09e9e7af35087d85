// Result files: PNG files of translations that also contain the source and the seed. A page can open these files.

import { checkIds } from "image_file";
import { separateInstances } from "instances";
import { begin, piped } from "png";
import { FileError, chunk, chunks, damaged, isPng } from "png_chunks";
import { decode, encode } from "wire";

const KIND = "paIR"; // name of a private chunk; programs that edit the picture must drop it (PNG, section 5.4)
const VERSION = 1;
const END_BYTES = 12; // size of the last chunk
const MAX_FACTS_BYTES = 2 ** 16;

/** Return the result file of a job whose translation is on `canvas`. The chunk contains length, facts and source. */
export async function encodeResult(canvas, { picture, seed, other, percent }, model) {
  const image = new Promise(resolve => canvas.toBlob(resolve, "image/png")); // start before the canvas changes
  const { width, height, instances } = picture, hasClasses = model.classes.length > 0;
  const facts = {
    version: VERSION, of: nameOf(model), width, height, hasClasses, hasInstances: instances !== null,
    seed, other, percent,
  };
  const text = new TextEncoder().encode(JSON.stringify(facts));
  const bytes = new Blob([encode(picture, instances, hasClasses)]);
  const source = await piped(bytes, new CompressionStream("deflate"));
  const content = new Uint8Array(4 + text.length + source.length);
  new DataView(content.buffer).setUint32(0, text.length);
  content.set(text, 4);
  content.set(source, 4 + text.length);
  const png = await image;
  const parts = [png.slice(0, -END_BYTES), chunk(KIND, content), png.slice(-END_BYTES)];
  return new Blob(parts, { type: "image/png" });
}

/** Return the name of a network for result files. It includes the names of the styles. */
export function nameOf({ title, subtitle, styles }) {
  return [title, subtitle, ...styles].join(", ");
}

/**
 * Return { picture, seed, other, percent, of }. of: name of the network. Return null if the file is not a result file,
 * or if its source is a label map but this network takes images. Throw FileError if the result cannot be used.
 */
export async function decodeResult(file, model) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const found = isPng(bytes) && [...chunks(bytes, file.name)].find(({ kind }) => kind === KIND);
  if (!found) return null;
  if (!found.isWhole()) damaged(file.name);
  const { facts, packed } = split(found.content, file.name);
  check(facts, model, file.name);
  const { width, height, hasClasses, hasInstances, seed, other, percent, of } = facts;
  if (hasClasses && !model.classes.length) return null;
  const nBytes = width * height * ((hasClasses ? 4 : 3) + (hasInstances ? 4 : 0));
  const source = await begin(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate")), nBytes);
  if (!source) damaged(file.name);
  const picture = decode(source, width, height, { hasClasses, hasInstances });
  if (hasClasses) checkIds(picture, model, file.name);
  if (!model.needs_instances) picture.instances = null;
  else if (!hasInstances) await separateInstances(picture);
  return { picture, seed, other, percent, of };
}

function split(content, name) {
  const length = content.length < 4 ? Infinity : new DataView(content.buffer, content.byteOffset).getUint32(0);
  if (length > Math.min(content.length - 4, MAX_FACTS_BYTES)) damaged(name);
  try {
    const facts = JSON.parse(new TextDecoder().decode(content.subarray(4, 4 + length)));
    return { facts, packed: content.subarray(4 + length) };
  } catch {
    return damaged(name);
  }
}

function check({ version, width, height, hasClasses, seed, other, percent }, model, name) {
  if (version > VERSION) throw new FileError(`${name}: was saved by a newer version of this page. Open it there.`);
  const areWhole = [width, height, seed, other, percent].every(number => Number.isSafeInteger(number) && number >= 0);
  if (version !== VERSION || !areWhole || width * height === 0 || percent > 100) damaged(name);
  if (width * height > model.max_pixels) {
    throw new FileError(
      `${name}: its source has ${width}x${height} pixels, but the limit is ${model.max_pixels}. ` +
      "To open only the picture, save it with another program first.");
  }
  if (!hasClasses && model.classes.length) {
    throw new FileError(`${name}: is from an image network, but this page needs label maps. Open it on its own page.`);
  }
}
