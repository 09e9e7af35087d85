// The results that are kept, as small pictures.

import { saveBlob } from "download";

const HEIGHT = 260; // pixels; page.css shows half as many, which are so many on a dense screen

export class Gallery {
  /** store: KeptResults. onOpen(file): called with the file of the result that is chosen. */
  constructor(element, store, onOpen) {
    Object.assign(this, { element, store, onOpen });
  }

  /** Show the results that are kept from earlier. */
  async restore() {
    for (const { number, file } of await this.store.all()) await this.#show(number, file);
  }

  /** Keep the file of a result (see result_file.js). */
  async keep(file) {
    await this.#show(await this.store.add(file), file);
  }

  async #show(number, blob) {
    const file = new File([blob], `result_${number}.png`, { type: blob.type });
    const figure = document.createElement("figure"), image = new Image();
    image.alt = `Result ${number}`;
    image.src = await smallAddress(file).catch(() => ""); // one that the browser has lost can still be removed
    const remove = async () => {
      await this.store.remove(number);
      figure.remove();
    };
    const bar = document.createElement("figcaption");
    bar.append(
      button("Open", `Go on from the source of result ${number}`, () => this.onOpen(file)),
      button("Download", `Download result ${number} with its source`, () => saveBlob(file, file.name)),
      button("Remove", `Remove result ${number}`, remove));
    figure.append(image, bar);
    this.element.prepend(figure);
  }
}

/** Return an image file as the address of a small one: as many whole ones would fill the memory. */
async function smallAddress(file) {
  const whole = await createImageBitmap(file), scale = Math.min(1, HEIGHT / whole.height);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.max(1, Math.round(scale * whole.width)), Math.round(scale * whole.height)];
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(whole, 0, 0, canvas.width, canvas.height);
  whole.close();
  return canvas.toDataURL();
}

function button(text, title, onClick) {
  const element = document.createElement("button");
  Object.assign(element, { type: "button", textContent: text, title });
  element.addEventListener("click", onClick);
  return element;
}
