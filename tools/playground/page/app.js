// The page: connects the drawing, the palette, files and camera with an engine that translates.

import { Camera } from "camera";
import { DrawingBoard } from "drawing_board";
import { openEngine } from "engine";
import { pictureOf, readInstances, readPicture } from "image_file";
import { LiveTranslation } from "live_translation";
import { Palette } from "palette";
import { Picture } from "picture";
import { encodeIds } from "png";
import { ResultView, Strip, saveBlob, saveCanvas } from "result_view";

const get = id => document.getElementById(id);
const model = JSON.parse(get("model").textContent);
const hasClasses = model.classes.length > 0;
const camera = new Camera();

const palette = new Palette(get("values"), get("color"), model, () => {});
const view = new ResultView(
  { result: get("result"), over: get("over"), slider: get("slider"), time: get("time") }, palette.colorOf);
const strip = new Strip(get("strip"), job => {
  get("seed").value = job.seed;
  stopCamera();
  board.show(job.picture.copy());
});
const board = new DrawingBoard(get("source"), get("cursor"), {
  settings: () => ({
    tool: document.querySelector("[name=tool]:checked").value,
    value: palette.value,
    size: get("size").valueAsNumber,
    strokeIsInstance: get("instances").value === "stroke",
  }),
  colors: palette.colorOf,
  onChange: translate,
  onPick: value => {
    palette.choose(value);
    choose("brush");
  },
});

let live = null;

function translate() {
  live?.request({ picture: board.picture.copy(), seed: seed() });
}

function seed() {
  return Math.min(Math.max(Math.trunc(get("seed").valueAsNumber) || 0, 0), 2147483647);
}

function report(error, isOfTranslation = false) {
  get("message").hidden = false;
  get("message").dataset.isOfTranslation = isOfTranslation;
  get("message").firstChild.textContent = error.message;
}

function show(image, job, milliseconds) {
  if (get("message").dataset.isOfTranslation === "true") get("message").hidden = true;
  view.show(image, job, milliseconds);
}

/** Run what the user asked for; a problem becomes the message of the page. */
async function attempt(action) {
  get("message").hidden = true;
  try {
    await action();
  } catch (error) {
    report(error);
  }
}

function status(text, busy = false) {
  get("status").textContent = text;
  get("status").classList.toggle("busy", busy);
}

function choose(tool) {
  document.querySelector(`[name=tool][value=${tool}]`).checked = true;
}

function longest() {
  return Math.min(Math.max(get("longest").valueAsNumber || model.longest_side, 16), 4096);
}

// --- pictures -------------------------------------------------------------------------------------------------------

async function openFile(file) {
  if (!file) return;
  const picture = await readPicture(file, model, longest());
  stopCamera();
  get("samples").value = "";
  board.show(picture);
}

async function openSample() {
  const index = get("samples").value;
  if (index === "") return;
  stopCamera();
  board.show(await engine.sample(Number(index)));
}

function openBlank() {
  const side = id => Math.min(Math.max(Math.trunc(get(id).valueAsNumber) || 1, 1), 4096);
  stopCamera();
  board.show(Picture.blank(side("width"), side("height"), palette.paper, model.needs_instances));
}

async function save() {
  const { width, height, values, instances } = board.picture;
  if (!hasClasses) {
    saveCanvas(get("source"), "source.png");
    return;
  }
  saveBlob(await encodeIds(width, height, values), "source.png");
  if (instances) saveBlob(await encodeIds(width, height, instances, 16), "source_instances.png");
}

// --- camera ---------------------------------------------------------------------------------------------------------

async function toggleCamera() {
  if (camera.isOn) {
    stopCamera();
    return;
  }
  await camera.start();
  get("camera").setAttribute("aria-pressed", "true");
  get("samples").value = "";
  requestAnimationFrame(showFrame);
}

function stopCamera() {
  camera.stop();
  get("camera").setAttribute("aria-pressed", "false");
}

/** Translate the camera's newest frame whenever the one before is done. */
function showFrame() {
  if (!camera.isOn) return;
  const { video } = camera;
  if (!live.running && video.videoWidth) {
    board.show(pictureOf(video, video.videoWidth, video.videoHeight, model.longest_side, model.needs_instances));
  }
  requestAnimationFrame(showFrame);
}

