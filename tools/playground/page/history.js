// The changes of a picture, to undo and redo.

const MAX_PIXELS = 2 ** 23; // of all changes, of which the oldest are forgotten

export class History {
  constructor() {
    this.clear();
  }

  clear() {
    this.done = [];
    this.undone = [];
  }

  /** Record a change, as of Picture.changeSince. */
  add(change) {
    if (!change) return;
    this.done.push(change);
    this.undone = [];
    let pixels = 0;
    for (let at = this.done.length - 1; at >= 0; at--) {
      const { left, top, right, bottom } = this.done[at].box;
      pixels += (right - left) * (bottom - top);
      if (pixels > MAX_PIXELS && at < this.done.length - 1) {
        this.done.splice(0, at + 1);
        return;
      }
    }
  }

  /** Undo the last change; return whether there was one. */
  undo(picture) {
    const change = this.done.pop();
    if (!change) return false;
    picture.apply(change.box, change.before);
    this.undone.push(change);
    return true;
  }

  /** Redo the last change that was undone; return whether there was one. */
  redo(picture) {
    const change = this.undone.pop();
    if (!change) return false;
    picture.apply(change.box, change.after);
    this.done.push(change);
    return true;
  }
}
