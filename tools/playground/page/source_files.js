// The files of a translation request. They are Netpbm images, which need no compression.

import { rgbBytes } from "wire";

/** Return the form of a request: the source, and the instances if the network needs instances. */
export function requestForm(picture, model) {
  const { width, height, values } = picture, form = new FormData();
  const colors = new Map(model.file_colors.map(([color, id]) => [id, parseInt(color, 16)]));
  const hasIds = model.classes.length > 0 && !colors.size;
  const pixels = hasIds ? ids(values) : rgbBytes(colors.size ? values.map(id => colors.get(id)) : values);
  form.append("source", netpbm(width, height, pixels, hasIds), "source.pnm");
  if (model.needs_instances) {
    const instances = picture.compactInstances();
    if (!instances) throw new Error("The picture has more than 65536 instances. Choose a simpler one.");
    form.append("instances", netpbm(width, height, ids(instances), true), "instances.pnm");
  }
  return form;
}

function netpbm(width, height, pixels, hasIds) {
  return new Blob([`${hasIds ? "P5" : "P6"} ${width} ${height} ${hasIds ? 65535 : 255}\n`, pixels]);
}

/** Return ids below 65536 as big-endian bytes. */
function ids(values) {
  const bytes = new Uint8Array(2 * values.length);
  for (let at = 0; at < values.length; at++) {
    bytes[2 * at] = values[at] >> 8;
    bytes[2 * at + 1] = values[at];
  }
  return bytes;
}
