// A circle around the pointer that shows which pixels the tool would paint.

export class Cursor {
  constructor(element) {
    this.element = element;
    this.place = undefined; // [x, y] from 0 to 1 within the picture; undefined if the cursor is hidden
  }

  /** Show a circle around pixel (x, y) of a picture. diameter: in pixels of the picture. */
  show({ width, height }, x, y, diameter) {
    Object.assign(this.element.style, {
      left: `${((x + 0.5 - diameter / 2) / width) * 100}%`,
      top: `${((y + 0.5 - diameter / 2) / height) * 100}%`,
      width: `${(diameter / width) * 100}%`,
      height: `${(diameter / height) * 100}%`,
    });
    this.element.hidden = false;
    this.place = [(x + 0.5) / width, (y + 0.5) / height];
  }

  hide() {
    this.element.hidden = true;
    this.place = undefined;
  }
}
