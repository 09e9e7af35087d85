// The translation, the source that a slider lays over it, and the strip of results that are kept.

/** Shows the newest translation. */
export class ResultView {
  constructor({ section, result, over, slider, time }, colors) {
    Object.assign(this, { section, result, over, slider, time, colors });
    result.getContext("2d", { alpha: false }); // which makes a download RGB
    this.job = null;
    slider.addEventListener("input", () => this.#slide());
    this.#slide();
  }

  /** Show an ImageData, the translation of job { picture, seed }, which took so many milliseconds. */
  show(image, job, milliseconds) {
    this.job = job;
    for (const canvas of [this.result, this.over]) {
      if (canvas.width !== image.width || canvas.height !== image.height) {
        [canvas.width, canvas.height] = [image.width, image.height];
      }
    }
    this.result.parentElement.style.setProperty("--ratio", image.width / image.height);
    this.result.getContext("2d").putImageData(image, 0, 0);
    const over = this.over.getContext("2d");
    over.imageSmoothingEnabled = false; // a source of another size shows its pixels
    over.drawImage(job.picture.toCanvas(this.colors), 0, 0, image.width, image.height);
    const isShort = milliseconds < 1000;
    this.time.textContent = isShort ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
    this.result.dispatchEvent(new CustomEvent("translated", { bubbles: true, detail: { milliseconds } }));
  }

  /** Mark the picture that is shown as that of another source than the one that is drawn, or as that one's. */
  markStale(isStale) {
    this.section.classList.toggle("stale", isStale && this.job !== null);
  }

  #slide() {
    this.over.style.clipPath = `inset(0 ${100 - this.slider.value}% 0 0)`;
  }
}

/** Keeps results as small pictures; onOpen(picture) is called with the source of the one that is chosen. */
export class Strip {
  constructor(element, onOpen) {
    Object.assign(this, { element, onOpen });
    this.kept = 0;
  }

  /** Keep the translation on a canvas, of job { picture, seed }. */
  keep(canvas, job) {
    const figure = document.createElement("figure"), copy = document.createElement("canvas");
    [copy.width, copy.height] = [canvas.width, canvas.height];
    copy.getContext("2d", { alpha: false }).drawImage(canvas, 0, 0);
    const number = ++this.kept;
    const open = button("Open", `Draw on the source of result ${number}`, () => this.onOpen(job));
    const save = button("Download", `Download result ${number}`, () => saveCanvas(copy, `translated_${number}.png`));
    const remove = button("Remove", `Remove result ${number}`, () => figure.remove());
    const bar = document.createElement("figcaption");
    bar.append(open, save, remove);
    figure.append(copy, bar);
    this.element.prepend(figure);
  }
}

function button(text, title, onClick) {
  const element = document.createElement("button");
  Object.assign(element, { type: "button", textContent: text, title });
  element.addEventListener("click", onClick);
  return element;
}

/** Download the picture on a canvas as PNG, with its exact levels. */
export function saveCanvas(canvas, name) {
  canvas.toBlob(blob => saveBlob(blob, name), "image/png");
}

/** Download a Blob under a name. */
export function saveBlob(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
