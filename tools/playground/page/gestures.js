// Zoom and move a picture with the wheel, two fingers, the middle button, or by dragging with the space bar held.

const LINE = 16, PAGE = 400; // pixels per line and per page, for wheels that report lines or pages
const TOGETHER_MS = 300; // a second finger within this time starts a gesture; a later finger does nothing

/**
 * isMoved: whether every mouse drag moves the picture, because the user does not draw on it.
 * onGrip(): called when a second finger starts a gesture. The first finger may have begun a stroke.
 */
export class Gestures {
  constructor(frame, zoom, { isMoved = false, onGrip = () => {} } = {}) {
    Object.assign(this, { frame, zoom, isMoved, onGrip });
    this.held = new Map(); // positions of the pointers that move the picture, by pointer id
    this.finger = null; // first finger, { id, place, time }
    this.penIsDown = false;
    this.isOver = false; // whether the mouse or pen is over the picture; false while the user uses the keyboard
    this.spaceIsDown = false;
    const listen = (type, act) => frame.addEventListener(type, act, { capture: true, passive: false });
    listen("wheel", event => this.#turn(event));
    listen("pointerdown", event => this.#press(event));
    listen("pointermove", event => this.#move(event));
    for (const type of ["pointerup", "pointercancel"]) listen(type, event => this.#release(event));
    listen("mousedown", event => event.button === 1 && event.preventDefault()); // do not scroll the page
    frame.addEventListener("pointerleave", () => (this.isOver = false));
    document.addEventListener("keydown", event => this.#key(event), { capture: true });
    document.addEventListener("keyup", event => this.#keyUp(event), { capture: true });
    addEventListener("blur", () => this.#releaseSpace());
  }

  #turn(event) {
    event.preventDefault();
    const pixels = event.deltaY * [1, LINE, PAGE][event.deltaMode];
    const share = event.ctrlKey ? 0.01 : 0.002; // browsers send a pinch on a touchpad as small turns with Ctrl
    this.zoom.magnify(Math.exp(-share * pixels), this.#pointAt(placeOf(event)));
  }

  #press(event) {
    const { pointerId: id, pointerType: type, button } = event;
    if (type === "pen") this.penIsDown = true;
    if (type !== "touch") {
      if (button === 1 || (button === 0 && (this.spaceIsDown || this.isMoved))) this.#hold(event);
    } else if (!this.isMoved && !this.penIsDown) { // while a pen is down, a touch is the user's hand
      const { finger } = this;
      this.finger ??= { id, place: placeOf(event), time: event.timeStamp };
      if (!this.held.size && finger && event.timeStamp - finger.time < TOGETHER_MS) {
        this.onGrip();
        this.held.set(finger.id, finger.place);
      }
      if (this.held.size) this.#hold(event);
    }
  }

  #hold(event) {
    event.preventDefault();
    event.stopPropagation();
    if (this.held.size === 2) return;
    this.frame.setPointerCapture(event.pointerId);
    this.held.set(event.pointerId, placeOf(event));
    this.frame.classList.add("moving");
  }

  #move(event) {
    const { pointerId: id } = event;
    if (event.pointerType !== "touch") this.isOver = true;
    if (this.finger?.id === id) this.finger.place = placeOf(event);
    if (!this.held.has(id)) return;
    event.stopPropagation();
    const before = grip(this.held), point = this.#pointAt(before.place);
    this.held.set(id, placeOf(event));
    const after = grip(this.held), box = this.frame.getBoundingClientRect();
    this.zoom.magnify(after.spread / before.spread, point);
    this.zoom.move((after.place.x - before.place.x) / box.width, (after.place.y - before.place.y) / box.height);
  }

  #release(event) {
    const { pointerId: id } = event;
    if (event.pointerType === "pen") this.penIsDown = false;
    if (this.finger?.id === id) this.finger = null;
    if (!this.held.delete(id)) return;
    event.stopPropagation();
    if (!this.held.size) this.frame.classList.remove("moving");
  }

  /** If the pointer is over the picture, a drag with Space held moves the picture. Otherwise Space draws. */
  #key(event) {
    if (event.key === "Tab" || event.key?.startsWith("Arrow")) this.isOver = false;
    if (event.key !== " " || !(this.isOver || this.spaceIsDown)) return;
    event.preventDefault();
    event.stopPropagation();
    this.spaceIsDown = true;
    this.frame.classList.add("movable");
  }

  #keyUp(event) {
    if (event.key !== " " || !this.spaceIsDown) return;
    event.preventDefault(); // do not press the focused button
    this.#releaseSpace();
  }

  #releaseSpace() {
    this.spaceIsDown = false;
    this.frame.classList.remove("movable");
  }

  #pointAt({ x, y }) {
    const box = this.frame.getBoundingClientRect();
    return this.zoom.pointAt([(x - box.left) / box.width, (y - box.top) / box.height]);
  }
}

function placeOf({ clientX: x, clientY: y }) {
  return { x, y };
}

/** Return the centre of one or two pointers, and the distance between two pointers. */
function grip(held) {
  const [first, second = first] = held.values();
  const spread = Math.hypot(first.x - second.x, first.y - second.y) || 1;
  return { place: { x: (first.x + second.x) / 2, y: (first.y + second.y) / 2 }, spread };
}
