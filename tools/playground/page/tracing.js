// A photograph under the drawing, to trace. It stays in the browser, and is no part of the picture.

import { openImage } from "image_file";

const LONGEST = 2048; // pixels that a photograph is shown with, at most

export class Tracing {
  /** photo: the canvas under `drawing`, which lets through the share that the slider `opacity` has, in percent. */
  constructor({ photo, drawing, opacity }) {
    Object.assign(this, { photo, drawing, opacity });
    opacity.addEventListener("input", () => this.#show());
  }

  /** Lay the photograph of a file under the drawing. */
  async lay(file) {
    const image = await openImage(file), { photo } = this;
    const factor = Math.min(1, LONGEST / Math.max(image.width, image.height));
    photo.width = Math.max(1, Math.round(image.width * factor));
    photo.height = Math.max(1, Math.round(image.height * factor));
    photo.getContext("2d").drawImage(image, 0, 0, photo.width, photo.height);
    image.close();
    photo.hidden = false;
    this.#show();
  }

  remove() {
    this.photo.hidden = true;
    this.photo.width = this.photo.height = 1; // frees its pixels
    this.#show();
  }

  #show() {
    this.drawing.style.opacity = this.photo.hidden ? 1 : 1 - this.opacity.value / 100;
  }
}
