"""The page in a real browser, with both engines: the server, and the network that the page carries."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

from tests.conftest import save_image, write_tiny_config
from tests.runs import program_main, run, translate
from tests.tools.playground.pages import Opened, opened, read
from tests.tools.playground.serving import serving

pytestmark = pytest.mark.browser

N_CLASSES = 12  # of the synthetic facades
SIZE = 64
STRONG = "generator.init_gain=0.3"  # or every translation is grey, and a stroke changes nothing


class Trained(NamedTuple):
    """A run, and its network in a page of its own."""

    run: Path
    page: Path


def export_page(run_folder: Path, page: Path) -> None:
    program_main("tools.export")(
        ["--checkpoint", str(run_folder), "--format", "html", "--output", str(page), "--samples", "2"]
    )


@pytest.fixture(scope="module")
def facades(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Label maps with instances -> photographs."""
    config = write_tiny_config(tmp_path_factory.mktemp("facades"))
    size = (f"data.synthetic.height={SIZE}", f"data.synthetic.width={SIZE}")
    run(config, "train.max_steps=1", STRONG, *size)
    run_folder = config.parent / "runs" / "tiny"
    export_page(run_folder, config.parent / "page.html")
    return Trained(run_folder, config.parent / "page.html")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """RGB images -> RGB images."""
    config = write_tiny_config(tmp_path_factory.mktemp("photos"))
    pixels = np.random.default_rng(0).integers(0, 256, (40, 96, 3), dtype=np.uint8)
    for split in ("train", "test"):
        save_image(config.parent / "pairs" / split / "1.png", pixels)
    data = ("data.layout=side_by_side", f"data.root={config.parent / 'pairs'}", "data.instance_edges=false")
    run(config, "train.max_steps=1", STRONG, *data)
    run_folder = config.parent / "runs" / "tiny"
    export_page(run_folder, config.parent / "page.html")
    return Trained(run_folder, config.parent / "page.html")


