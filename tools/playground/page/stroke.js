// A stroke of any tool: brush, line, rectangle, polygon or fill.

import { line, polygon, rectangle } from "shapes";

export class Stroke {
  /**
   * before: picture before the stroke; it is not changed. tool: "brush", "line", "rectangle", "polygon" or "fill".
   * value: class or colour to paint. size: brush diameter. isInstance: whether the stroke becomes a new instance.
   * x, y: first pixel of the stroke.
   */
  constructor(before, { tool, value, size, isInstance }, x, y) {
    Object.assign(this, { before, tool, value, size, isInstance });
    this.picture = before.copy(); // picture with the stroke
    this.instance = before.instances && before.unusedInstance();
    this.corners = tool === "polygon" ? [] : [[x, y]]; // fixed corners; for a brush, the last pixel
    if (tool === "fill") this.#fill(x, y);
    else this.moveTo(x, y);
  }

  /** Move to a pixel. A brush draws there. Shapes move their last corner there. */
  moveTo(x, y) {
    if (this.tool === "fill") return;
    if (this.tool === "brush") {
      this.#draw([...this.corners, [x, y]]);
      this.corners = [[x, y]];
    } else {
      this.#drawOnce([...this.corners, [x, y]]);
    }
  }

  /** Add a corner to a polygon, unless it equals the last corner. */
  addCorner(x, y) {
    const [lastX, lastY] = this.corners.at(-1) ?? [];
    if (x !== lastX || y !== lastY) this.corners.push([x, y]);
    this.showCorners();
  }

  /** Remove the last corner of a polygon. */
  dropCorner() {
    this.corners.pop();
    this.showCorners();
  }

  /** Paint the polygon with only its fixed corners. */
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
