// A background worker with a queue of messages.

export class PageWorker {
  /** address: URL of the worker's script, from import.meta.resolve. A worker has no import map. */
  constructor(address) {
    this.worker = new Worker(address);
    this.last = Promise.resolve(); // resolved when the newest message is answered
  }

  /** Send a message after all earlier messages are answered. Return a promise of the result. */
  ask(message, transferred = []) {
    const answer = this.last.then(() => this.#send(message, transferred));
    this.last = answer.catch(() => {});
    return answer;
  }

  /** Send a message now. The worker must answer { result } or { error }. */
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
