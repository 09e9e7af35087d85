// A picture: the class or colour of each pixel, and optionally the pixel's instance.

/**
 * values: (height * width) class ids, or colours as 0xRRGGBB.
 * instances: (height * width) ids, or null if the network takes no instances.
 */
export class Picture {
  constructor(width, height, values, instances = null) {
    Object.assign(this, { width, height, values, instances });
  }

  /** Return a picture in which all pixels have the same value and instance. */
  static blank(width, height, value, hasInstances) {
    const values = new Uint32Array(width * height).fill(value);
    return new Picture(width, height, values, hasInstances ? new Int32Array(width * height) : null);
  }

  copy() {
    return new Picture(this.width, this.height, this.values.slice(), this.instances?.slice() ?? null);
  }

  unusedInstance() {
    let greatest = 0;
    for (const id of this.instances) if (id > greatest) greatest = id;
    return greatest + 1;
  }

  /**
   * Return all pixels that have the value of pixel `start`, are connected with it, and satisfy belongs(pixel).
   * byCorners: whether diagonal neighbours are connected.
   */
  connected(start, { byCorners = false, seen = new Uint8Array(this.values.length), belongs = () => true } = {}) {
    const { width, height, values } = this;
    const value = values[start], found = [start];
    seen[start] = 1;
    for (let next = 0; next < found.length; next++) {
      const at = found[next], x = at % width, y = (at - x) / width;
      for (let row = Math.max(0, y - 1); row <= Math.min(height - 1, y + 1); row++) {
        for (let column = Math.max(0, x - 1); column <= Math.min(width - 1, x + 1); column++) {
          const other = row * width + column;
          if (seen[other] || values[other] !== value || (row !== y && column !== x && !byCorners)) continue;
          if (!belongs(other)) continue;
          seen[other] = 1;
          found.push(other);
        }
      }
    }
    return found;
  }

  /**
   * Split instances after a stroke: each connected part that was painted or cut off becomes an instance.
   * before: picture before the stroke. id: instance that the stroke has painted.
   */
  separateStroke(before, id) {
    const painted = [], cut = new Set(), seen = new Uint8Array(this.values.length);
    for (let at = 0; at < seen.length; at++) {
      if (this.instances[at] !== id) continue;
      painted.push(at);
      cut.add(before.instances[at]);
    }
    let last = this.unusedInstance();
    for (const at of painted) if (!seen[at]) this.#number(at, last++, seen, () => true);
    const kept = new Set(); // the first part of a divided instance keeps the id
    for (let at = 0; at < seen.length; at++) {
      const own = this.instances[at];
      if (seen[at] || !cut.has(own)) continue;
      this.#number(at, kept.has(own) ? last++ : own, seen, other => this.instances[other] === own);
      kept.add(own);
    }
  }

  /** Give an id to all pixels that are connected with pixel `start`, also diagonally, because strokes can be thin. */
  #number(start, id, seen, belongs) {
    for (const at of this.connected(start, { byCorners: true, seen, belongs })) this.instances[at] = id;
  }

  /** Return the instances renumbered from 0, for a 16-bit PNG. Return null if there are more than 65536 instances. */
  compactInstances() {
    const ids = [...new Set(this.instances)].sort((first, second) => first - second);
    if (ids.length > 65536) return null;
    const ranks = new Map(ids.map((id, rank) => [id, rank]));
    return this.instances.map(id => ranks.get(id));
  }

  /** Return the picture as ImageData. colors(value): returns the colour of a value as 0xRRGGBB. */
  toImageData(colors) {
    const image = new ImageData(this.width, this.height);
    const pixels = new Uint32Array(image.data.buffer); // little-endian: alpha, blue, green, red
    let value = -1, pixel = 0;
    for (let at = 0; at < pixels.length; at++) {
      if (this.values[at] !== value) { // neighbours are mostly equal
        value = this.values[at];
        const color = colors(value);
        pixel = (0xff000000 | ((color & 255) << 16) | (color & 0xff00) | (color >> 16)) >>> 0;
      }
      pixels[at] = pixel;
    }
    return image;
  }

  /** Return a canvas with the picture. The canvas has no alpha channel, so that its PNG is RGB. */
  toCanvas(colors) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [this.width, this.height];
    canvas.getContext("2d", { alpha: false }).putImageData(this.toImageData(colors), 0, 0);
    return canvas;
  }
}