@pytest.fixture(params=["server", "file"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def page_of(browser: Browser, trained: Trained, engine: str, **size: int) -> Iterator[Opened]:
    if engine == "file":
        with opened(browser, trained.page.as_uri(), **size) as page:
            yield page
        return
    command = ("--checkpoint", str(trained.run), "--opt-level", "O0")
    with serving(*command) as server, opened(browser, server.url, **size) as page:
        yield page


def translated_by_test_py(trained: Trained, source: Path, instances: Path | None, folder: Path) -> np.ndarray:
    """Return the picture that test.py makes of files that the page has saved."""
    arguments = ["--checkpoint", str(trained.run), "--input", str(source), "--opt-level", "O0"]
    if instances is not None:
        (folder / "instances").mkdir()
        instances.rename(folder / "instances" / source.name)
        arguments += ["--instances", str(folder / "instances")]
    translate(*arguments, "--output", str(folder / "out"))
    return read(folder / "out" / source.name).astype(int)


def test_a_stroke_changes_the_picture_as_test_py_translates_it(
    browser: Browser, facades: Trained, engine: str, tmp_path: Path
) -> None:
    with page_of(browser, facades, engine) as page:
        before, source = page.pixels("result"), page.pixels("source")
        assert before.shape == (SIZE, SIZE, 3)
        page.choose("window")
        page.drag((10, 10), (30, 12))
        after = page.pixels("result")
        painted = (page.pixels("source") != source).any(-1)
        assert painted[10:12, 10:30].mean() > 0.5
        assert painted[40:].sum() == 0
        changed = abs(after.astype(int) - before).max(-1)
        assert changed[8:14, 10:30].mean() > 3 * changed[50:].mean()
        labels, instances = page.download("save", tmp_path)
        (picture,) = page.download("download", tmp_path)
        page.page.locator("#undo").click()
        page.wait()
        assert np.array_equal(page.pixels("result"), before)
        assert np.array_equal(page.pixels("source"), source)
        page.page.locator("#redo").click()
        page.wait()
        assert np.array_equal(page.pixels("result"), after)
        page.page.keyboard.press("Control+z")
        page.wait()
        assert np.array_equal(page.pixels("result"), before)
        page.page.keyboard.press("Control+y")
        page.wait()
    assert np.array_equal(read(picture), after)
    assert read(labels).shape == (SIZE, SIZE)
    assert set(np.unique(read(labels))) <= set(range(N_CLASSES))
    expected = translated_by_test_py(facades, labels, instances, tmp_path)
    assert expected.std() > 10
    assert abs(after.astype(int) - expected).max() <= 1


def test_a_saved_label_map_is_loaded_again(browser: Browser, facades: Trained, engine: str, tmp_path: Path) -> None:
    labels = np.random.default_rng(0).integers(0, N_CLASSES, (21, 37), dtype=np.uint8)
    save_image(tmp_path / "wide.png", labels)
    palette = Image.frombytes("P", (37, 21), labels[:, ::-1].tobytes())
    palette.putpalette(list(range(3 * N_CLASSES)))
    palette.save(tmp_path / "palette.png", bits=4)
    with page_of(browser, facades, engine) as page:
        page.drop(tmp_path / "wide.png")
        page.wait()
        expect(page.page.locator("#source")).to_have_attribute("height", "21")
        page.wait()
        assert page.pixels("result").shape == (21, 37, 3)
        saved, instances = page.download("save", tmp_path)
        assert np.array_equal(read(saved), labels)
        first = page.pixels("result").astype(int)
        page.drop(tmp_path / "palette.png")
        page.page.wait_for_timeout(500)
        page.wait()
        (mirrored, _) = page.download("save", tmp_path / "again")
        assert np.array_equal(read(mirrored), labels[:, ::-1])
    expected = translated_by_test_py(facades, saved, instances, tmp_path)
    assert abs(first - expected).max() <= 1


@pytest.mark.parametrize("tool", ["Line", "Rectangle", "Fill"])
def test_shapes_have_exact_ids(browser: Browser, facades: Trained, tool: str, tmp_path: Path) -> None:
    with page_of(browser, facades, "server") as page:
        page.page.locator("#clear").click()
        page.choose("door")
        page.choose(tool)
        page.drag((5, 6), (20, 11))
        labels, instances = (read(path) for path in page.download("save", tmp_path))
        page.choose("Pick")
        page.choose("sky")
        page.drag((5, 6))
        assert page.page.locator("#values :checked + .swatch + span").inner_text() == "door"
        expect(page.page.locator("[name=tool][value=brush]")).to_be_checked()
    door = labels == 4
    expected = {"Line": None, "Rectangle": 16 * 6, "Fill": SIZE * SIZE}[tool]
    assert door.sum() == expected or (expected is None and 16 * 4 < door.sum() < 16 * 9)
    assert set(np.unique(labels)) <= {0, 4}
    assert len(np.unique(instances[door])) == 1
    assert tool == "Fill" or instances[door][0] not in instances[~door]


def test_instances_of_strokes(browser: Browser, facades: Trained, tmp_path: Path) -> None:
    with page_of(browser, facades, "server") as page:
        page.page.locator("#clear").click()
        page.choose("window")
        page.choose("Rectangle")
        page.drag((10, 10), (19, 19))
        page.drag((20, 10), (29, 19))  # connected with the first: one instance
        _, joined = (read(path) for path in page.download("save", tmp_path / "joined"))
        page.page.locator("summary").click()
        page.page.locator("#instances").select_option("stroke")
        page.drag((30, 10), (39, 19))  # and this one of its own
        _, apart = (read(path) for path in page.download("save", tmp_path / "apart"))
        page.page.locator("#instances-file").set_input_files(tmp_path / "joined" / "source_instances.png")
        page.page.wait_for_timeout(300)
        page.wait()
        _, opened_again = (read(path) for path in page.download("save", tmp_path / "opened"))
    assert joined.dtype == np.uint16 or joined.dtype == np.int32
    assert len(np.unique(joined[10:20, 10:30])) == 1
    assert len(np.unique(apart[10:20, 10:40])) == 2
    assert np.array_equal(opened_again, joined)


def test_samples_seeds_and_kept_results(browser: Browser, facades: Trained, engine: str) -> None:
    with page_of(browser, facades, engine) as page:
        first, source = page.pixels("result"), page.pixels("source")
        page.page.locator("#keep").click()
        page.page.locator("#samples").select_option(index=2)
        page.page.wait_for_timeout(300)
        page.wait()
        assert (page.pixels("source") != source).any()
        assert (page.pixels("result") != first).any()
        expect(page.page.locator("#seed-choice")).to_be_hidden()  # this network takes none
        expect(page.page.locator("#camera")).to_be_hidden()
        page.page.get_by_role("button", name="Open", exact=True).click()
        page.wait()
        assert np.array_equal(page.pixels("source"), source)
        assert np.array_equal(page.pixels("result"), first)


def test_the_slider_lays_the_source_over_the_translation(browser: Browser, facades: Trained) -> None:
    with page_of(browser, facades, "server") as page:
        over = page.page.locator("#over")
        assert over.evaluate("over => over.style.clipPath") == "inset(0px 100% 0px 0px)"
        page.page.locator("#slider").fill("40")
        assert over.evaluate("over => over.style.clipPath") == "inset(0px 60% 0px 0px)"
        assert np.array_equal(page.pixels("over"), page.pixels("source"))


def test_one_can_draw_by_keyboard(browser: Browser, facades: Trained, tmp_path: Path) -> None:
    with page_of(browser, facades, "server") as page:
        page.page.locator("#clear").click()
        page.choose("roof")
        page.source.focus()
        press = page.page.keyboard.press
        for key in ("r", "Space", *["Shift+ArrowRight"] * 4, "ArrowDown", "Space"):  # from the centre
            press(key)
        page.wait()
        labels, _ = (read(path) for path in page.download("save", tmp_path))
    rows, columns = (labels == 2).nonzero()
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (32, 33, 32, 36)


def test_one_can_draw_by_touch_on_a_small_screen(browser: Browser, facades: Trained) -> None:
    with serving("--checkpoint", str(facades.run)) as server:
        context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator("#status")).to_have_text("ready")
        assert page.evaluate_handle("document.documentElement.scrollWidth").json_value() == 360
        one = Opened(page)
        before = one.pixels("source")
        page.get_by_text("door", exact=True).tap()
        page.locator("#source").tap(position={"x": 40, "y": 60})
        one.wait()
        assert (one.pixels("source") != before).any()
        context.close()


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("notes.txt", lambda path: path.write_text("hello"), "notes.txt: is no PNG. Save the label map as a PNG"),
        (
            "photo.png",
            lambda path: save_image(path, np.zeros((4, 4, 3), np.uint8)),
            "holds RGB colours, expected class",
        ),
        ("ids.png", lambda path: save_image(path, np.full((4, 4), 99, np.uint8)), "(row 0, column 0) holds id 99"),
        ("cut.png", lambda path: (save_image(path, noise()), path.write_bytes(path.read_bytes()[:200])), "is damaged"),
        ("empty.png", lambda path: path.write_bytes(b""), "empty.png: is no PNG"),
    ],
)
def test_a_wrong_file_is_a_message(
    browser: Browser,
    facades: Trained,
    engine: str,
    name: str,
    make: Callable[[Path], object],
    message: str,
    tmp_path: Path,
) -> None:
    make(tmp_path / name)
    with page_of(browser, facades, engine) as page:
        before = page.pixels("source")
        page.drop(tmp_path / name)
        assert message in page.message()
        assert np.array_equal(page.pixels("source"), before)
        page.page.locator("#message button").click()
        expect(page.page.locator("#message")).to_be_hidden()


