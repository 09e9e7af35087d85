// The engine of an exported page. onnxruntime-web runs the network in a worker, so that the page stays responsive.

import { latentsOf } from "latents";
import { PageWorker } from "page_worker";
import { piped } from "png";
import { decode, rgbBytes, translatedSize } from "wire";

const NO_SIMD = "This browser has no WebAssembly SIMD, which the network needs. The page shows samples, " +
  "but cannot translate. Open it in a newer browser.";

/** Return the engine. Its `obstacle` is a message if this browser cannot translate, otherwise null. */
export async function openEngine(model) {
  const layout = { hasClasses: model.classes.length > 0, hasInstances: model.needs_instances };
  const network = hasSimd() ? await openNetwork() : null;
  return {
    obstacle: network ? null : NO_SIMD,

    /** Return the translation of a job as an ImageData. For the job's style see StyleStrip. */
    async translate(job) {
      const { width, height, values, instances } = job.picture;
      const columns = padding(width, model), rows = padding(height, model);
      const reflect = (from, to) => {
        rows.positions.forEach((row, y) => columns.positions.forEach((column, x) => {
          to[y * columns.positions.length + x] = from[row * width + column];
        }));
        return to;
      };
      const dims = [rows.positions.length, columns.positions.length], n = dims[0] * dims[1];
      const inputs = { source: tensor(reflect(values, new Uint32Array(n)), dims, model) };
      if (instances) {
        inputs.instances = { type: "int32", data: reflect(instances, new Int32Array(n)), dims: [1, 1, ...dims] };
      }
      const latents = latentsOf(job, model.latents);
      if (latents.length) inputs.latents = { type: "float32", data: latents, dims: [1, latents.length] };
      const rgb = await network.ask({ inputs }, Object.values(inputs).map(input => input.data.buffer));
      const [top, left] = [rows, columns].map(side => side.before * model.scale);
      return cut(rgb, dims.map(side => side * model.scale), top, left, ...translatedSize(width, height, model));
    },

    /** Return sample `index` as a Picture. */
    async sample(index) {
      const bytes = await part(`sample-${index}`), [width, height] = model.sample_sizes[index];
      return decode(bytes, width, height, layout);
    },
  };
}

/** Return whether WebAssembly accepts a module with a vector type: (type (func (result v128))). */
function hasSimd() {
  const header = [0, ...[..."asm"].map(letter => letter.charCodeAt(0)), 1, 0, 0, 0];
  return Boolean(globalThis.WebAssembly?.validate(new Uint8Array([...header, 1, 5, 1, 0x60, 0, 1, 0x7b])));
}

/** Load the network in a worker. Return the worker. */
async function openNetwork() {
  const [runtime, wasm, generator] = await Promise.all(["runtime", "wasm", "generator"].map(part));
  const worker = new PageWorker(import.meta.resolve("onnx_worker"));
  await worker.ask({ runtime: await dataAddress(runtime), wasm, generator }, [wasm.buffer, generator.buffer]);
  return worker;
}

/** Return the bytes of a part, which is embedded in the page or is a file next to the page. */
async function part(name) {
  const element = document.getElementById(`part-${name}`);
  if (element.dataset.file) {
    const answer = await fetch(element.dataset.file).catch(() => null);
    if (!answer?.ok) {
      throw new Error(
        `${element.dataset.file}: cannot be read. Browsers load files next to a page only from a server. Run ` +
        "python -m http.server --bind 127.0.0.1");
    }
    return new Uint8Array(await answer.arrayBuffer());
  }
  const packed = await fetch(`data:application/octet-stream;base64,${element.textContent}`);
  return piped(await packed.blob(), new DecompressionStream("gzip"));
}

/** Return a data URL of a script. If the page is opened from a disk, its workers cannot import blob URLs. */
function dataAddress(bytes) {
  return new Promise(resolve => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.readAsDataURL(new Blob([bytes], { type: "text/javascript" }));
  });
}

/** Return the source position of each padded pixel (reflection), and the padding before the first source pixel. */
function padding(length, { size_multiple: multiple, min_size: least, scale }) {
  const total = Math.max(least, Math.ceil(length / multiple) * multiple);
  const unit = Math.ceil(1 / scale), period = Math.max(2 * (length - 1), 1);
  const before = Math.floor((total - length) / 2 / unit) * unit;
  const positions = Array.from({ length: total }, (_, at) => {
    if (length === 1) return 0;
    const position = (((at - before) % period) + period) % period;
    return Math.min(position, period - position);
  });
  return { before, positions };
}

/** Return the network's input: class ids in the type that the network expects, or (1, 3, H, W) RGB. */
function tensor(values, dims, { n_classes: nClasses, ignore_id: ignored, classes }) {
  if (!classes.length) {
    const rgb = rgbBytes(values), planes = new Uint8Array(rgb.length), n = values.length;
    for (let at = 0; at < n; at++) for (let plane = 0; plane < 3; plane++) planes[plane * n + at] = rgb[3 * at + plane];
    return { type: "uint8", data: planes, dims: [1, 3, ...dims] };
  }
  const ids = values.map(value => (value === ignored ? nClasses : value)); // nClasses is not a class
  const isByte = nClasses <= 255;
  const data = isByte ? Uint8Array.from(ids) : Int32Array.from(ids);
  return { type: isByte ? "uint8" : "int32", data, dims: [1, 1, ...dims] };
}

/** Return a window of a (1, 3, H, W) image as an ImageData. */
function cut(planes, [height, width], top, left, ownWidth, ownHeight) {
  const image = new ImageData(ownWidth, ownHeight), n = height * width;
  for (let y = 0, to = 0; y < ownHeight; y++) {
    for (let x = 0; x < ownWidth; x++) {
      const at = (top + y) * width + left + x;
      for (let plane = 0; plane < 3; plane++) image.data[to++] = planes[plane * n + at];
      image.data[to++] = 255;
    }
  }
  return image;
}
