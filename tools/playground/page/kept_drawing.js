// Store the drawing in sessionStorage, so that a reload restores it. Its values are the colours of a PNG.

import { pictureOf } from "image_file";
import { separateInstances } from "instances";
import { Picture } from "picture";

const KEY = `drawing on ${location.pathname}`;

/** Store a picture, and its sample number or "". Ignore errors, such as a full storage. */
export function keepDrawing(picture, sample, model) {
  const { width, height, instances } = picture;
  const ids = instances && picture.compactInstances();
  try {
    sessionStorage.removeItem(KEY);
    sessionStorage.setItem(KEY, JSON.stringify({
      of: identity(model), sample, values: png(picture), instances: ids && png(new Picture(width, height, ids)),
    }));
  } catch {
    return;
  }
}

/** Return { picture, sample } of the stored drawing, or null if no drawing for this network is stored. */
export async function keptDrawing(model) {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEY));
    if (kept?.of !== identity(model)) return null;
    const picture = await pictureFrom(kept.values);
    if (kept.instances) picture.instances = Int32Array.from((await pictureFrom(kept.instances)).values);
    else if (model.needs_instances) await separateInstances(picture);
    return { picture, sample: kept.sample };
  } catch {
    return null;
  }
}

/** Return a text that identifies the network. It does not contain the training step. */
export function identity({ title, classes, needs_instances: needsInstances }) {
  return JSON.stringify([title, classes, needsInstances]);
}

function png(picture) {
  return picture.toCanvas(value => value).toDataURL("image/png");
}

async function pictureFrom(address) {
  const image = new Image();
  image.src = address;
  await image.decode();
  return pictureOf(image, image.naturalWidth, image.naturalHeight, Infinity, Infinity, false);
}
