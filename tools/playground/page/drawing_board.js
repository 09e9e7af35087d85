// The canvas on which the user draws with a pointer or the keyboard.

import { History } from "history";
import { Change, Replacement } from "steps";
import { Stroke } from "stroke";

const KEYBOARD = "keyboard"; // used instead of a pointer id
const RIGHT_BUTTON = 2, PEN_ERASER = 5;
const NEAR = { mouse: 8, pen: 12, touch: 24 }; // screen pixels; a click this near the first corner closes a polygon

/**
 * settings(): returns the tool ("brush", "eraser", "line", "rectangle", "polygon", "fill", "pick"), the value to draw
 * with, the value to erase with (paper), the brush diameter, and whether each stroke becomes a new instance.
 * onChange(): called after the picture changes. onResize(): called if a new picture has another size. onPick(value):
 * called when the user picks a pixel's value. onEdit(): called before an edit. onReach([x, y]): called when a key moves
 * the cursor; x and y are relative to the picture, from 0 to 1.
 */
export class DrawingBoard {
  constructor({ canvas, cursor, corner }, callbacks) {
    Object.assign(this, { canvas, cursor, corner }, callbacks);
    canvas.getContext("2d", { alpha: false }); // so that a saved PNG is RGB
    this.history = new History();
    this.picture = null;
    this.stroke = null; // unfinished stroke; a polygon stays unfinished until it is closed
    this.drawer = null; // id of the pointer that draws, or KEYBOARD
    this.at = null; // pixel of the keyboard cursor
    this.isStale = false; // whether the canvas must be repainted
    canvas.addEventListener("pointerdown", event => this.#press(event));
    canvas.addEventListener("pointermove", event => this.#move(event));
    for (const type of ["pointerup", "pointercancel"]) canvas.addEventListener(type, event => this.#release(event));
    canvas.addEventListener("pointerleave", () => this.#leave());
    canvas.addEventListener("blur", () => this.cursor.hide());
    canvas.addEventListener("dblclick", () => this.finish());
    canvas.addEventListener("contextmenu", event => event.preventDefault()); // the right button erases
    canvas.addEventListener("keydown", event => this.#key(event));
  }

  /** Show another picture. The user can undo this, unless it is the first picture. */
  replace(picture) {
    this.finish();
    if (this.picture) this.history.add(new Replacement(this.picture));
    this.show(picture);
  }

  /** Show another picture, such as a camera frame. The user cannot undo this. */
  show(picture) {
    this.stroke = this.drawer = null;
    this.picture = picture;
    if (this.canvas.width !== picture.width || this.canvas.height !== picture.height) {
      [this.canvas.width, this.canvas.height] = [picture.width, picture.height];
      this.at = null;
      this.onResize();
    }
    this.#changed();
  }

  /** Change the picture with the function `change`. The user can undo this. */
  edit(change) {
    this.onEdit();
    this.finish();
    const before = this.picture.copy();
    change(this.picture);
    this.history.add(Change.between(before, this.picture));
    this.#changed();
  }

  get canUndo() {
    return this.stroke !== null || this.history.done.length > 0;
  }

  get canRedo() {
    return this.history.undone.length > 0;
  }

  /** Undo the last step, or remove the last corner of an unfinished polygon. */
  undo() {
    if (this.#isOpen) {
      this.stroke.dropCorner();
      if (this.stroke.corners.length) this.#paintStroke();
      else this.giveUp();
      return;
    }
    this.onEdit();
    this.finish();
    if (this.canUndo) this.show(this.history.undo(this.picture));
  }

  redo() {
    this.onEdit();
    this.finish();
    if (this.canRedo) this.show(this.history.redo(this.picture));
  }

  /** Finish the stroke, or close the polygon. Discard a polygon with fewer than three corners. */
  finish() {
    if (this.#isOpen && this.stroke.corners.length < 3) this.giveUp();
    if (!this.stroke) return;
    if (this.#isOpen) this.stroke.showCorners();
    const { before, picture, instance, isInstance } = this.stroke;
    if (picture.instances && !isInstance) picture.separateStroke(before, instance);
    this.history.add(Change.between(before, picture));
    this.show(picture);
  }

  /** Discard the unfinished stroke or polygon. */
  giveUp() {
    if (this.stroke) this.show(this.stroke.before);
  }

  /** Discard the stroke of the current press. A polygon keeps its earlier corners. */
  takeBack() {
    this.drawer = null;
    if (this.#isOpen && this.stroke.corners.length) this.#leave();
    else this.giveUp();
  }

  /** Whether the stroke is an unfinished polygon. */
  get #isOpen() {
    return this.stroke?.tool === "polygon";
  }

  /** Report a change, and repaint the canvas before the browser's next frame. */
  #changed() {
    this.#showFirstCorner();
    this.onChange();
    if (this.isStale) return;
    this.isStale = true;
    requestAnimationFrame(() => {
      this.isStale = false;
      this.canvas.getContext("2d").putImageData(this.picture.toImageData(this.colors), 0, 0);
    });
  }

  #paintStroke() {
    this.picture = this.stroke.picture;
    this.#changed();
  }

  #pixelOf(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * this.picture.width);
    const y = Math.floor(((event.clientY - box.top) / box.height) * this.picture.height);
    return [x, y];
  }

  #placeOf(x, y) {
    return [(x + 0.5) / this.picture.width, (y + 0.5) / this.picture.height];
  }

  #press(event) {
    const erases = event.button === RIGHT_BUTTON || event.button === PEN_ERASER;
    if (this.drawer !== null || (event.button !== 0 && !erases)) return;
    if (event.altKey) {
      this.#pick(...this.#pixelOf(event));
    } else {
      this.canvas.setPointerCapture(event.pointerId);
      this.#begin(event.pointerId, this.#pixelOf(event), erases);
    }
  }

  #move(event) {
    const pixel = this.#pixelOf(event);
    this.#showCursor(...pixel);
    if (this.drawer === null) this.#hover(...pixel);
    if (this.drawer === null || this.drawer !== event.pointerId) return;
    if (event.buttons === 0) { // released outside the page
      this.#release(event);
      return;
    }
    const parts = this.stroke.tool === "brush" ? (event.getCoalescedEvents?.() ?? []) : [];
    for (const part of parts.length ? parts : [event]) this.stroke.moveTo(...this.#pixelOf(part));
    this.#paintStroke();
  }

  /** Preview a polygon with the pointer as its next corner. */
  #hover(x, y) {
    if (!this.#isOpen) return;
    if (this.settings().tool !== "polygon") {
      this.finish();
      return;
    }
    this.stroke.moveTo(x, y);
    this.#paintStroke();
  }

  #release(event) {
    if (this.drawer === null || this.drawer !== event.pointerId) return;
    this.drawer = null;
    if (!this.#isOpen) this.finish();
    else if (event.type === "pointercancel") this.takeBack();
    else if (this.stroke.corners.length > 2 && this.#isAtFirstCorner(event)) this.finish();
    else this.#addCorner(this.#pixelOf(event));
  }

  #leave() {
    this.cursor.hide();
    if (!this.#isOpen || this.drawer !== null) return;
    this.stroke.showCorners();
    this.#paintStroke();
  }

  /** Begin a stroke, or continue a polygon. */
  #begin(drawer, [x, y], erases = false) {
    const { tool, value, paper, size, strokeIsInstance } = this.settings();
    if (tool === "pick") {
      this.#pick(x, y);
      return;
    }
    if (this.#isOpen && tool !== "polygon") this.finish();
    this.drawer = drawer;
    if (this.stroke) {
      this.stroke.moveTo(x, y);
    } else {
      this.onEdit();
      const paint = tool === "eraser" || erases
        ? { tool: tool === "eraser" ? "brush" : tool, value: paper, isInstance: false }
        : { tool, value, isInstance: strokeIsInstance };
      this.stroke = new Stroke(this.picture, { ...paint, size }, x, y);
    }
    this.#paintStroke();
  }

  #pick(x, y) {
    const { width, height, values } = this.picture;
    if (x >= 0 && y >= 0 && x < width && y < height) this.onPick(values[y * width + x]);
  }

  #addCorner([x, y]) {
    this.stroke.addCorner(x, y);
    this.#paintStroke();
  }

  #isAtFirstCorner({ clientX, clientY, pointerType }) {
    const box = this.canvas.getBoundingClientRect(), [x, y] = this.#placeOf(...this.stroke.corners[0]);
    const distance = Math.hypot(box.left + x * box.width - clientX, box.top + y * box.height - clientY);
    return distance < (NEAR[pointerType] ?? NEAR.mouse);
  }

