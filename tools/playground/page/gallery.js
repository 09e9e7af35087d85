// The results that are kept, as small pictures.

import { saveBlob } from "download";

const HEIGHT = 260; // pixels; page.css shows half as many, which are so many on a dense screen
const MOST_WIDTH = 2048; // of a panorama

export class Gallery {
  /** store: KeptResults. onOpen(file): called with the file of the result that is chosen. */
  constructor(element, store, onOpen) {
    Object.assign(this, { element, store, onOpen });
  }

  /** Show the results that are kept from earlier. */
  async restore() {
    const shown = (await this.store.all()).map(({ number, file }) => [this.#show(number, file), file]);
    for (const [image, file] of shown) await fill(image, file); // one at a time: all in full would fill the memory
  }

  /** Keep the file of a result (see result_file.js). */
  async keep(file) {
    await fill(this.#show(await this.store.add(file), file), file);
  }

  /** Return the image, which is still empty. */
  #show(number, blob) {
    const file = new File([blob], `result_${number}.png`, { type: blob.type });
    const figure = document.createElement("figure"), image = new Image();
    image.alt = `Result ${number}`;
    const remove = async () => {
      await this.store.remove(number);
      figure.remove();
    };
    const bar = document.createElement("figcaption");
    bar.append(
      button("Open", `Continue from the source of result ${number}`, () => this.onOpen(file)),
      button("Download", `Download result ${number} with its source`, () => saveBlob(file, file.name)),
      button("Remove", `Remove result ${number}`, remove));
    figure.append(image, bar);
    this.element.prepend(figure);
    return image;
  }
}

/** Show the picture of a file, small; one that cannot be decoded stays empty, and can still be removed. */
async function fill(image, file) {
  const whole = await createImageBitmap(file).catch(() => null);
  if (!whole) return;
  const scale = Math.min(1, HEIGHT / whole.height, MOST_WIDTH / whole.width);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [whole.width, whole.height].map(side => Math.max(1, Math.round(scale * side)));
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(whole, 0, 0, canvas.width, canvas.height);
  whole.close();
  image.src = canvas.toDataURL();
}

function button(text, title, onClick) {
  const element = document.createElement("button");
  Object.assign(element, { type: "button", textContent: text, title });
  element.addEventListener("click", onClick);
  return element;
}
