// Random noise and style for a network. Equal seeds give the same values as in the playground and in test.py.

import { crc32 } from "png_chunks";

const NAME = "source"; // name of every drawing, as in tools/serve/request_files.py
const STYLE_STREAM = 0x5354594c; // as in models/latent_inputs.py
const SIZE = 624, SHIFT = 397; // constants of MT19937
const BLOCK = 16; // torch.randn computes values in blocks of this size

/** Return nNoise + nStyle values as a Float32Array. If `percent` is not 0, mix them with the values of seed `other`. */
export function latentsOf({ seed, other, percent }, [nNoise, nStyle]) {
  const drawn = number => {
    const ofImage = crc32(new TextEncoder().encode(`${number}/${NAME}`));
    return [...normals(nNoise, ofImage), ...normals(nStyle, ofImage ^ STYLE_STREAM)];
  };
  const first = drawn(seed);
  if (!percent) return Float32Array.from(first);
  const second = drawn(other), angle = (percent / 100) * (Math.PI / 2);
  return Float32Array.from(first, (value, at) => Math.cos(angle) * value + Math.sin(angle) * second[at]);
}

/** Return the n values that torch.randn samples on a CPU. It uses 53 random bits per value if n < 16, otherwise 24. */
function normals(n, seed) {
  const next = mersenneTwister(seed);
  const of24 = () => (next() & 0xffffff) / 2 ** 24;
  const of53 = () => ((next() & 0x1fffff) * 2 ** 32 + next()) / 2 ** 53;
  const values = [];
  if (n < BLOCK) {
    while (values.length < n) {
      const angle = of53(), length = of53();
      values.push(...pair(1 - length, angle));
    }
    return values.slice(0, n);
  }
  for (let at = 0; at < n; at++) values.push(of24());
  for (let at = 0; at + BLOCK <= n; at += BLOCK) makeNormal(values, at);
  if (n % BLOCK) {
    for (let at = n - BLOCK; at < n; at++) values[at] = of24();
    makeNormal(values, n - BLOCK);
  }
  return values;
}

/** Convert a block of uniform values to normal values. */
function makeNormal(values, begin) {
  const half = BLOCK / 2;
  for (let at = begin; at < begin + half; at++) {
    [values[at], values[at + half]] = pair(1 - values[at], values[at + half]);
  }
}

/** Convert two uniform values to two values of N(0, 1) with the Box-Muller transform. */
function pair(length, angle) {
  const radius = Math.sqrt(-2 * Math.log(length));
  return [radius * Math.cos(2 * Math.PI * angle), radius * Math.sin(2 * Math.PI * angle)];
}

/** Return a function that returns the next random 32-bit number (MT19937). */
function mersenneTwister(seed) {
  const state = new Uint32Array(SIZE);
  state[0] = seed;
  for (let at = 1; at < SIZE; at++) state[at] = Math.imul(1812433253, state[at - 1] ^ (state[at - 1] >>> 30)) + at;
  let at = SIZE;
  return () => {
    if (at === SIZE) {
      renew(state);
      at = 0;
    }
    let bits = state[at++];
    bits ^= bits >>> 11;
    bits ^= (bits << 7) & 0x9d2c5680;
    bits ^= (bits << 15) & 0xefc60000;
    return (bits ^ (bits >>> 18)) >>> 0;
  };
}

function renew(state) {
  for (let at = 0; at < SIZE; at++) {
    const bits = (state[at] & 0x80000000) | (state[(at + 1) % SIZE] & 0x7fffffff);
    state[at] = state[(at + SHIFT) % SIZE] ^ (bits >>> 1) ^ (bits & 1 ? 0x9908b0df : 0);
  }
}