def noise() -> np.ndarray:
    return np.random.default_rng(0).integers(0, N_CLASSES, (64, 64), dtype=np.uint8)


def test_photographs_are_dropped_drawn_on_and_saved(
    browser: Browser, photos: Trained, engine: str, tmp_path: Path
) -> None:
    photo = np.random.default_rng(1).integers(0, 256, (30, 41, 3), dtype=np.uint8)
    save_image(tmp_path / "photo.png", photo)
    save_image(tmp_path / "large.png", np.zeros((60, 120, 3), np.uint8))
    (tmp_path / "broken.png").write_bytes(b"x")
    with page_of(browser, photos, engine) as page:
        assert page.pixels("source").shape == (40, 48, 3)  # the sample of the test split
        page.drop(tmp_path / "photo.png")
        expect(page.page.locator("#source")).to_have_attribute("width", "41")
        page.wait()
        assert np.array_equal(page.pixels("source"), photo)
        page.choose("black")
        page.drag((5, 5), (20, 20))
        assert (page.pixels("source")[12, 12] == 0).all()
        (source,) = page.download("save", tmp_path)
        found = page.pixels("result").astype(int)
        page.drop(tmp_path / "broken.png")
        assert "broken.png: cannot be read as an image" in page.message()
        page.drop(tmp_path / "large.png")
        expect(page.page.locator("#source")).to_have_attribute("width", "48")  # the longest side of the training
        page.wait()
        assert page.pixels("source").shape == (24, 48, 3)
    expected = translated_by_test_py(photos, source, None, tmp_path)
    assert expected.std() > 10
    assert abs(found - expected).max() <= 1


def test_the_camera_is_translated_continuously(browser: Browser, photos: Trained, engine: str) -> None:
    with page_of(browser, photos, engine) as page:
        button = page.page.locator("#camera")
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        page.page.wait_for_timeout(700)
        first = page.pixels("result")
        page.page.wait_for_timeout(1500)
        second = page.pixels("result")
        assert first.shape != second.shape or (first != second).any()
        button.click()
        expect(button).to_have_attribute("aria-pressed", "false")
        page.wait()
        still = page.pixels("source")
        page.page.wait_for_timeout(300)
        assert np.array_equal(page.pixels("source"), still)


def test_a_server_that_stopped_is_a_message(browser: Browser, facades: Trained) -> None:
    with serving("--checkpoint", str(facades.run)) as server:
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator("#status")).to_have_text("ready")
    page.locator("#clear").click()
    assert "Start it again: python -m tools.playground" in Opened(page).message()
    context.close()


def test_the_time_of_a_stroke_is_shown(browser: Browser, facades: Trained) -> None:
    with page_of(browser, facades, "server") as page:
        page.page.locator("#result").evaluate(
            "canvas => { window.times = []; "
            "canvas.addEventListener('translated', event => window.times.push(event.detail.milliseconds)); }"
        )
        for row in range(10, 15):
            page.drag((row, row), (40, row))
        times = page.page.locator("#result").evaluate("() => window.times")
        assert len(times) >= 5
        assert 0 < statistics.median(times) < 60_000
        assert page.page.locator("#time").inner_text().split()[1] in ("ms", "s")
