// The strip of styles: a small translation of the drawing for each style, and a slider that mixes two styles.

import { halved } from "drafts";

const N_SEEDS = 6;
const SIDE = 128; // sides of thumbnails in source pixels

export class StyleStrip {
  /**
   * parts: the elements choices, other (a select), percent (a slider) and seed (a field). The field contains the chosen
   * number: a seed, or an index of model.styles.
   * translate(job): returns a promise of an ImageData. onChoose(): called when the user chooses a style.
   */
  constructor(parts, model, { translate, onChoose }) {
    Object.assign(this, parts, { model, translate, onChoose });
    this.turn = 0; // number of the newest update; earlier updates stop
    this.first = model.seed;
    this.#fill();
    this.other.addEventListener("change", () => this.#mix());
    this.percent.addEventListener("input", onChoose);
    this.seed.addEventListener("input", () => this.#mark());
  }

  /** The second style, and its share of the mix in percent. */
  get mixture() {
    const isMixed = this.other.value !== "";
    return { other: isMixed ? Number(this.other.value) : 0, percent: isMixed ? this.percent.valueAsNumber : 0 };
  }

  /** Choose a style by its number, and optionally a second style with its share in percent. */
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

  /** Show the next six seeds. */
  next() {
    const { mixture } = this;
    this.first = (this.first + N_SEEDS) % (2 ** 31 - N_SEEDS);
    this.#fill();
    this.choose(this.seed.value, mixture);
    if (this.picture) this.update(this.picture);
  }

  /** Show a small translation of a picture for each style. A later call stops this one. */
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

  /** Stop translating thumbnails, for example because the user draws. */
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
