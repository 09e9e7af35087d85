// A worker that numbers the connected parts of label maps. It has no imports, because workers have no import map.

onmessage = ({ data: { width, values } }) => {
  const ids = connectedParts(width, values);
  postMessage({ result: ids }, [ids.buffer]);
};

/** Return the part number of each pixel, from 1. Diagonal neighbours are connected. */
function connectedParts(width, values) {
  const parents = new Int32Array(values.length); // index of an earlier pixel in the same part, or of the pixel itself
  const rootOf = at => {
    while (parents[at] !== at) at = parents[at] = parents[parents[at]];
    return at;
  };
  for (let at = 0, x = 0; at < values.length; at++) {
    let root = at;
    const join = other => {
      if (other < 0 || values[other] !== values[at]) return;
      const found = rootOf(other);
      parents[Math.max(found, root)] = root = Math.min(found, root);
    };
    parents[at] = at;
    if (x > 0) join(at - 1);
    if (x > 0) join(at - width - 1);
    join(at - width);
    if (++x < width) join(at - width + 1);
    else x = 0;
  }
  const ids = new Int32Array(values.length);
  for (let at = 0, last = 0; at < ids.length; at++) ids[at] = parents[at] === at ? ++last : ids[parents[at]];
  return ids;
}
