// The engine of the playground: the server that sent the page translates.

import { decode, encode, translatedSize } from "wire";

const MODEL = "X-Model"; // the header with a digest of what the page was made for
const OTHER_MODEL =
  "The playground was started with another model or other options. Reload the page; it keeps drawings of this model.";

/** The server is not there; it may come back. */
class NoConnection extends Error {
  isPassing = true;
}

export async function openEngine(model) {
  let server = null; // which model it has, by its first answer

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
    /** Return the translation as an ImageData. source: a Picture. instances: ids or null. style: see StyleStrip. */
    async translate(source, instances, style) {
      const { width, height } = source;
      const body = encode(source, instances, layout.hasClasses);
      const { seed, other, percent } = style, query = new URLSearchParams({ width, height, seed, other, percent });
      const bytes = await ask(`translate?${query}`, {
        method: "POST",
        headers: { "Content-Type": "application/octet-stream" },
        body,
      });
      return opaque(new Uint8Array(await bytes.arrayBuffer()), ...translatedSize(width, height, model));
    },

    /** Return sample `index` of the test split as a Picture. */
    async sample(index) {
      const answer = await ask(`samples/${index}`);
      const [width, height] = ["X-Width", "X-Height"].map(name => Number(answer.headers.get(name)));
      return decode(new Uint8Array(await answer.arrayBuffer()), width, height, layout);
    },
  };
}

function opaque(rgb, width, height) {
  const image = new ImageData(width, height);
  for (let from = 0, to = 0; from < rgb.length; to++) {
    image.data[to++] = rgb[from++];
    image.data[to++] = rgb[from++];
    image.data[to++] = rgb[from++];
    image.data[to] = 255;
  }
  return image;
}
