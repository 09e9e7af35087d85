// The engine of the playground. The page's server translates.

import { requestForm } from "source_files";
import { decode } from "wire";

const MODEL = "X-Model"; // header with a digest of the model and options of the server
const OTHER_MODEL =
  "The playground now has another model or other options. Reload the page. Drawings of this model are kept.";

/** An error for a server that does not answer. The page tries again until the server answers. */
class NoConnection extends Error {
  isPassing = true;
}

export async function openEngine(model) {
  let server = null; // digest in the first answer

  async function ask(address, options) {
    let answer;
    try {
      answer = await fetch(address, options);
    } catch {
      throw new NoConnection("The playground does not answer. Start it again: python -m tools.playground");
    }
    const name = answer.headers.get(MODEL);
    server ??= name;
    if (name !== server) throw new Error(OTHER_MODEL);
    if (answer.status === 503) throw new NoConnection(await answer.text());
    if (!answer.ok) throw new Error(await answer.text());
    return answer;
  }

  const layout = { hasClasses: model.classes.length > 0, hasInstances: model.needs_instances };
  return {
    /** Return the translation of a job as an ImageData. For the job's style see StyleStrip. */
    async translate({ picture, seed, other, percent }) {
      const query = new URLSearchParams({ seed, other, percent, picture: 1 });
      const answer = await ask(`translate?${query}`, { method: "POST", body: requestForm(picture, model) });
      return pixels(await answer.blob());
    },

    /** Return sample `index` as a Picture. */
    async sample(index) {
      const answer = await ask(`samples/${index}`);
      const [width, height] = ["X-Width", "X-Height"].map(name => Number(answer.headers.get(name)));
      return decode(new Uint8Array(await answer.arrayBuffer()), width, height, layout);
    },
  };
}

/** Return the pixels of an image file, unchanged, as an ImageData. */
async function pixels(file) {
  const image = await createImageBitmap(file, { colorSpaceConversion: "none" });
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  image.close();
  return context.getImageData(0, 0, canvas.width, canvas.height);
}
