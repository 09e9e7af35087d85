// Files that the page gives to the browser to save.

/** Download the picture on a canvas as PNG, with its exact levels. */
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
