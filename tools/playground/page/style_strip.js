// Styles to choose from, each a small translation of the drawing, and the way from the one that is chosen to another.

import { halved } from "drafts";

const N_SEEDS = 6;
const SIDE = 128; // of thumbnails, in pixels of the source

export class StyleStrip {
  /**
   * parts: the elements choices, other (a select), percent (a slider) and seed (a field, which holds the number that is
   * chosen: of a seed, or of a photograph of model.styles).
   * translate(job): returns a promise of an ImageData. onChoose(): called when another style is chosen.
   */
  constructor(parts, model, { translate, onChoose }) {
    Object.assign(this, parts, { model, translate, onChoose });
    this.turn = 0; // of the newest picture whose thumbnails are made
    this.first = model.seed;
    this.#fill();
    this.other.addEventListener("change", () => this.#mix());
    this.percent.addEventListener("input", onChoose);
    this.seed.addEventListener("input", () => this.#mark());
  }

  /** What a translation is drawn by: its style, and how far it goes towards another. */
  get mixture() {
    const isMixed = this.other.value !== "";
    return { other: isMixed ? Number(this.other.value) : 0, percent: isMixed ? this.percent.valueAsNumber : 0 };
  }

  /** Choose a style by its number, and the way to another. */
  choose(seed, { other, percent } = { other: 0, percent: 0 }) {
    this.seed.value = seed;
    if (percent && ![...this.other.options].some(option => option.value === String(other))) {
      this.other.add(new Option(this.#nameOf(other), other));
    }
    this.other.value = percent ? other : "";
    this.percent.value = percent;
    this.percent.disabled = !percent;
    this.#mark();
  }

  /** Show six other seeds. */
  next() {
    const { mixture } = this;
    this.first = (this.first + N_SEEDS) % (2 ** 31 - N_SEEDS);
    this.#fill();
    this.choose(this.seed.value, mixture);
    if (this.picture) this.update(this.picture);
  }

  /** Translate a picture small in each style; a later call ends that. */
  async update(picture) {
    const turn = ++this.turn;
    this.picture = picture;
    let small = picture;
    const hasClasses = this.model.classes.length > 0, least = Math.max(2 * this.model.min_size, SIDE);
    while (Math.min(small.width, small.height) >= least) small = halved(small, hasClasses);
    for (const button of this.choices.children) {
      const image = await this.translate({ picture: small, seed: Number(button.value), other: 0, percent: 0 });
      if (turn !== this.turn) return;
      const [canvas] = button.children;
      [canvas.width, canvas.height] = [image.width, image.height];
      canvas.getContext("2d").putImageData(image, 0, 0);
    }
  }

  /** End the translation of thumbnails, as when one draws. */
  stop() {
    this.turn++;
  }

  #nameOf(number) {
    return this.model.styles[number] ?? `seed ${number}`;
  }

  #fill() {
    const { styles } = this.model;
    const numbers = styles.length ? [...styles.keys()] : Array.from({ length: N_SEEDS }, (_, at) => this.first + at);
    this.choices.replaceChildren(...numbers.map(number => this.#button(number)));
    const others = numbers.map(number => new Option(this.#nameOf(number), number));
    this.other.replaceChildren(new Option("none", ""), ...others);
    this.percent.disabled = true;
    this.#mark();
  }

  #button(number) {
    const button = document.createElement("button"), canvas = document.createElement("canvas");
    Object.assign(button, { type: "button", value: number, title: `Use ${this.#nameOf(number)}` });
    button.append(canvas, this.#nameOf(number));
    button.addEventListener("click", () => {
      this.choose(number);
      this.onChoose();
    });
    return button;
  }

  #mix() {
    this.percent.disabled = this.other.value === "";
    this.percent.value = this.percent.disabled ? 0 : 50;
    this.onChoose();
  }

  #mark() {
    for (const button of this.choices.children) {
      button.setAttribute("aria-pressed", String(button.value === this.seed.value));
    }
  }
}
