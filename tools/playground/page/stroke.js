// What one stroke paints: of a brush, or a line, a rectangle, a polygon, or a fill.

import { line, polygon, rectangle } from "shapes";

export class Stroke {
  /**
   * before: the picture that is drawn on, and not changed. tool: "brush", "line", "rectangle", "polygon" or "fill".
   * value: what is painted. size: the diameter of the brush. isInstance: whether the stroke is an instance of its own.
   * x, y: the pixel where it begins.
   */
  constructor(before, { tool, value, size, isInstance }, x, y) {
    Object.assign(this, { before, tool, value, size, isInstance });
    this.picture = before.copy(); // with the stroke
    this.instance = before.instances && before.unusedInstance();
    this.corners = tool === "polygon" ? [] : [[x, y]]; // that stay; of a brush the last pixel
    if (tool === "fill") this.#fill(x, y);
    else this.moveTo(x, y);
  }

  /** Go on to a pixel: with a brush, or as the last corner, which can still be moved. */
  moveTo(x, y) {
    if (this.tool === "fill") return;
    if (this.tool === "brush") {
      this.#draw([...this.corners, [x, y]]);
      this.corners = [[x, y]];
    } else {
      this.#drawOnce([...this.corners, [x, y]]);
    }
  }

  /** Give a polygon one more corner, unless it is at the last one. */
  addCorner(x, y) {
    const [lastX, lastY] = this.corners.at(-1) ?? [];
    if (x !== lastX || y !== lastY) this.corners.push([x, y]);
    this.showCorners();
  }

  /** Take the last corner of a polygon back. */
  dropCorner() {
    this.corners.pop();
    this.showCorners();
  }

  /** Paint the polygon of no other corners than those that stay. */
  showCorners() {
    this.#drawOnce(this.corners);
  }

  #drawOnce(corners) {
    this.picture = this.before.copy();
    this.#draw(corners);
  }

  #draw(corners) {
    const paint = at => this.#paint(at), { tool, picture } = this;
    if (tool === "rectangle") rectangle(picture, ...corners[0], ...corners[1], paint);
    else if (tool === "polygon") polygon(picture, corners, paint);
    else line(picture, ...corners[0], ...corners[1], this.size, paint);
  }

  #fill(x, y) {
    const { width, height } = this.before;
    if (x < 0 || y < 0 || x >= width || y >= height) return;
    for (const at of this.before.connected(y * width + x)) this.#paint(at);
  }

  #paint(at) {
    this.picture.values[at] = this.value;
    if (this.picture.instances) this.picture.instances[at] = this.instance;
  }
}