  #showFirstCorner() {
    const [first] = this.#isOpen ? this.stroke.corners : [];
    this.corner.hidden = !first;
    if (!first) return;
    const [left, top] = this.#placeOf(...first);
    Object.assign(this.corner.style, { left: `${100 * left}%`, top: `${100 * top}%` });
  }

  #showCursor(x, y) {
    const { tool, size } = this.stroke ?? this.settings();
    this.cursor.show(this.picture, x, y, ["brush", "eraser", "line"].includes(tool) ? size : 1);
  }

  /** Handle a key: arrows move the cursor, Space or Enter draws, Enter closes a polygon, Escape discards it. */
  #key(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const { width, height } = this.picture;
    this.at ??= [Math.floor(width / 2), Math.floor(height / 2)];
    if (event.key in steps) {
      const by = event.shiftKey ? 1 : Math.max(1, Math.round(Math.max(width, height) / 64));
      this.at = this.at.map((value, axis) =>
        Math.min(Math.max(value + by * steps[event.key][axis], 0), [width, height][axis] - 1));
      if (this.drawer === KEYBOARD || (this.#isOpen && this.drawer === null)) {
        this.stroke.moveTo(...this.at);
        this.#paintStroke();
      }
    } else if (event.key === "Enter" && this.#isOpen) {
      this.finish();
    } else if (event.key === " " || event.key === "Enter") {
      if (!event.repeat) this.#draw();
    } else if (event.key === "Escape" && this.stroke) {
      this.giveUp();
    } else {
      return;
    }
    event.preventDefault();
    this.#showCursor(...this.at);
    this.onReach(this.cursor.place);
  }

  #draw() {
    if (this.drawer === KEYBOARD) {
      this.finish();
    } else if (this.drawer === null) {
      this.#begin(KEYBOARD, this.at);
      if (this.#isOpen) this.#addCorner(this.at);
      if (!["line", "rectangle"].includes(this.stroke?.tool)) this.drawer = null;
      if (this.drawer === null && !this.#isOpen) this.finish();
    }
  }
}
