// The steps of a drawing (see steps.js), to undo and redo.

const MAX_PIXELS = 2 ** 23; // of all steps, of which the oldest are forgotten

export class History {
  done = [];
  undone = [];

  /** Record a step; null is none. */
  add(step) {
    if (!step) return;
    this.done.push(step);
    this.undone = [];
    let pixels = 0;
    for (let at = this.done.length - 1; at >= 0; at--) {
      pixels += this.done[at].nPixels;
      if (pixels > MAX_PIXELS && at < this.done.length - 1) {
        this.done.splice(0, at + 1);
        return;
      }
    }
  }

  /** Undo the last step; return the picture that is shown then. */
  undo(picture) {
    const step = this.done.pop();
    this.undone.push(step);
    return step.undo(picture);
  }

  /** Redo the last step that was undone; return the picture that is shown then. */
  redo(picture) {
    const step = this.undone.pop();
    this.done.push(step);
    return step.redo(picture);
  }
}
