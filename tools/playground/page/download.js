// Downloads of files that the page creates.

/** Download the picture on a canvas as PNG, without any loss. */
export function saveCanvas(canvas, name) {
  canvas.toBlob(blob => saveBlob(blob, name), "image/png");
}

/** Download a Blob under a name. */
export function saveBlob(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
