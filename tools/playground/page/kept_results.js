// Result files in the browser's database. Without a database, results last until the page is closed.

const DATABASE = "pairgan", STORE = "results", NETWORK = "network";

export class KeptResults {
  /** network: name of the network. Results are stored per network. */
  constructor(network) {
    this.network = network;
    this.last = 0; // number of the newest result, used only without a database
    this.database = openDatabase().catch(() => null); // private windows can lack a database
  }

  /** Return { number, file } of each result, oldest first. */
  async all() {
    const store = await this.#store("readonly");
    return store ? answer(store.index(NETWORK).getAll(this.network)) : [];
  }

  /** Store a file. Return its number. */
  async add(file) {
    const store = await this.#store("readwrite");
    if (!store) return ++this.last;
    try {
      return await answer(store.add({ [NETWORK]: this.network, file }));
    } catch {
      throw new Error("The browser has no room for this result. Remove other results, or download this result.");
    }
  }

  async remove(number) {
    const store = await this.#store("readwrite");
    if (store) await answer(store.delete(number));
  }

  async #store(mode) {
    return (await this.database)?.transaction(STORE, mode).objectStore(STORE);
  }
}

async function openDatabase() {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => {
    const store = request.result.createObjectStore(STORE, { keyPath: "number", autoIncrement: true });
    store.createIndex(NETWORK, NETWORK);
  };
  return answer(request);
}

function answer(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
