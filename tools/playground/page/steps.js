// Steps of a drawing. undo and redo take the current picture, and return the picture to show.

/** Bounding box of changed pixels. `right` and `bottom` are exclusive. */
class Box {
  constructor(left, top, right, bottom) {
    Object.assign(this, { left, top, right, bottom });
  }

  static around(before, after, width, height) {
    let [left, top, right, bottom] = [width, height, 0, 0];
    for (let y = 0, at = 0; y < height; y++) {
      for (let x = 0; x < width; x++, at++) {
        if (before[at] === after[at]) continue;
        left = Math.min(left, x);
        right = Math.max(right, x + 1);
        top = Math.min(top, y);
        bottom = y + 1;
      }
    }
    return new Box(left, top, right, bottom);
  }

  joined(other) {
    return new Box(
      Math.min(this.left, other.left), Math.min(this.top, other.top),
      Math.max(this.right, other.right), Math.max(this.bottom, other.bottom),
    );
  }

  get isEmpty() {
    return this.right <= this.left;
  }

  cut(pixels, width) {
    const rows = [];
    for (let y = this.top; y < this.bottom; y++) rows.push(pixels.slice(y * width + this.left, y * width + this.right));
    return rows;
  }

  paste(rows, pixels, width) {
    rows.forEach((row, number) => pixels.set(row, (this.top + number) * width + this.left));
  }
}

/** A step that changes pixels of a picture. */
export class Change {
  /** Return the change from picture `before` to picture `after`, or null if they are equal. */
  static between(before, after) {
    const { width, height } = after;
    let box = Box.around(before.values, after.values, width, height);
    if (after.instances) box = box.joined(Box.around(before.instances, after.instances, width, height));
    if (box.isEmpty) return null;
    const cut = picture => ({
      values: box.cut(picture.values, width),
      instances: picture.instances && box.cut(picture.instances, width),
    });
    return Object.assign(new Change(), { box, before: cut(before), after: cut(after) });
  }

  get nPixels() {
    return (this.box.right - this.box.left) * (this.box.bottom - this.box.top);
  }

  undo(picture) {
    return this.#apply(picture, this.before);
  }

  redo(picture) {
    return this.#apply(picture, this.after);
  }

  #apply(picture, { values, instances }) {
    this.box.paste(values, picture.values, picture.width);
    if (instances) this.box.paste(instances, picture.instances, picture.width);
    return picture;
  }
}

/** A step that shows another picture, such as a sample or a file. `other` is the picture that is not shown. */
export class Replacement {
  constructor(picture) {
    this.other = picture;
  }

  get nPixels() {
    return this.other.values.length;
  }

  undo(picture) {
    const { other } = this;
    this.other = picture;
    return other;
  }

  redo(picture) {
    return this.undo(picture);
  }
}
