// The zoom of the source and the translation, which both show the same part of the picture.

const MAX_SCALE = 32, STEP = 1.5;
const CENTRE = [0.5, 0.5];

/** Lengths are relative to the frame: at scale 1 the picture fills it. Points are relative to the picture. */
export class Zoom {
  /** element: parent of both frames. onChange(zoom): called after each change. */
  constructor(element, onChange) {
    Object.assign(this, { element, onChange });
    this.fit();
  }

  get isFit() {
    return this.scale === 1;
  }

  /** Show the whole picture. */
  fit() {
    this.#show(1, 0, 0);
  }

  /** Zoom in by some steps, or out if `steps` is negative. `point` stays at its place on the screen. */
  by(steps, point = this.pointAt(CENTRE)) {
    this.magnify(STEP ** steps, point);
  }

  /** Multiply the scale by a factor. The point [x, y] stays at its place on the screen. */
  magnify(factor, [x, y]) {
    const scale = Math.min(Math.max(this.scale * factor, 1), MAX_SCALE), growth = scale - this.scale;
    this.#show(scale, this.left - growth * x, this.top - growth * y);
  }

  /** Move the picture in its frame. */
  move(right, down) {
    this.#show(this.scale, this.left + right, this.top + down);
  }

  /** Move the picture as little as possible, so that a point is visible, with a margin around it. */
  reveal(point) {
    const margin = 0.05;
    const [right, down] = [this.left, this.top].map((start, axis) => {
      const place = start + this.scale * point[axis];
      return Math.max(margin - place, 0) + Math.min(1 - margin - place, 0);
    });
    this.move(right, down);
  }

  /** Return the point of the picture at a position in the frame. */
  pointAt([right, down]) {
    return [(right - this.left) / this.scale, (down - this.top) / this.scale];
  }

  #show(scale, left, top) {
    const within = start => Math.min(Math.max(start, 1 - scale), 0); // the picture fills its frame
    Object.assign(this, { scale, left: within(left), top: within(top) });
    for (const name of ["scale", "left", "top"]) this.element.style.setProperty(`--${name}`, this[name]);
    this.onChange(this);
  }
}
