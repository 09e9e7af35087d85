// Pictures from files that the user opens.

import { separateInstances } from "instances";
import { Picture } from "picture";
import { checkSize, decodeIds, readSize } from "png";
import { FileError, TRACE } from "png_chunks";

/**
 * Read a label map or an image. Shrink it if its longer side exceeds `longest` pixels, or if it has more than `most`
 * pixels. Return { picture, width, height }. width, height: size before shrinking.
 */
export async function readPicture(file, model, longest, most) {
  if (!model.classes.length) {
    const image = await openImage(file), { width, height } = image;
    return { picture: pictureOf(image, width, height, longest, most, model.needs_instances), width, height };
  }
  const ids = model.file_colors.length
    ? await readColored(file, model)
    : await decodeIds(await file.arrayBuffer(), file.name);
  checkIds(ids, model, file.name);
  const { width, height, values } = ids;
  const picture = resized(new Picture(width, height, values), longest, most);
  if (model.needs_instances) await separateInstances(picture);
  return { picture, width, height };
}

/** Return the ids of an instance map file. It must have the size of `picture`. */
export async function readInstances(file, picture) {
  const ids = await decodeIds(await file.arrayBuffer(), file.name);
  if (ids.width !== picture.width || ids.height !== picture.height) {
    throw new FileError(
      `${file.name}: is ${ids.width}x${ids.height}, but the label map is ${picture.width}x${picture.height}. ` +
      `First open the label map with "Longest side" ${Math.max(ids.width, ids.height)} under More.`);
  }
  return Int32Array.from(ids.values);
}

/** Throw FileError if a label map contains an id that is not a class. */
export function checkIds({ width, values }, model, name) {
  const known = new Set(model.classes.map(kind => kind.id));
  const at = values.findIndex(value => !known.has(value));
  if (at < 0) return;
  const ignored = model.ignore_id === null ? "" : `, ${model.ignore_id} is ignored`;
  throw new FileError(
    `${name}: pixel (row ${Math.floor(at / width)}, column ${at % width}) holds id ${values[at]}, which is no class. ` +
    `The classes are 0 to ${model.n_classes - 1}${ignored}.`);
}

/** Read a label map file that contains class colours. Return { width, height, values }. */
async function readColored(file, { file_colors: colors }) {
  const idOf = new Map(colors.map(([color, id]) => [parseInt(color, 16), id]));
  const image = await openImage(file), { width, height } = image;
  checkSize(file.name, width, height);
  const { values } = pictureOf(image, width, height, Infinity, Infinity, false);
  const at = values.findIndex(value => !idOf.has(value));
  if (at >= 0) {
    const color = [values[at] >> 16, (values[at] >> 8) & 255, values[at] & 255].join(", ");
    throw new FileError(
      `${file.name}: pixel (row ${Math.floor(at / width)}, column ${at % width}) has the colour [${color}], which is ` +
      `none of data.label_colors. Use only these colours, without soft edges, and save as PNG. ${TRACE}`);
  }
  return { width, height, values: values.map(value => idOf.get(value)) };
}

/** Return an image file as a bitmap. */
export async function openImage(file) {
  try {
    return await createImageBitmap(file, { colorSpaceConversion: "none" }); // rotates by the EXIF orientation
  } catch {
    const size = readSize(await file.slice(0, 24).arrayBuffer());
    if (size) checkSize(file.name, size.width, size.height);
    throw new FileError(`${file.name}: cannot be read as an image. Choose a PNG, JPEG or WebP file.`);
  }
}

/** Return an image or video frame as a Picture of colours. Transparent pixels become white. */
export function pictureOf(image, width, height, longest, most, hasInstances) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = reduced(width, height, longest, most);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const picture = Picture.blank(canvas.width, canvas.height, 0, hasInstances);
  for (let at = 0; at < picture.values.length; at++) {
    picture.values[at] = (data[4 * at] << 16) | (data[4 * at + 1] << 8) | data[4 * at + 2];
  }
  return picture;
}

/** Return width and height. If they exceed the limits, scale both by the same factor. */
function reduced(width, height, longest, most) {
  const factor = Math.min(1, longest / Math.max(width, height), Math.sqrt(most / (width * height)));
  if (factor === 1) return [width, height];
  return [width, height].map(side => Math.max(1, Math.floor(side * factor)));
}

/** Return a label map, shrunk to the limits with nearest-neighbour sampling. */
function resized(picture, longest, most) {
  const [width, height] = reduced(picture.width, picture.height, longest, most);
  if (width === picture.width && height === picture.height) return picture;
  const smaller = Picture.blank(width, height, 0, false);
  for (let y = 0, at = 0; y < height; y++) {
    const row = Math.floor(((y + 0.5) * picture.height) / height) * picture.width;
    for (let x = 0; x < width; x++, at++) {
      smaller.values[at] = picture.values[row + Math.floor(((x + 0.5) * picture.width) / width)];
    }
  }
  return smaller;
}
