// The instances of label maps that come without them.

import { PageWorker } from "page_worker";

/** Make an instance of each connected part of a class. */
export async function separateInstances(picture) {
  const worker = new PageWorker(import.meta.resolve("instances_worker"));
  try {
    picture.instances = await worker.ask({ width: picture.width, values: picture.values });
  } finally {
    worker.end();
  }
}
