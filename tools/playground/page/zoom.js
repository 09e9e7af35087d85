// How large the source and its translation are shown, and which part of both is in sight.

const MAX_SCALE = 32, STEP = 1.5;
const CENTRE = [0.5, 0.5];

/** Lengths are shares of the frame, which the whole picture fills at scale 1; points are shares of the picture. */
export class Zoom {
  /** element: what holds both frames. onChange(zoom): called when another part is in sight. */
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

  /** Show the picture so many steps larger, or smaller below 0; a point stays where it is shown. */
  by(steps, point = this.pointAt(CENTRE)) {
    this.magnify(STEP ** steps, point);
  }

  /** Multiply the scale by a factor; a point stays where it is shown. */
  magnify(factor, [x, y]) {
    const scale = Math.min(Math.max(this.scale * factor, 1), MAX_SCALE), growth = scale - this.scale;
    this.#show(scale, this.left - growth * x, this.top - growth * y);
  }

  /** Move the picture in its frame. */
  move(right, down) {
    this.#show(this.scale, this.left + right, this.top + down);
  }

  /** Move the picture no farther than a point needs to be in sight, with some room around it. */
  reveal(point) {
    const margin = 0.05;
    const [right, down] = [this.left, this.top].map((start, axis) => {
      const place = start + this.scale * point[axis];
      return Math.max(margin - place, 0) + Math.min(1 - margin - place, 0);
    });
    this.move(right, down);
  }

  /** Return the point of the picture at a place in its frame. */
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
