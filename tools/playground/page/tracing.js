// A photograph under the drawing, for tracing. It stays in the browser and is not part of the picture.

import { openImage } from "image_file";

const LONGEST = 2048; // longest side of the shown photograph in pixels

export class Tracing {
  /** photo: canvas under the canvas `drawing`. opacity: slider with the opacity of the photograph in percent. */
  constructor({ photo, drawing, opacity }) {
    Object.assign(this, { photo, drawing, opacity });
    opacity.addEventListener("input", () => this.#show());
  }

  /** Show a photograph from a file under the drawing. */
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
    this.photo.width = this.photo.height = 1; // frees memory
    this.#show();
  }

  #show() {
    this.drawing.style.opacity = this.photo.hidden ? 1 : 1 - this.opacity.value / 100;
  }
}
