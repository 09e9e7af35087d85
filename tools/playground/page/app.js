// The page: connects the drawing, the palette, files and camera with an engine that translates.

import { Camera } from "camera";
import { Cursor } from "cursor";
import { Drafts } from "drafts";
import { DrawingBoard } from "drawing_board";
import { saveBlob, saveCanvas } from "download";
import { connectDrops } from "dropped_files";
import { openEngine } from "engine";
import { Gallery } from "gallery";
import { Gestures } from "gestures";
import { pictureOf, readInstances, readPicture } from "image_file";
import { identity, keepDrawing, keptDrawing } from "kept_drawing";
import { KeptResults } from "kept_results";
import { LiveTranslation } from "live_translation";
import { Palette } from "palette";
import { Picture } from "picture";
import { encodeIds } from "png";
import { decodeResult, encodeResult, nameOf } from "result_file";
import { ResultView } from "result_view";
import { connectKeys } from "shortcuts";
import { StyleStrip } from "style_strip";
import { Tracing } from "tracing";
import { Zoom } from "zoom";

const get = id => document.getElementById(id);
const model = JSON.parse(get("model").textContent);
const hasClasses = model.classes.length > 0;
const longestSide = Math.max(model.width, model.height); // longest side of a camera frame
const fileSide = Math.max(model.file_side, longestSide); // default for the longest side of an opened file
const camera = new Camera(stopCamera);

const palette = new Palette(get("values"), get("color"), model);
const view = new ResultView(
  {
    section: get("translation"), result: get("result"), over: get("over"), slider: get("slider"), time: get("time"),
  }, palette.colorOf);
const results = new KeptResults(`${location.pathname} ${identity(model)}`);
const gallery = new Gallery(get("gallery"), results, file => attempt(() => openFile(file)));
const drafts = new Drafts(model);
const zoom = new Zoom(document.querySelector("main"), ({ isFit }) => (get("fit").disabled = isFit));
const tracing = new Tracing({ photo: get("photo"), drawing: get("source"), opacity: get("opacity") });
const cursor = new Cursor(get("cursor"));
const board = new DrawingBoard({ canvas: get("source"), cursor, corner: get("corner") }, {
  settings: () => ({
    tool: tool(),
    value: palette.value,
    paper: palette.paper,
    size: get("size").valueAsNumber,
    strokeIsInstance: get("instances").value === "stroke",
  }),
  colors: palette.colorOf,
  onChange: () => {
    get("undo").disabled = !board.canUndo;
    get("redo").disabled = !board.canRedo;
    get("samples").value = ""; // the picture no longer equals the sample
    translate();
  },
  onResize: () => {
    const { width, height } = board.picture;
    get("source-stage").style.setProperty("--ratio", width / height);
    zoom.fit();
  },
  onPick: value => {
    palette.choose(value);
    if (tool() === "pick") choose("brush");
  },
  onEdit: stopCamera,
  onReach: place => zoom.reveal(place),
});

const PAUSE_MS = 400; // if the pointer pauses this long during a stroke, translate at full size
const styles = new StyleStrip(
  { choices: get("style-choices"), other: get("other"), percent: get("percent"), seed: get("seed") }, model, {
    translate: job => engine.translate(job),
    onChoose: translate,
  });
let live = null;
let pause = null; // timer for PAUSE_MS
let opening = 0; // number of the last request to open a picture; results of earlier requests are ignored

function translate() {
  view.markStale(true);
  styles.stop();
  live?.request(() => (board.stroke ? job(drafts.of(board.picture)) : job()));
  clearTimeout(pause);
  if (board.stroke) pause = setTimeout(() => live?.request(() => job()), PAUSE_MS);
}

/** Return a job for the engine: a draft or the whole picture, with the chosen style. */
function job({ picture, isDraft } = { picture: board.picture.copy(), isDraft: false }) {
  return { picture, isDraft, seed: seed(), ...styles.mixture };
}

async function translation(job) {
  const began = performance.now();
  const image = await engine.translate(job);
  if (!job.isDraft) drafts.milliseconds = performance.now() - began;
  return image;
}

/** Return the whole number in a field, limited to the allowed range, or `otherwise` if the field is empty. */
function numberIn(id, least, most, otherwise) {
  const typed = get(id).valueAsNumber;
  const number = Math.min(Math.max(Number.isNaN(typed) ? otherwise : Math.trunc(typed), least), most);
  if (document.activeElement !== get(id)) get(id).value = number;
  return number;
}

function seed() {
  return numberIn("seed", 0, 2147483647, 0);
}

/** Show a message. kind: "error", "note", or "translation" (an error that disappears with the next translation). */
function say(text, kind) {
  get("message").hidden = false;
  get("message").dataset.kind = kind;
  get("message").firstChild.textContent = text;
}

