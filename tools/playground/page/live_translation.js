// One translation at a time, and of all that wait only the newest.

const RETRY_MS = 1000;

export class LiveTranslation {
  /**
   * translate(job): returns a promise of an ImageData. An error with `isPassing` is reported once, and the newest job
   * translated again until another answer comes. onResult(image, job, milliseconds). onError(error).
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
    let isLost = false;
    while (this.waiting) {
      const { makeJob, since } = this.waiting;
      this.waiting = null;
      const job = makeJob();
      try {
        const image = await this.translate(job);
        isLost = false;
        this.onResult(image, job, performance.now() - since);
      } catch (error) {
        if (!isLost || !error.isPassing) this.onError(error);
        isLost = Boolean(error.isPassing);
        if (!isLost) continue;
        await new Promise(resolve => setTimeout(resolve, RETRY_MS));
        this.waiting ??= { makeJob, since };
      }
    }
    this.running = false;
    this.onBusy(false);
  }
}
