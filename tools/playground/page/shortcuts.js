// Keyboard shortcuts of the page. A focused control still handles the keys that it needs.

const TOOLS = { b: "brush", e: "eraser", l: "line", r: "rectangle", p: "polygon", f: "fill", i: "pick" };

const OWN_KEYS = { enter: "button, summary, a, [type=color]", home: "[type=range]" }; // keys that controls need

/** chooseTool(name): called for the key of a tool. resizeBrush(by): called for [ and ]. */
export function connectKeys({ board, cursor, palette, zoom, chooseTool, resizeBrush }) {
  const keys = {
    "+": () => zoom.by(1, cursor.place),
    "=": () => zoom.by(1, cursor.place), // on US keyboards, + without Shift
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
    const key = event.key?.toLowerCase() ?? ""; // events from autofill have no key
    const isOfControl = key in OWN_KEYS && event.target.matches(OWN_KEYS[key]);
    if (event.ctrlKey || event.metaKey) {
      if (key !== "z" && key !== "y") return;
      if (key === "y" || event.shiftKey) board.redo();
      else board.undo();
    } else if (key in keys && !event.altKey && !isOfControl) {
      keys[key]();
    } else if (key !== "alt" || !cursor.place) { // Alt over the picture picks a value, and must not open a menu
      return;
    }
    event.preventDefault();
  });
}
