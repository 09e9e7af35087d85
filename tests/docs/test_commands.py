"""Every command of README.md and docs/*.md runs, on small stand-ins for data, or is in NOT_RUN with the reason."""

import io
import itertools
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import train
from configs.build import build_discriminator, build_generator
from configs.load import load_config
from inference.load import load_network
from models.originals.format import original_keys
from models.originals.weights import FORMATS, export_original
from tests.conftest import save_image
from tests.docs.documents import DOCUMENTS, ROOT, commands
from tests.images import bands, heights, save_npy, write_data_set
from tests.metrics.networks import save_random_alexnet, save_random_inception
from tests.runs import program_main, translation_script
from tests.videos import write_video
from tests.volumes import save_patients
from utils.cli import run_entry_point

EXTRAS = ("export", "fast", "metrics", "perceptual", "video", "volumes")
NOT_RUN = {f'python -m pip install --editable ".[{extra}]"': "installs" for extra in EXTRAS} | {
    "git clone <this repository> pairgan && cd pairgan": "needs the network",
    "sbatch --nodes 4 scripts/slurm.sbatch runs/mine --config configs/pix2pixhd_512p.yaml data.root=/path/to/data": (
        "tests/scripts runs the script"
    ),
    "python -m tools.convert_data drawn-volumes HEADS": "draws 20 heads; HEADS below has five small ones",
    "python -m tools.convert_data drawn-volumes HEADS --patients 20 --size 96": "the same",
    "make demo": "installs; what it runs is run",
    "make demo-unpaired": "installs; tests/configs/test_recipes.py trains its recipe",
    "make gpu-report": "needs a GPU",
    "source .venv/bin/activate": "of the shell",
    "tensorboard --logdir runs": "a server without an end; tests/end_to_end/test_watching.py reads what it shows",
    "python -m tools.playground": "a server without an end; tests/tools/playground opens its page",
    "python -m tools.playground --checkpoint runs/mine": "the same",
    "python -m tools.serve --checkpoint runs/mine": "a server without an end; tests/docs/test_serving.py asks it",
    "python -m tools.serve --checkpoint runs/mine --port 8001 --token-file token --drain-s 60": "the same",
    "python -m tools.serve --checkpoint runs/mine --host 0.0.0.0 --token-file token": "the same",
    'python -c "import secrets; print(secrets.token_urlsafe())" > token': "writes a token",
    "python -m http.server --bind 127.0.0.1 --directory runs/mine/generator": "a server without an end",
    "python -m tools.export --checkpoint runs/mine --format html": "downloads; in tests/tools/export/test_html.py",
    "python -m tools.export --checkpoint runs/mine --format html --folder": "the same",
    "python -m pip install scikit-learn": "installs",
    "python my_networks.py train --config demo run.name=plain generator.name=plain discriminator.name=judge": "below",
    "python my_networks.py test --checkpoint runs/plain": "below",
    "python my_networks.py tools.export --checkpoint runs/plain --format onnx": "in tests/docs/test_library.py",
    "python -m pairgan generator.onnx labels.png translated.png --instances instances.png": "in tests/pairgan",
    "python -m pairgan generator.onnx LABEL_MAPS TRANSLATED --instances INSTANCES": "the same",
    "python -m pairgan generator.onnx bands.npy translated.npy": "in tests/end_to_end/test_other_images.py",
}
TINY = """
run.device=cpu data.workers=0 data.load_width=64 data.load_height=64 data.crop_width=64 data.crop_height=64
data.synthetic_size=[64,64]
data.synthetic_samples=[2,2,2]
generator.base_channels=4 generator.n_downsamplings=2 generator.n_blocks=1
generator.n_upsamplings=2 generator.hidden_channels=4 features.base_channels=4 features.n_downsamplings=2
discriminator.base_channels=4 discriminator.n_layers=2 loss.perceptual=0 loss.l1=1 train.max_steps=2
"""
DATA_SETS = {
    "PAIRS": ["_A", "_B", "_rgb", "_depth"],
    "LABELS": ["_label", "_inst", "_img"],
    "FACADES": [""],
    "ROOT": ["_A", "_B", "_label", "_inst", "_img"],
    "path/to/data": ["_A", "_B", "_label", "_inst", "_img"],
    "datasets/cityscapes": ["_label", "_inst", "_img"],
    "datasets/facades": [""],
    "DRAWN": ["_img"],
    "SMALL_AND_LARGE": ["_A"],
    "SECTIONS": ["_A", "_B"],
}
COLORS_TO_IDS = "python -m tools.convert_data colors-to-ids COLORED/train DATA/train_label"
MADE_BEFORE = {  # what the reader has made by then, besides runs
    **dict.fromkeys(
        ("data.root=SHARDS", "check_data SHARDS", "index-shards SHARDS"),
        "python -m tools.convert_data to-shards PAIRS SHARDS",
    ),
    "--output SOURCES": "python -m tools.convert_data from-photos PHOTOS PAIRS",
    "--colors DATA/train_label.yaml": COLORS_TO_IDS,
    "run.name=aligned": "python -m tools.convert_data align-targets PAIRS ALIGNED",
    "run.name=enlarged": "python -m tools.convert_data from-photos PHOTOS ENLARGED --source reduced --factor 2",
    "run.name=cleaned": "python -m tools.convert_data from-photos PHOTOS CLEANED --source noisy",
    "run.name=coloured": "python -m tools.convert_data from-photos PHOTOS COLOURED --source grey",
    "generator.safetensors --input FOLDER": "python -m tools.export --checkpoint runs/mine --format safetensors",
}
LABEL_WEIGHTS = "labels/latest_net_G.pth"
OF_SPADE = {"G": "spade", "D": "spade_multiscale"}
WEIGHTS = {  # recipe: folder, suffixes of the directions, formats of G and D
    "spade_ade20k": ("checkpoints/ade20k_pretrained", ("",), OF_SPADE),
    "spade_cityscapes": ("checkpoints/cityscapes_pretrained", ("",), OF_SPADE),
    "cyclegan_256": ("checkpoints/horse2zebra", ("_A", "_B"), {"G": "global", "D": "patch"}),
    "cut_256": ("checkpoints/cat2dog", ("",), {"G": "cut", "D": "cut_discriminator"}),
}
OASIS_WEIGHTS = [f"checkpoints/oasis_{name}_pretrained/models" for name in ("ade20k", "cityscapes")]
PAGES = {command: document.name for document in reversed(DOCUMENTS) for command in commands(document)}  # the first
FOR_TEST_ALL = "|".join([  # processes that import torch, and what takes seconds where another command does the same
    r"torchrun|data\.load_width=256|lpips,(fid,)?kid|check_data (SMALL_AND_LARGE|DRAWN)",
    "runs/mine --format onnx|runs/(larger|heights|streets|styled)( |$)",
    "runs/(spade_ade20k|oasis_cityscapes) --format original|run.name=tuned .*ade20k_pretrained",
    r"ade20k_pretrained/models|run\.name=(oasis|tuned_oasis)|configs/spade_(coco|cityscapes)",
])  # fmt: skip


