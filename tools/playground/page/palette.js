// The palette: the classes or colours to draw with.

const BLACK = 0x000000, WHITE = 0xffffff;
const TYPING_MS = 1000; // digits typed within this time form one number

/** The list of classes or colours on the page. `value` is the chosen class id, or the chosen colour as 0xRRGGBB. */
export class Palette {
  constructor(list, colorInput, model) {
    this.list = list;
    this.colors = new Map(model.classes.map(kind => [kind.id, parseInt(kind.color, 16)]));
    this.hasClasses = model.classes.length > 0;
    this.colorInput = colorInput;
    const entries = this.hasClasses
      ? model.classes.map(kind => ({ ...kind, number: String(kind.id) }))
      : [{ id: BLACK, name: "black", color: "000000", number: "1" },
        { id: WHITE, name: "white", color: "ffffff", number: "2" }];
    this.values = new Map(entries.map(({ number, id }) => [number, id]));
    this.typed = { number: "", time: 0 };
    list.replaceChildren(...entries.map(entry => this.#entry(entry)));
    colorInput.parentElement.hidden = this.hasClasses;
    colorInput.addEventListener("input", () => this.choose(parseInt(colorInput.value.slice(1), 16)));
    this.choose(entries[0].id);
  }

  /** Return the colour of a value as 0xRRGGBB. Unknown class ids are black. */
  colorOf = value => (this.hasClasses ? this.colors.get(value) ?? 0 : value);

  /** The value of an empty picture: the first class, or white. */
  get paper() {
    return this.hasClasses ? this.colors.keys().next().value : WHITE;
  }

  choose(value) {
    this.value = value;
    for (const input of this.list.querySelectorAll("input")) input.checked = Number(input.value) === value;
    if (!this.hasClasses) this.colorInput.value = `#${value.toString(16).padStart(6, "0")}`;
  }

  /** Add a typed digit to the number, and choose the entry with this number. */
  type(digit) {
    const now = performance.now(), isNext = now - this.typed.time < TYPING_MS;
    const begins = number => [...this.values.keys()].some(known => known.startsWith(number));
    let number = (isNext ? this.typed.number : "") + digit;
    if (!begins(number)) number = digit;
    this.typed = { number, time: now };
    if (this.values.has(number)) this.choose(this.values.get(number));
  }

  #entry({ id, name, color, number }) {
    const label = document.createElement("label"), input = document.createElement("input");
    const swatch = document.createElement("span"), text = document.createElement("span");
    Object.assign(input, { type: "radio", name: "value", value: id });
    input.addEventListener("change", () => this.choose(id));
    swatch.className = "swatch";
    swatch.style.background = `#${color}`;
    text.textContent = name;
    label.append(input, swatch, text);
    if (name !== number) {
      const hint = document.createElement("kbd");
      hint.textContent = number;
      hint.ariaHidden = "true";
      label.append(hint);
    }
    return label;
  }
}
