// The view of the translation. A slider lays the source over the translation.

/** Shows the newest translation. */
export class ResultView {
  constructor({ section, result, over, slider, time }, colors) {
    Object.assign(this, { section, result, over, slider, time, colors });
    result.getContext("2d", { alpha: false }); // so that a downloaded PNG is RGB
    this.job = null;
    slider.addEventListener("input", () => this.#slide());
    this.#slide();
  }

  /** Show the translation of a job and its duration. image: ImageData. job: { picture, isDraft }. */
  show(image, job, milliseconds) {
    this.job = job;
    for (const canvas of [this.result, this.over]) {
      if (canvas.width !== image.width || canvas.height !== image.height) {
        [canvas.width, canvas.height] = [image.width, image.height];
      }
    }
    if (!job.isDraft) this.result.parentElement.style.setProperty("--ratio", image.width / image.height);
    this.result.getContext("2d").putImageData(image, 0, 0);
    const over = this.over.getContext("2d");
    over.imageSmoothingEnabled = false; // an enlarged source shows sharp pixels
    over.drawImage(job.picture.toCanvas(this.colors), 0, 0, image.width, image.height);
    const isShort = milliseconds < 1000;
    const time = isShort ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
    this.time.textContent = job.isDraft ? `${time}, half size` : time;
    this.result.dispatchEvent(new CustomEvent("translated", { bubbles: true, detail: { milliseconds } }));
  }

  /** Mark whether the translation belongs to an earlier drawing. */
  markStale(isStale) {
    this.section.classList.toggle("stale", isStale && this.job !== null);
  }

  #slide() {
    this.over.style.clipPath = `inset(0 ${100 - this.slider.value}% 0 0)`;
  }
}
