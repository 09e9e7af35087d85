// What one draws with: the classes of a label map, or colours.

const BLACK = 0x000000, WHITE = 0xffffff;

/** The list of the page; `value` is the class id, or 0xRRGGBB, that is chosen. */
export class Palette {
  constructor(list, colorInput, model) {
    this.list = list;
    this.colors = new Map(model.classes.map(kind => [kind.id, parseInt(kind.color, 16)]));
    this.hasClasses = model.classes.length > 0;
    this.colorInput = colorInput;
    const entries = this.hasClasses
      ? model.classes
      : [{ id: BLACK, name: "black", color: "000000" }, { id: WHITE, name: "white", color: "ffffff" }];
    list.replaceChildren(...entries.map(entry => this.#entry(entry)));
    colorInput.parentElement.hidden = this.hasClasses;
    colorInput.addEventListener("input", () => this.choose(parseInt(colorInput.value.slice(1), 16)));
    this.choose(entries[0].id);
  }

  /** The colour of a value, 0xRRGGBB; black for ids that are no class. */
  colorOf = value => (this.hasClasses ? this.colors.get(value) ?? 0 : value);

  /** The value of an empty picture: the first class, or white paper. */
  get paper() {
    return this.hasClasses ? this.colors.keys().next().value : WHITE;
  }

  choose(value) {
    this.value = value;
    for (const input of this.list.querySelectorAll("input")) input.checked = Number(input.value) === value;
    if (!this.hasClasses) this.colorInput.value = `#${value.toString(16).padStart(6, "0")}`;
  }

  #entry({ id, name, color }) {
    const label = document.createElement("label"), input = document.createElement("input");
    const swatch = document.createElement("span"), text = document.createElement("span");
    Object.assign(input, { type: "radio", name: "value", value: id });
    input.addEventListener("change", () => this.choose(id));
    swatch.className = "swatch";
    swatch.style.background = `#${color}`;
    text.textContent = name;
    label.append(input, swatch, text);
    return label;
  }
}
