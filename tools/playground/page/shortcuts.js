// The keys of the page; a control that has the focus keeps its own.

const TOOLS = { b: "brush", e: "eraser", l: "line", r: "rectangle", p: "polygon", f: "fill", i: "pick" };

const OWN_KEYS = { enter: "button, summary, a, [type=color]", home: "[type=range]" }; // and what has them

/** chooseTool(name), resizeBrush(by): called for the keys of tools, and for [ and ]. */
export function connectKeys({ board, cursor, palette, zoom, chooseTool, resizeBrush }) {
  const keys = {
    "+": () => zoom.by(1, cursor.place),
    "=": () => zoom.by(1, cursor.place), // the key of + without Shift
    "-": () => zoom.by(-1, cursor.place),
    home: () => zoom.fit(),
    "[": () => resizeBrush(-1),
    "]": () => resizeBrush(1),
    enter: () => board.finish(),
    escape: () => board.giveUp(),
  };
  for (const [key, name] of Object.entries(TOOLS)) keys[key] = () => chooseTool(name);
  for (let digit = 0; digit < 10; digit++) keys[digit] = () => palette.type(String(digit));

  document.addEventListener("keydown", event => {
    if (event.defaultPrevented || event.target.matches("input[type=number], select, textarea")) return;
    const key = event.key?.toLowerCase() ?? ""; // autofill has none
    const isOfControl = key in OWN_KEYS && event.target.matches(OWN_KEYS[key]);
    if (event.ctrlKey || event.metaKey) {
      if (key !== "z" && key !== "y") return;
      if (key === "y" || event.shiftKey) board.redo();
      else board.undo();
    } else if (key in keys && !event.altKey && !isOfControl) {
      keys[key]();
    } else if (key !== "alt" || !cursor.place) { // held over the picture it picks, and opens no menu of the browser
      return;
    }
    event.preventDefault();
  });
}
