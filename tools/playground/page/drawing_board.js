// The canvas that one draws on, by pointer or by keyboard.

import { History } from "history";
import { disc, line, rectangle } from "shapes";
import { Change, Replacement } from "steps";

const KEYBOARD = "keyboard"; // in place of a pointer's id

/**
 * settings(): the tool ("brush", "line", "rectangle", "fill", "pick"), the value to draw with, the diameter of the
 * brush, and whether each stroke is an instance of its own.
 * onChange(): called when the picture has changed. onPick(value): called by the tool that picks a value. onEdit():
 * called before the picture is drawn on.
 */
export class DrawingBoard {
  constructor(canvas, cursor, { settings, colors, onChange, onPick, onEdit }) {
    Object.assign(this, { canvas, cursor, settings, colors, onChange, onPick, onEdit });
    canvas.getContext("2d", { alpha: false }); // which makes a saved picture RGB
    this.history = new History();
    this.picture = null;
    this.stroke = null; // { pointer, before, x, y, tool, size, value, id }: by whom, from what, and what it paints
    this.at = null; // of the keyboard
    this.isStale = false; // whether the canvas is to be painted again
    canvas.addEventListener("pointerdown", event => this.#press(event));
    canvas.addEventListener("pointermove", event => this.#move(event));
    for (const type of ["pointerup", "pointercancel"]) canvas.addEventListener(type, event => this.#release(event));
    for (const type of ["pointerleave", "blur"]) canvas.addEventListener(type, () => (this.cursor.hidden = true));
    canvas.addEventListener("keydown", event => this.#key(event));
  }

  /** Show another picture, as a step that can be undone unless it is the first. */
  replace(picture) {
    this.#end();
    if (this.picture) this.history.add(new Replacement(this.picture));
    this.show(picture);
  }

  /** Show another picture without a step, as the next frame of a film. */
  show(picture) {
    this.stroke = null;
    this.picture = picture;
    if (this.canvas.width !== picture.width || this.canvas.height !== picture.height) {
      [this.canvas.width, this.canvas.height] = [picture.width, picture.height];
      this.canvas.parentElement.style.setProperty("--ratio", picture.width / picture.height);
      this.at = null;
    }
    this.#changed();
  }

  /** Change the picture by a function of it, as a step that can be undone. */
  edit(change) {
    this.onEdit();
    this.#end();
    const before = this.picture.copy();
    change(this.picture);
    this.history.add(Change.between(before, this.picture));
    this.#changed();
  }

  get canUndo() {
    return this.history.done.length > 0;
  }

  get canRedo() {
    return this.history.undone.length > 0;
  }

  undo() {
    this.onEdit();
    this.#end();
    if (this.canUndo) this.show(this.history.undo(this.picture));
  }

  redo() {
    this.onEdit();
    this.#end();
    if (this.canRedo) this.show(this.history.redo(this.picture));
  }

  /** Paint the canvas before the browser shows its next frame, and report the change. */
  #changed() {
    this.onChange();
    if (this.isStale) return;
    this.isStale = true;
    requestAnimationFrame(() => {
      this.isStale = false;
      this.canvas.getContext("2d").putImageData(this.picture.toImageData(this.colors), 0, 0);
    });
  }

  #pixelOf(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * this.picture.width);
    const y = Math.floor(((event.clientY - box.top) / box.height) * this.picture.height);
    return [x, y];
  }

  #press(event) {
    if (event.button !== 0 || this.stroke) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.#begin(event.pointerId, ...this.#pixelOf(event));
  }

  #move(event) {
    this.#showCursor(...this.#pixelOf(event));
    if (this.stroke?.pointer !== event.pointerId) return;
    if (event.buttons === 0) { // released where this page could not see it
      this.#end();
      return;
    }
    const parts = this.stroke.tool === "brush" ? (event.getCoalescedEvents?.() ?? []) : [];
    for (const part of parts.length ? parts : [event]) this.#continue(...this.#pixelOf(part));
    this.#changed();
  }

  #release(event) {
    if (this.stroke?.pointer === event.pointerId) this.#end();
  }

  #begin(pointer, x, y) {
    const { tool, value, size } = this.settings();
    const isInside = x >= 0 && y >= 0 && x < this.picture.width && y < this.picture.height;
    if (tool === "pick") {
      if (isInside) this.onPick(this.picture.values[y * this.picture.width + x]);
      return;
    }
    this.onEdit();
    const before = this.picture.copy();
    this.stroke = { pointer, before, x, y, tool, size, value, id: before.instances && before.unusedInstance() };
    if (tool === "fill") {
      if (isInside) for (const at of before.connected(y * before.width + x)) this.#paint(at);
    } else {
      this.#continue(x, y);
    }
    this.#changed();
  }

  #continue(x, y) {
    const { tool, size, before, x: fromX, y: fromY } = this.stroke;
    const paint = at => this.#paint(at);
    if (tool === "brush") {
      line(this.picture, fromX, fromY, x, y, size, paint);
      Object.assign(this.stroke, { x, y });
    } else if (tool !== "fill") { // from where the stroke began
      this.picture = before.copy();
      if (tool === "line") line(this.picture, fromX, fromY, x, y, size, paint);
      else rectangle(this.picture, fromX, fromY, x, y, paint);
    }
  }

  #paint(at) {
    this.picture.values[at] = this.stroke.value;
    if (this.picture.instances) this.picture.instances[at] = this.stroke.id;
  }

  #end() {
    if (!this.stroke) return;
    const { before, id } = this.stroke;
    if (this.picture.instances && !this.settings().strokeIsInstance) this.picture.separateStroke(before, id);
    this.stroke = null;
    this.history.add(Change.between(before, this.picture));
    this.#changed();
  }

  #showCursor(x, y) {
    const { tool, size } = this.stroke ?? this.settings(), { width, height } = this.picture;
    const diameter = tool === "brush" || tool === "line" ? size : 1;
    Object.assign(this.cursor.style, {
      left: `${((x + 0.5 - diameter / 2) / width) * 100}%`,
      top: `${((y + 0.5 - diameter / 2) / height) * 100}%`,
      width: `${(diameter / width) * 100}%`,
      height: `${(diameter / height) * 100}%`,
    });
    this.cursor.hidden = false;
  }

  /** Arrows move, space draws: a dab, or the first and the second corner of a line or a rectangle; Escape ends it. */
  #key(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const { width, height } = this.picture;
    this.at ??= [Math.floor(width / 2), Math.floor(height / 2)];
    if (event.key in steps) {
      const by = event.shiftKey ? 1 : Math.max(1, Math.round(Math.max(width, height) / 64));
      this.at = this.at.map((value, axis) =>
        Math.min(Math.max(value + by * steps[event.key][axis], 0), [width, height][axis] - 1));
      if (this.stroke?.pointer === KEYBOARD) {
        this.#continue(...this.at);
        this.#changed();
      }
    } else if (event.key === " " || event.key === "Enter") {
      if (!event.repeat) this.#draw();
    } else if (event.key === "Escape" && this.stroke) {
      this.picture = this.stroke.before;
      this.stroke = null;
      this.#changed();
    } else {
      return;
    }
    event.preventDefault();
    this.#showCursor(...this.at);
  }

  #draw() {
    const began = this.stroke;
    if (!began) this.#begin(KEYBOARD, ...this.at);
    if (began || !["line", "rectangle"].includes(this.stroke?.tool)) this.#end();
  }
}
