// Translate one job at a time. Of the waiting jobs, only the newest is translated.

const RETRY_MS = 1000;

export class LiveTranslation {
  /**
   * translate(job): returns a promise of an ImageData. After an error with `isPassing`, the newest job is translated
   * again until there is a result or another error. onResult(image, job, milliseconds): called for each result.
   * onError(error): called for each error, but only once for repeated `isPassing` errors.
   * onBusy(isBusy): called with true before the first translation, and with false when no job waits.
   */
  constructor(translate, { onResult, onError, onBusy }) {
    Object.assign(this, { translate, onResult, onError, onBusy });
    this.waiting = null;
    this.running = false;
  }

  /** Translate the job that makeJob() returns, after the current translation. Newer requests replace waiting ones. */
  request(makeJob) {
    this.waiting = { makeJob, since: performance.now() };
    if (!this.running) this.#run();
  }

  async #run() {
    this.running = true;
    this.onBusy(true);
    await null; // combine all changes of one event into one job
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
