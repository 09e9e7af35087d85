// A worker of the page, which computes while one draws.

export class PageWorker {
  /** address: of its script, by import.meta.resolve; it has no import map. */
  constructor(address) {
    this.worker = new Worker(address);
    this.last = Promise.resolve(); // the end of the newest message
  }

  /** Return a promise of the result of a message, which waits for the one before. */
  ask(message, transferred = []) {
    const answer = this.last.then(() => this.#send(message, transferred));
    this.last = answer.catch(() => {});
    return answer;
  }

  /** The worker answers { result } or { error }. */
  #send(message, transferred) {
    const { worker } = this;
    return new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => ("error" in data ? reject(new Error(data.error)) : resolve(data.result));
      worker.onerror = event => reject(new Error(event.message || "The page's worker cannot be started."));
      worker.postMessage(message, transferred);
    });
  }

  end() {
    this.worker.terminate();
  }
}
