// Pictures as bytes: the source (int32 ids, or 8-bit RGB), then the instances (int32); see tools/playground/page.py.

import { Picture } from "picture";

/** Return a picture as bytes. Numbers are little-endian, as in the typed arrays of all browsers. */
export function encode(source, instances, hasClasses) {
  const n = source.values.length;
  const bytes = new Uint8Array((hasClasses ? 4 : 3) * n + (instances ? 4 * n : 0));
  if (hasClasses) {
    bytes.set(new Uint8Array(source.values.buffer, source.values.byteOffset, 4 * n));
  } else {
    bytes.set(rgbBytes(source.values));
  }
  if (instances) bytes.set(new Uint8Array(instances.buffer, instances.byteOffset, 4 * n), bytes.length - 4 * n);
  return bytes;
}

/** Return the picture from bytes that `encode` has returned. */
export function decode(bytes, width, height, { hasClasses, hasInstances }) {
  const n = width * height, values = new Uint32Array(n);
  if (hasClasses) {
    new Uint8Array(values.buffer).set(bytes.subarray(0, 4 * n));
  } else {
    for (let at = 0; at < n; at++) values[at] = (bytes[3 * at] << 16) | (bytes[3 * at + 1] << 8) | bytes[3 * at + 2];
  }
  if (!hasInstances) return new Picture(width, height, values);
  const instances = new Int32Array(n);
  new Uint8Array(instances.buffer).set(bytes.subarray(bytes.length - 4 * n));
  return new Picture(width, height, values, instances);
}

/** Return colours (0xRRGGBB) as bytes: red, green and blue of each pixel. */
export function rgbBytes(values) {
  const bytes = new Uint8Array(3 * values.length);
  for (let at = 0; at < values.length; at++) {
    bytes[3 * at] = values[at] >> 16;
    bytes[3 * at + 1] = values[at] >> 8;
    bytes[3 * at + 2] = values[at];
  }
  return bytes;
}

/** Return width and height of the translation of a picture. */
export function translatedSize(width, height, { scale }) {
  return [width, height].map(side => Math.ceil(side * scale));
}
