// A worker of the page, which computes while one draws.

export class PageWorker {
  /** address: of its script, by import.meta.resolve; it has no import map. */
  constructor(address) {
    this.worker = new Worker(address);
  }

  /** Return a promise of the answer to a message, { result } or { error }; the next one waits for it. */
  ask(message, transferred = []) {
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
