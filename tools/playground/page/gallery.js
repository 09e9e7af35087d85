// The results that are kept, as small pictures.

import { saveBlob } from "download";

export class Gallery {
  /** store: KeptResults. onOpen(file): called with the file of the result that is chosen. */
  constructor(element, store, onOpen) {
    Object.assign(this, { element, store, onOpen });
  }

  /** Show the results that are kept from earlier. */
  async restore() {
    for (const { number, file } of await this.store.all()) this.#show(number, file);
  }

  /** Keep the file of a result (see result_file.js). */
  async keep(file) {
    this.#show(await this.store.add(file), file);
  }

  #show(number, blob) {
    const file = new File([blob], `result_${number}.png`, { type: blob.type });
    const figure = document.createElement("figure"), image = new Image();
    image.alt = `Result ${number}`;
    image.src = URL.createObjectURL(file);
    const remove = async () => {
      await this.store.remove(number);
      URL.revokeObjectURL(image.src);
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

function button(text, title, onClick) {
  const element = document.createElement("button");
  Object.assign(element, { type: "button", textContent: text, title });
  element.addEventListener("click", onClick);
  return element;
}
