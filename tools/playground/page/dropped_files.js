// Files that the user drops on the page or pastes.

/** Call onFile(file) with the first dropped or pasted file. */
export function connectDrops(onFile) {
  const page = document.documentElement;
  page.addEventListener("dragover", event => {
    event.preventDefault();
    page.classList.add("dropping");
  });
  page.addEventListener("dragleave", () => page.classList.remove("dropping"));
  page.addEventListener("drop", event => {
    event.preventDefault();
    page.classList.remove("dropping");
    onFile(event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", event => {
    if (event.clipboardData.files.length) onFile(event.clipboardData.files[0]);
  });
}
