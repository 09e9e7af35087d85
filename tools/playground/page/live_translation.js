// One translation at a time, and of all that wait only the newest.

export class LiveTranslation {
  /** translate(job): returns a promise of an ImageData. onResult(image, job, milliseconds). onError(error). */
  constructor(translate, { onResult, onError, onBusy }) {
    Object.assign(this, { translate, onResult, onError, onBusy });
    this.waiting = null;
    this.running = false;
  }

  /** Translate a job, unless a newer one comes before its turn. */
  request(job) {
    this.waiting = { job, since: performance.now() };
    if (!this.running) this.#run();
  }

  async #run() {
    this.running = true;
    this.onBusy(true);
    while (this.waiting) {
      const { job, since } = this.waiting;
      this.waiting = null;
      try {
        const image = await this.translate(job);
        this.onResult(image, job, performance.now() - since);
      } catch (error) {
        this.onError(error);
      }
    }
    this.running = false;
    this.onBusy(false);
  }
}
