// The mark on the picture where one draws, as large as what would be painted.

export class Cursor {
  constructor(element) {
    this.element = element;
    this.place = undefined; // in shares of the picture; undefined if it is hidden
  }

  /** Show a diameter in pixels around a pixel of a picture. */
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