function show(image, job, milliseconds) {
  if (get("message").dataset.kind === "translation") get("message").hidden = true;
  for (const id of ["keep", "download", "download-both"]) get(id).disabled = job.isDraft;
  view.show(image, job, milliseconds);
  view.markStale(live.waiting !== null);
  if (!get("styles").hidden && !job.isDraft && !live.waiting && !camera.isOn) {
    styles.update(job.picture).catch(() => {}); // the next translation reports the error
  }
}

function reportTranslation(error) {
  say(error.message, "translation");
  if (error.isPassing) status("no connection");
}

/** Run an action of the user. If it fails, show the error as the page's message. */
async function attempt(action) {
  get("message").hidden = true;
  try {
    await action();
  } catch (error) {
    say(error.message, "error");
  }
}

function status(text, busy = false) {
  get("status").textContent = text;
  get("status").classList.toggle("busy", busy);
}

function tool() {
  return document.querySelector("[name=tool]:checked").value;
}

function choose(name) {
  document.querySelector(`[name=tool][value=${name}]`).checked = true;
}

/** Return the longest side that an opened picture can have. */
function longest() {
  return numberIn("longest", 16, 4096, fileSide);
}

// --- pictures -------------------------------------------------------------------------------------------------------

/**
 * Show the picture that read() returns, unless the user opens another picture meanwhile.
 * Return whether the picture is shown. prepare(): called just before.
 */
async function open(read, prepare = () => {}) {
  const turn = ++opening;
  const picture = await read();
  if (turn !== opening) return false;
  stopCamera();
  prepare();
  board.replace(picture);
  return true;
}

async function openFile(file) {
  if (!file) return;
  const result = await decodeResult(file, model);
  if (result) {
    if ((await open(() => result.picture, () => styles.choose(result.seed, result))) && result.of !== nameOf(model)) {
      say(`${file.name}: was translated by ${result.of}.`, "note");
    }
    return;
  }
  let read;
  const isShown = await open(async () => {
    read = await readPicture(file, model, longest(), model.max_pixels);
    return read.picture;
  });
  const { picture, width, height } = read;
  if (!isShown || picture.values.length === width * height) return;
  say(
    `${file.name}: was shrunk from ${width}x${height} to ${picture.width}x${picture.height} pixels. ` +
    `The limits are ${model.max_pixels} pixels in total, and "Longest side" under More.`, "note");
}

/** Show a photograph under the drawing. Without a file, remove the photograph. */
async function trace(file) {
  if (file) await tracing.lay(file);
  else tracing.remove();
  get("photo-choice").hidden = get("untrace").hidden = !file;
}

async function openSample(index) {
  if (index !== "" && (await open(() => engine.sample(Number(index))))) get("samples").value = index;
}

async function openInstances(file) {
  const { picture } = board;
  const ids = await readInstances(file, picture);
  if (ids.length === board.picture.values.length) board.edit(changed => changed.instances.set(ids));
}

async function openBlank() {
  const width = numberIn("width", 1, 4096, model.width), height = numberIn("height", 1, 4096, model.height);
  if (width * height > model.max_pixels) {
    throw new Error(`${width}x${height}: a picture has at most ${model.max_pixels} pixels. Choose a smaller size.`);
  }
  await open(() => Picture.blank(width, height, palette.paper, model.needs_instances));
}

/** Return a canvas with a label map in the colours of label map files, which can differ from the palette. */
function coloredCanvas(picture) {
  const colorOf = new Map(model.file_colors.map(([color, id]) => [id, parseInt(color, 16)]));
  return picture.toCanvas(value => colorOf.get(value));
}

async function save() {
  const { width, height, values, instances } = board.picture;
  const ids = instances && board.picture.compactInstances();
  if (instances && !ids) throw new Error("The picture has more than 65536 instances, which a PNG cannot hold.");
  if (model.file_colors.length) saveCanvas(coloredCanvas(board.picture), "source.png");
  else if (hasClasses) saveBlob(await encodeIds(width, height, values), "source.png");
  else saveCanvas(get("source"), "source.png");
  if (ids) saveBlob(await encodeIds(width, height, ids, 16), "source_instances.png");
}

// --- camera ---------------------------------------------------------------------------------------------------------

async function toggleCamera() {
  if (camera.isOn) {
    stopCamera();
    return;
  }
  const turn = ++opening; // if the user opens a picture meanwhile, do not start the camera
  if (!(await camera.start())) return;
  if (turn !== opening) {
    stopCamera();
    return;
  }
  get("camera").setAttribute("aria-pressed", "true");
  board.replace(board.picture); // record a step, so that Undo restores the drawing
  requestAnimationFrame(showFrame);
}

function stopCamera() {
  camera.stop();
  get("camera").setAttribute("aria-pressed", "false");
}

