// The worker of onnx_engine.js. The first message loads the network. Each later message translates.

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
  runtime.env.wasm.numThreads = 1; // more threads need HTTP headers, which a file cannot have
  runtime.env.wasm.wasmBinary = wasm.buffer;
  runtime.env.logLevel = "error";
  for (const executionProviders of await choices()) {
    try {
      session = await runtime.InferenceSession.create(generator, { executionProviders });
      return true;
    } catch (error) { // the GPU can lack memory or an operation
      if (executionProviders.length === 1) throw error;
    }
  }
}

/** Return the backends to try: first WebGPU, if the runtime and the browser support it, then the CPU. */
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
