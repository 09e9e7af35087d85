// Instances for label maps without an instance map.

import { PageWorker } from "page_worker";

/** Set picture.instances: each connected part of a class becomes an instance. */
export async function separateInstances(picture) {
  const worker = new PageWorker(import.meta.resolve("instances_worker"));
  try {
    picture.instances = await worker.ask({ width: picture.width, values: picture.values });
  } finally {
    worker.end();
  }
}
