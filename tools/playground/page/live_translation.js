// One translation at a time, and of all that wait only the newest.

export class LiveTranslation {
  /**
   * translate(job): returns a promise of an ImageData. onResult(image, job, milliseconds). onError(error).
   * onBusy(isBusy): called when the first translation begins, and after the last.
   */
  constructor(translate, { onResult, onError, onBusy }) {
    Object.assign(this, { translate, onResult, onError, onBusy });
    this.waiting = null;
    this.running = false;
  }

  /** Translate the job that `makeJob` returns when its turn comes, unless a newer one comes before. */
  request(makeJob) {
    this.waiting = { makeJob, since: performance.now() };
    if (!this.running) this.#run();
  }

  async #run() {
    this.running = true;
    this.onBusy(true);
    await null; // so that the changes of one event are one job
    while (this.waiting) {
      const { makeJob, since } = this.waiting;
      this.waiting = null;
      const job = makeJob();
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
