// Runs the network of onnx_engine.js. Its first message opens the network, each later one translates.

let session = null;
let runtime = null;

onmessage = async ({ data }) => {
  try {
    postMessage({ result: session ? await translate(data.inputs) : await open(data) });
  } catch (error) {
    postMessage({ error: `onnxruntime-web: ${error.message || error}` });
  }
};

async function open({ runtime: address, wasm, generator }) {
  runtime = await import(address);
  runtime.env.wasm.numThreads = 1; // more need headers that a file has not, and gain little
  runtime.env.wasm.wasmBinary = wasm.buffer;
  runtime.env.logLevel = "error";
  for (const executionProviders of await choices()) {
    try {
      session = await runtime.InferenceSession.create(generator, { executionProviders });
      return true;
    } catch (error) { // a GPU that lacks memory or an operation
      if (executionProviders.length === 1) throw error;
    }
  }
}

/** WebGPU where the runtime has it and the browser a GPU, otherwise the CPU. */
async function choices() {
  const adapter = runtime.env.webgpu && (await navigator.gpu?.requestAdapter().catch(() => null));
  return adapter && !adapter.info?.isFallbackAdapter ? [["webgpu", "wasm"], ["wasm"]] : [["wasm"]];
}

async function translate(inputs) {
  const tensors = Object.fromEntries(
    Object.entries(inputs).map(([name, { type, data, dims }]) => [name, new runtime.Tensor(type, data, dims)]));
  const { translated } = await session.run(tensors);
  return translated.data;
}
