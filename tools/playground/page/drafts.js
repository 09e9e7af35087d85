// Drafts: if the network is slow, pictures are translated at half size while the user draws a stroke.

import { Picture } from "picture";

const SLOW_MS = 150; // use drafts if a translation at full size takes longer

export class Drafts {
  constructor(model) {
    this.model = model;
    this.milliseconds = 0; // duration of the last translation at full size
  }

  /** Return the picture to translate during a stroke, and whether this picture is a draft. */
  of(picture) {
    const { width, height } = picture;
    const isDraft = this.milliseconds > SLOW_MS && Math.min(width, height) >= 2 * this.model.min_size;
    return { picture: isDraft ? halved(picture, this.model.classes.length > 0) : picture.copy(), isDraft };
  }
}

/** Return a picture of half size: every second pixel of a label map, or the mean colour of each 2x2 block. */
export function halved({ width, height, values, instances }, hasClasses) {
  const half = Picture.blank(width >> 1, height >> 1, 0, instances !== null);
  for (let y = 0, to = 0; y < half.height; y++) {
    for (let x = 0; x < half.width; x++, to++) {
      const at = 2 * (y * width + x);
      half.values[to] = hasClasses ? values[at] : mean([at, at + 1, at + width, at + width + 1].map(i => values[i]));
      if (instances) half.instances[to] = instances[at];
    }
  }
  return half;
}

/** Return the mean of four colours 0xRRGGBB. */
function mean(colors) {
  const channel = shift => colors.reduce((sum, color) => sum + ((color >> shift) & 255), 2) >> 2;
  return (channel(16) << 16) | (channel(8) << 8) | channel(0);
}
