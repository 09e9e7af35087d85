// The history of a drawing: its steps (see steps.js) for undo and redo.

const MAX_PIXELS = 2 ** 23; // maximum number of pixels in all steps; the oldest steps are dropped first

export class History {
  done = [];
  undone = [];

  /** Record a step, unless it is null. */
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

  /** Undo the last step. Return the previous picture. */
  undo(picture) {
    const step = this.done.pop();
    this.undone.push(step);
    return step.undo(picture);
  }

  /** Redo the step that was undone last. Return the picture after this step. */
  redo(picture) {
    const step = this.undone.pop();
    this.done.push(step);
    return step.redo(picture);
  }
}