TRAINS = re.compile(r"python \S*train\.py (?!.*--(dry-run|smoke|print-config|resume))")


def shown(*, is_slow: bool) -> dict[str, list[str]]:
    """The commands to run by page, in their order: those for make test-all, or the others."""
    pages: dict[str, list[str]] = {}
    for command, page in PAGES.items():
        if command not in NOT_RUN and bool(re.search(FOR_TEST_ALL, command)) == is_slow:
            pages.setdefault(page, []).append(command)
    return pages


SHOWN = [pytest.param(each, False, id=page) for page, each in shown(is_slow=False).items()]
SHOWN += [
    pytest.param([*shown(is_slow=False).get(page, []), *each], True, id=f"{page}: slow", marks=pytest.mark.slow)
    for page, each in shown(is_slow=True).items()
]


@pytest.fixture(scope="module")
def trained_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file that the documents name, small: data, runs, weights."""
    folder = tmp_path_factory.mktemp("documents")
    shutil.copytree(ROOT / "configs", folder / "configs", ignore=shutil.ignore_patterns("__pycache__"))
    for root, maps in DATA_SETS.items():
        write_data_set(folder / root, maps)
    save_patients(folder / "HEADS", {"train": 2, "val": 1, "test": 2})
    save_patients(folder / "PATIENTS", {"train": 2, "val": 1})
    shutil.copytree(folder / "PATIENTS" / "val_A", folder / "NEW_PATIENTS")
    for (kind, scan), number in itertools.product({"A": "mr", "B": "ct", "mask": "mask"}.items(), (1, 2)):
        patient = folder / "Task1" / "AB" / f"1ABA00{number}"
        patient.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / "HEADS" / f"train_{kind}" / f"p00{number}.nii.gz", patient / f"{scan}.nii.gz")
    for name, images in {"FOLDER": "test_A", "SOURCES": "test_A", "TARGETS": "test_B", "PHOTOS": "train_B"}.items():
        shutil.copytree(folder / "PAIRS" / images, folder / name)
    shutil.copytree(folder / "LABELS/test_label", folder / "LABEL_MAPS")
    write_examples(folder)
    for split in ("train", "val"):
        colored = np.full((8, 8, 3), 90, np.uint8)
        colored[:4] = 0
        save_image(folder / "COLORED" / split / "a.png", colored)
    for name, suffix in (("a", "jpg"), ("b", "png"), ("photo", "jpg")):
        save_image(folder / f"{name}.{suffix}", np.full((40, 50, 3), 90, np.uint8))
    (folder / "instances").mkdir()
    for name in ("source.png", "instances/source.png"):
        shutil.copyfile(folder / "LABELS/test_label/1.png", folder / name)
    write_video(folder / "clip.mp4", n_frames=4, size=(64, 64))
    (folder / "hub" / "checkpoints").mkdir(parents=True)
    translation_script()  # found from the repository
    before = Path.cwd()
    os.chdir(folder)
    try:
        train_stand_ins()
    finally:
        os.chdir(before)
    return folder


def write_examples(folder: Path) -> None:
    """The files of docs/examples.md that are not RGB images of 64x64, and slices of patients."""
    colors = np.array([[128, 64, 128], [0, 0, 142]], np.uint8)
    (folder / "colors.yaml").write_text("road: [128, 64, 128]\ncar: [0, 0, 142]\n")
    for seed, (split, name) in enumerate(itertools.product(("train", "val", "test"), ("1", "2"))):
        save_npy(folder / "BANDS" / f"{split}_A" / f"{name}.npy", bands(seed, 64, 64))
        save_npy(folder / "BANDS" / f"{split}_B" / f"{name}.npy", heights(seed, 64, 64))
        ids = np.random.default_rng(seed).integers(0, 2, (4, 4)).repeat(16, 0).repeat(16, 1)
        save_image(folder / "DRAWN" / f"{split}_label" / f"{name}.png", colors[ids])
        large = np.random.default_rng(seed).integers(0, 256, (256, 256, 3), dtype=np.uint8)
        save_image(folder / "SMALL_AND_LARGE" / f"{split}_B" / f"{name}.png", large)
    for patient, side in itertools.product(("p001", "p020"), "AB"):
        save_image(folder / "SCANS" / f"train_{side}" / f"{patient}_slice03.png", np.full((64, 64, 3), 90, np.uint8))


def train_stand_ins() -> None:
    """The runs and weight files that the documents name."""
    for recipe, name in (
        ("pix2pixhd_512p", "labels"),
        ("pix2pixhd_512p_features", "pix2pixhd_512p_features"),
        ("paired_folders_256x256", "mine"),
        ("paired_folders_256x256", "as_pix2pixHD"),
    ):
        upsample = ["generator.upsample=transposed"] * (name == "as_pix2pixHD")
        train.main(tiny(["--config", f"configs/{recipe}.yaml", "data.root=ROOT", f"run.name={name}", *upsample]))
    mine = Path("runs/mine")
    for name in ("checkpoint-00001000.pt", "best.pt"):
        shutil.copy(mine / "checkpoint-00000002.pt", mine / name)
    program_main("tools.cluster_features")(["--checkpoint", "runs/pix2pixhd_512p_features", "--clusters", "2"])
    for run, file in (("labels", LABEL_WEIGHTS), ("as_pix2pixHD", "latest_net_G.pth")):
        Path(file).parent.mkdir(exist_ok=True)
        exporting = ["--checkpoint", f"runs/{run}", "--format", "original", "--family", "pix2pixHD", "--output", file]
        program_main("tools.export")(exporting)
    discriminator = load_network(Path("runs/labels/checkpoint-00000002.pt"), "discriminator")
    torch.save(export_original(discriminator, "multiscale", biases_before_norms=True), "latest_net_D.pth")
    shutil.copy("configs/pix2pixhd_512p.yaml", "F")
    small = [f"{part}.base_channels=4" for part in ("generator", "discriminator")]
    write_weights(small)
    config = load_config(Path("configs/oasis_cityscapes.yaml"), ["data.root=ROOT", *small])
    discriminator = build_discriminator(config)  # narrower than OASIS's, which is the only one that is exported
    keys = original_keys(discriminator, FORMATS["oasis_discriminator"].names(discriminator))
    states = {
        "EMA": export_original(build_generator(config), "oasis", biases_before_norms=True),
        "D": {keys[key]: value for key, value in discriminator.state_dict().items()},
    }
    for folder in OASIS_WEIGHTS:
        Path(folder).mkdir(parents=True)
        for name, state in states.items():
            torch.save(state, f"{folder}/best_{name}.pth")


def write_weights(small: Sequence[str]) -> None:
    """Files of SPADE, of CycleGAN, which are the same for both directions, and of CUT."""
    for recipe, (folder, sides, formats) in WEIGHTS.items():
        config = load_config(Path(f"configs/{recipe}.yaml"), ["data.root=ROOT", "generator.n_blocks=6", *small])
        Path(folder).mkdir(parents=True)
        for letter, network in (("G", build_generator(config)), ("D", build_discriminator(config))):
            for side in sides:
                file = f"{folder}/latest_net_{letter}{side}.pth"
                torch.save(export_original(network, formats[letter], biases_before_norms=True), file)


def tiny(arguments: Sequence[str]) -> list[str]:
    """The arguments of train.py with settings that make it quick."""
    settings = dict(setting.split("=") for setting in TINY.split())
    if any("pix2pix_" in argument or argument == "generator.name=unet" for argument in arguments):
        settings["generator.n_downsamplings"] = "5"
    if any("super_resolution" in argument for argument in arguments):  # sources are half of the photographs
        settings |= {"data.crop_width": "32", "data.crop_height": "32"}
    if "F" in arguments:
        settings["data.root"] = "LABELS"
    of_batches = r"spade_|oasis_|small_data|super_resolution|denoising|colorization"
    if any(re.search(of_batches, argument) for argument in arguments):
        settings |= {"train.batch_size": "1", "train.accumulation_steps": "1", "generator.n_upsamplings": "5"}
    if any(re.search(r"cut_|cyclegan_|unpaired", argument) for argument in arguments):
        settings |= {"loss.l1": "0", "generator.n_blocks": "6", "discriminator.n_layers": "3"}
        settings = {key: value for key, value in settings.items() if not key.startswith("features.")}
    if any("oasis_" in argument for argument in arguments):
        settings["generator.hidden_channels"] = "128"  # the only width that its files have
    given = [argument for argument in arguments if argument.partition("=")[0] not in settings]
    return [*given, *(f"{key}={value}" for key, value in settings.items())]


def stand_ins(command: str) -> list[str]:
    """The words of a command, with files of the workspace in the place of those that only a reader can have."""
    given = shlex.split(command.replace("/path/to/data", "path/to/data").replace("/path/to/clone/", ""))
    is_of_spade = "_pretrained" in command
    if "--instances" in given or is_of_spade:
        given = ["LABEL_MAPS" if word == "FOLDER" else word for word in given]
    if not is_of_spade and ("--instances" in given or "init." in command):  # the network reads label maps
        given = [re.sub(r"[\w/]*latest_net_G.pth", LABEL_WEIGHTS, word) for word in given]
    if "from-photos" in given:
        given = ["NEW_PAIRS" if word == "PAIRS" else word for word in given]
    return given


def run_python(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """`python` with arguments, in this process; its exit code."""
    main: Callable[[Sequence[str]], None]
    match arguments:
        case ["train.py", *rest]:
            main, rest = train.main, tiny(rest)
        case ["test.py", *rest]:
            main = program_main("test.py")
        case ["-m", module, *rest]:
            main = program_main(module)
        case _:
            raise AssertionError(f"no program of this project: {arguments}")
    monkeypatch.setattr(sys, "argv", ["program", *rest])
    try:
        return run_entry_point(main)
    except SystemExit as end:
        return int(end.code or 0)


def run_torchrun(arguments: list[str]) -> int:
    """Run torchrun with two processes. All machines that the command names are this one."""
    script = next(i for i, word in enumerate(arguments) if word.endswith(".py"))
    options, name, rest = arguments[:script], arguments[script], arguments[script + 1 :]
    n_machines = int(options[options.index("--nnodes") + 1]) if "--nnodes" in options else 1
    options[options.index("--nproc-per-node") + 1] = str(2 // n_machines)
    options = [re.sub(r"^node1:\d+$", f"localhost:{free_port()}", word) for word in options]
    rest = tiny(rest) if name == "train.py" else rest
    command = [sys.executable, "-m", "torch.distributed.run", *([] if n_machines > 1 else ["--standalone"])]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    agents = [
        subprocess.Popen([*command, *options, str(ROOT / name), *rest], env=environment) for _ in range(n_machines)
    ]
    try:
        return max(agent.wait(timeout=200) for agent in agents)
    finally:
        for agent in agents:
            agent.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def run_command(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """A command as the shell would run it; of a pipe, the last program reads what the others wrote."""
    *before, last = command.split(" | ")
    if before:
        piped = subprocess.run(shlex.split(" | ".join(before)), capture_output=True, text=True, check=True)
        monkeypatch.setattr(sys, "stdin", io.StringIO(piped.stdout))
    program, *arguments = stand_ins(last)
    if program == "torchrun":
        return run_torchrun(arguments)
    assert program == "python", f"{command}: neither run here nor in NOT_RUN"
    return run_python(arguments, monkeypatch)


def made_before(command: str) -> Iterator[str]:
    """The commands that make the runs and the files that a command reads."""
    for run in re.findall(r"runs/(\w+)", command):
        if not Path("runs", run).exists():
            trains = rf"train\.py .*(run\.name={run}\b|configs/{run}\.yaml(?!.*run\.name))"
            training = next(other for other in PAGES if re.search(trains, other))
            yield from made_before(training)
            yield training
    yield from (before for end, before in MADE_BEFORE.items() if command.endswith(end))


def link_or_copy(source: str, target: str) -> None:
    """A file of another folder as this one's: images and weights are replaced as a whole, a run's records go on."""
    (os.link if Path(source).suffix in (".png", ".jpg", ".npy", ".pt", ".pth") else shutil.copy2)(source, target)


@pytest.mark.parametrize(("shown_commands", "trains_all"), SHOWN)
def test_the_commands_of_a_page_work(
    shown_commands: Sequence[str],
    trains_all: bool,
    trained_workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A training whose run no other command reads is only checked, unless `trains_all`."""
    shutil.copytree(
        trained_workspace, tmp_path / "here", ignore=shutil.ignore_patterns("hub"), copy_function=link_or_copy
    )
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(trained_workspace / "hub"))
    if any(re.search("lpips|kid|fid", command) for command in shown_commands):
        save_random_alexnet(trained_workspace / "hub" / "checkpoints")
        save_random_inception(trained_workspace / "hub" / "checkpoints")
    done = set[str]()
    for shown_command in shown_commands:
        for command in (*made_before(shown_command), shown_command):
            if command == shown_command and not trains_all and TRAINS.match(command):
                assert run_command(f"{command} --print-config", monkeypatch) == 0, command
            elif command not in done:
                assert_runs(command, monkeypatch)
                done.add(command)


def assert_runs(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree("results", ignore_errors=True)  # the commands before have written results
    if "from-photos PHOTOS PAIRS" in command:
        shutil.rmtree("NEW_PAIRS", ignore_errors=True)
    if run_command(command, monkeypatch):  # a run or a file of another command has the same name
        option = "--resume never" if "train.py" in command else "--existing replace"
        assert run_command(f"{command} {option}", monkeypatch) == 0, command


def test_what_is_not_run_is_still_shown() -> None:
    assert set(NOT_RUN) <= {command for document in DOCUMENTS for command in commands(document)}


def test_commands_are_found_in_both_kinds_of_blocks(tmp_path: Path) -> None:
    indented, fenced = "\n    python a.py  # why\n    output\n", "```sh\nmake b \\\n  c\n```"
    (tmp_path / "page.md").write_text(f"text\n{indented}\n{fenced}\n\n    - python no, a list\npython no\n")
    assert list(commands(tmp_path / "page.md")) == ["python a.py", "make b c"]