// --- controls -------------------------------------------------------------------------------------------------------

function prepareControls() {
  for (const [id, needed] of [
    ["samples-choice", model.samples.length], ["open-instances", model.needs_instances && hasClasses],
    ["camera", !hasClasses], ["instances-choice", model.needs_instances], ["seed-choice", model.takes_seed],
  ]) get(id).hidden = !needed;
  get("samples").replaceChildren(new Option("choose", ""), ...model.samples.map((name, at) => new Option(name, at)));
  [get("width").value, get("height").value] = [model.width, model.height];
  get("longest").value = model.longest_side;
  get("file").accept = hasClasses ? ".png,image/png" : "image/*";
  get("size").max = Math.max(64, Math.round(Math.max(model.width, model.height) / 8));
  get("seed").value = model.seed;
}

const clicks = {
  undo: () => board.undo(),
  redo: () => board.redo(),
  clear: () => board.edit(picture => {
    picture.values.fill(palette.paper);
    picture.instances?.fill(0);
  }),
  open: () => get("file").click(),
  "open-instances": () => get("instances-file").click(),
  save,
  new: openBlank,
  camera: toggleCamera,
  keep: () => strip.keep(get("result"), view.job),
  download: () => saveCanvas(get("result"), "translated.png"),
  dice: () => {
    get("seed").value = Math.floor(Math.random() * 1e6);
    translate();
  },
};
const keys = { b: "brush", l: "line", r: "rectangle", f: "fill", i: "pick" };

function connectControls() {
  for (const [id, action] of Object.entries(clicks)) get(id).addEventListener("click", () => attempt(action));
  get("message").lastChild.addEventListener("click", () => (get("message").hidden = true));
  get("samples").addEventListener("change", () => attempt(openSample));
  get("seed").addEventListener("input", translate);
  get("size").addEventListener("input", () => (get("size-shown").textContent = get("size").value));
  get("file").addEventListener("change", () => attempt(() => openFile(taken(get("file")))));
  get("instances-file").addEventListener("change", () => attempt(async () => {
    const ids = await readInstances(taken(get("instances-file")), board.picture);
    board.edit(picture => picture.instances.set(ids));
  }));
  document.addEventListener("keydown", event => {
    if (event.target.matches("input[type=number], select, textarea")) return;
    const key = event.key.toLowerCase();
    if (event.ctrlKey || event.metaKey) {
      if (key === "z" || key === "y") {
        event.preventDefault();
        if (key === "y" || event.shiftKey) board.redo();
        else board.undo();
      }
    } else if (key in keys && !event.altKey) {
      choose(keys[key]);
    } else if (key === "[" || key === "]") {
      get("size").value = get("size").valueAsNumber + (key === "]" ? 1 : -1);
      get("size").dispatchEvent(new Event("input"));
    }
  });
  connectFiles();
}

/** Take the file of an input, which can then be chosen again. */
function taken(input) {
  const [file] = input.files;
  input.value = "";
  return file;
}

function connectFiles() {
  const page = document.documentElement;
  page.addEventListener("dragover", event => {
    event.preventDefault();
    page.classList.add("dropping");
  });
  page.addEventListener("dragleave", () => page.classList.remove("dropping"));
  page.addEventListener("drop", event => {
    event.preventDefault();
    page.classList.remove("dropping");
    attempt(() => openFile(event.dataTransfer.files[0]));
  });
  document.addEventListener("paste", event => {
    if (event.clipboardData.files.length) attempt(() => openFile(event.clipboardData.files[0]));
  });
}

// --- start ----------------------------------------------------------------------------------------------------------

prepareControls();
status("loading the network", true);
let engine;
await attempt(async () => {
  engine = await openEngine(model);
  live = new LiveTranslation(job => engine.translate(job.picture, job.picture.instances, job.seed), {
    onResult: show,
    onError: error => report(error, true),
    onBusy: busy => status(busy ? "translating" : "ready", busy),
  });
  connectControls();
  document.querySelector("main").hidden = false;
  if (model.samples.length) {
    get("samples").value = "0";
    await openSample();
  } else {
    openBlank();
  }
});
if (!live) status("failed");
