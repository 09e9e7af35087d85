// The gallery: small pictures of the results that the user keeps.

import { saveBlob } from "download";

const HEIGHT = 260; // pixels; twice the height in page.css, for screens with high resolution
const MOST_WIDTH = 2048; // pixels; limits panoramas

export class Gallery {
  /** store: KeptResults. onOpen(file): called when the user opens a result. */
  constructor(element, store, onOpen) {
    Object.assign(this, { element, store, onOpen });
  }

  /** Show the results of earlier visits. */
  async restore() {
    const shown = (await this.store.all()).map(({ number, file }) => [this.#show(number, file), file]);
    for (const [image, file] of shown) await fill(image, file); // decode one at a time, to save memory
  }

  /** Store and show a result file (see result_file.js). */
  async keep(file) {
    await fill(this.#show(await this.store.add(file), file), file);
  }

  /** Add a figure for a result. Return its image element, which is still empty. */
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

/** Show a small copy of a file's picture in `image`. If the file cannot be decoded, the image stays empty. */
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
