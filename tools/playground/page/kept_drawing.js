// The drawing of this tab, kept while the page is loaded again: pictures as PNG, in which every value is a colour.

import { pictureOf } from "image_file";
import { separateInstances } from "instances";
import { Picture } from "picture";

const KEY = `drawing on ${location.pathname}`;

/** Keep a picture, and the sample that it is or ""; a browser that keeps nothing, or not as much, is no error. */
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

/** Return { picture, sample } of the drawing that is kept, null if there is none for this network. */
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

/** What a drawing or a result needs to be one of this network's; a later step of the training is none. */
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