/** Translate the camera's newest frame as soon as the previous translation is finished. */
function showFrame() {
  if (!camera.isOn) return;
  const { video } = camera;
  if (!live.running && video.videoWidth) {
    const { videoWidth: width, videoHeight: height } = video;
    board.show(pictureOf(video, width, height, longestSide, model.max_pixels, model.needs_instances));
  }
  requestAnimationFrame(showFrame);
}

// --- controls -------------------------------------------------------------------------------------------------------

function prepareControls() {
  for (const [id, needed] of [
    ["samples-choice", model.samples.length], ["open-instances", model.needs_instances],
    ["camera", !hasClasses],
    ["instances-choice", model.needs_instances], ["seed-choice", model.takes_seed && !model.styles.length],
    ["styles", model.takes_seed || model.styles.length], ["mix-choice", model.mixes_styles],
    ["next-styles", !model.styles.length],
  ]) get(id).hidden = !needed;
  get("samples").replaceChildren(new Option("choose", ""), ...model.samples.map((name, at) => new Option(name, at)));
  [get("width").value, get("height").value] = [model.width, model.height];
  get("longest").value = fileSide;
  get("file").accept = hasClasses && !model.file_colors.length ? ".png,image/png" : "image/*";
  get("size").max = Math.max(64, Math.round(Math.max(model.width, model.height) / 8));
  styles.choose(model.styles.length ? 0 : model.seed);
  for (const id of ["undo", "redo", "keep", "download", "download-both"]) get(id).disabled = true;
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
  keep: async () => gallery.keep(await encodeResult(get("result"), view.job, model)),
  download: () => saveCanvas(get("result"), "translated.png"),
  "download-both": async () => saveBlob(await encodeResult(get("result"), view.job, model), "result.png"),
  trace: () => get("photo-file").click(),
  untrace: () => trace(null),
  "zoom-in": () => zoom.by(1),
  "zoom-out": () => zoom.by(-1),
  fit: () => zoom.fit(),
  dice: () => {
    styles.choose(Math.floor(Math.random() * 1e6));
    translate();
  },
  "next-styles": () => styles.next(),
};

function connectControls() {
  for (const [id, action] of Object.entries(clicks)) get(id).addEventListener("click", () => attempt(action));
  get("message").lastChild.addEventListener("click", () => (get("message").hidden = true));
  get("samples").addEventListener("change", () => attempt(() => openSample(get("samples").value)));
  get("seed").addEventListener("input", translate);
  get("size").addEventListener("input", () => (get("size-shown").textContent = get("size").value));
  get("file").addEventListener("change", () => attempt(() => openFile(taken(get("file")))));
  get("photo-file").addEventListener("change", () => attempt(() => trace(taken(get("photo-file")))));
  get("instances-file").addEventListener("change", () => attempt(() => openInstances(taken(get("instances-file")))));
  connectKeys({ board, cursor, palette, zoom, chooseTool: choose, resizeBrush });
  new Gestures(get("source-stage"), zoom, { onGrip: () => board.takeBack() });
  new Gestures(get("result-stage"), zoom, { isMoved: true });
  connectDrops(file => attempt(() => openFile(file)));
  addEventListener("pagehide", keep); // Android ends hidden pages without this event
  document.addEventListener("visibilitychange", keep);
}

function resizeBrush(by) {
  get("size").value = get("size").valueAsNumber + by;
  get("size").dispatchEvent(new Event("input"));
}

/** Store the drawing, so that the page shows it again after a reload. */
function keep() {
  if (board.picture && !camera.isOn) keepDrawing(board.picture, get("samples").value, model);
}

/** Return the chosen file of an input, and clear the input, so that the user can choose the same file again. */
function taken(input) {
  const [file] = input.files;
  input.value = "";
  return file;
}

// --- start ----------------------------------------------------------------------------------------------------------

/** Show the stored drawing, or else the first sample. */
async function openFirst() {
  const kept = await keptDrawing(model);
  if (kept) {
    board.replace(kept.picture);
    get("samples").value = kept.sample;
  } else if (model.samples.length) {
    await openSample("0");
  }
}

prepareControls();
status("loading the network", true);
let engine;
await attempt(async () => {
  engine = await openEngine(model);
  if (!engine.obstacle) {
    live = new LiveTranslation(translation, {
      onResult: show,
      onError: reportTranslation,
      onBusy: busy => status(busy ? "translating" : "ready", busy),
    });
  }
  await openFirst();
  gallery.restore();
});
if (engine) {
  if (!board.picture) await openBlank();
  connectControls();
  document.body.classList.remove("loading");
}
if (!live) status(engine ? "no translations" : "failed");
if (engine?.obstacle) {
  get("translation").hidden = get("translation-bar").hidden = true;
  say(engine.obstacle, "error");
}
