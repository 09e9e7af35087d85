"""Keys, options, links and modules named by the documents exist; configs/reference.yaml is up to date."""

import argparse
import re
import shlex
import shutil
import subprocess
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import train
from configs.load import load_config
from configs.schema import Config, settings_by_key
from tests.docs.documents import DOCUMENTS, ROOT, commands, prose
from tests.runs import translation_script
from tools import describe_settings
from tools.describe_settings import REFERENCE, reference_yaml

ARCHITECTURE = ROOT / "docs" / "architecture.md"
NOT_THERE = {"training/methods/contrastive.py", "models/dense_generator.py"}  # examples
KEYS = set(settings_by_key(Config()))
SECTIONS = {key.partition(".")[0] for key in KEYS}
MODULES = [path.stem for path in (ROOT / "tools").glob("*.py") if "run_entry_point" in path.read_text()]
MODULES += [f"{path.parent.name}.__main__" for path in (ROOT / "tools").glob("*/__main__.py")]
OF_OTHERS = {  # options of torchrun, tensorboard, pip, git, http.server, sbatch, docker, curl, rclone and the bench
    *("--nproc-per-node", "--nnodes", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--max-restarts"),
    *("--bind", "--directory"),
    *("--case", "--data", "--recipe", "--steps"),  # the bench has these
    *("--signals-to-handle", "--logdir", "--editable", "--standalone", "--nodes", "--cpus-per-task"),
    *("--tag", "--build-arg", "--rm", "--gpus", "--shm-size", "--volume", "--user", "--publish", "--env"),
    *("--fail", "--data-binary", "--form", "--header", "--request", "--retry", "--retry-delay", "--retry-connrefused"),
    "--time",
    *("--read-only", "--vfs-cache-mode", "--wildcards"),
}
OF_FILES = {".md", ".py", ".yaml", ".txt", ".pt", ".onnx", ".safetensors", ".json", ".jsonl", ".png", ".html"}


class _ParserFoundError(Exception):
    pass


@cache
def known_options() -> set[str]:
    """The options of every entry point, and of its sub-commands."""
    found: list[argparse.ArgumentParser] = []

    def stop(parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        found.append(parser)
        raise _ParserFoundError

    with pytest.MonkeyPatch.context() as patch:
        for name in ("parse_args", "parse_intermixed_args"):
            patch.setattr(argparse.ArgumentParser, name, stop)
        for main in (train.main, translation_script().main, *(import_module(f"tools.{name}").main for name in MODULES)):
            with pytest.raises(_ParserFoundError):
                main([])
    for parser in list(found):
        actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        found += [sub for action in actions for sub in action.choices.values()]
    return OF_OTHERS.union(*(parser._option_string_actions for parser in found))


def own_text(document: Path) -> str:
    """The text without the originals' options, which are in the first column of a table."""
    text = prose(document)
    if not document.name.startswith("coming_from_"):
        return re.sub(r"pix2pixHD's\s+`--[\w-]+`|`--eval`", "", text)
    of_theirs = r"`--(no_lsgan|model \w+|eval|crop_size|aspect_ratio|preprocess|no_dropout|epoch_count|no_antialias)`"
    return re.sub(rf"^\| `--.*? \| |{of_theirs}", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_what_a_page_names_exists(document: Path) -> None:
    markdown = document.read_text(encoding="utf-8")
    text = re.sub(r"^```python\n.*?^```", "", prose(document), flags=re.MULTILINE | re.DOTALL)
    keys = re.findall(r"(?<![\w/.-])([a-z_]+(?:\.[a-z_0-9]+)+)(?![\w/(]|\.\w)", text)
    keys = [key for key in keys if key.partition(".")[0] in SECTIONS and Path(key).suffix not in OF_FILES]
    parts = {"generator.stem", "discriminator.scales.0"}  # of networks, in train.freeze
    parts |= {"init.generator", "init.discriminator"}  # of init.networks
    assert set(keys) - parts <= KEYS | {key.rpartition(".")[0] for key in KEYS}

    assert set(re.findall(r"(?<![\w-])--[a-zA-Z][\w-]*", own_text(document))) <= known_options()

    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", markdown)
    assert not [link for link in links if not link.startswith("http") and not (document.parent / link).exists()]

    modules = [
        ROOT / name.replace(".", "/") for name in re.findall(r"(?<!\w)((?:tools|bench)\.[a-z_]+)(?![\w.])", text)
    ]
    assert not [
        path for path in modules if not path.with_suffix(".py").exists() and not (path / "__main__.py").exists()
    ]


def test_settings_are_printed_and_the_file_is_written_only_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = REFERENCE.read_text(encoding="utf-8")
    assert written == reference_yaml(), "run: python -m tools.describe_settings --write"
    file = tmp_path / "reference.yaml"
    monkeypatch.setattr(describe_settings, "REFERENCE", file)
    describe_settings.main([])
    assert (capsys.readouterr().out, file.exists()) == (written, False)
    describe_settings.main(["--write"])
    assert file.read_text(encoding="utf-8") == written


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_prints_its_targets() -> None:
    printed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (targets,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {*re.findall(r"make ([a-z-]+)", printed), "help"} == set(targets.split())


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("target", "extras"), [("demo", ["train"]), ("check", ["train", "dev"])])
def test_a_target_installs_only_what_it_needs(target: str, extras: list[str]) -> None:
    command = ["make", "--dry-run", "--always-make", target, "TORCH_INDEX=elsewhere"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installed = r'--extra-index-url elsewhere --constraint constraints\.txt --editable "\.\[(\w+)\]"'
    assert re.findall(installed, printed) == extras


def test_every_module_among_the_tools_is_a_command() -> None:
    assert {path.stem for path in (ROOT / "tools").glob("[!_]*.py")} == {name for name in MODULES if "." not in name}


def test_every_setting_has_a_meaning() -> None:
    explained = re.findall(r"^ +# .+\n +(\w+): ", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(explained) == sorted(key.rpartition(".")[2] for key in KEYS)


def test_the_reference_names_choices_and_optional_types() -> None:
    lines = REFERENCE.read_text(encoding="utf-8").splitlines()
    assert "  direction: AtoB  # AtoB, BtoA" in lines
    assert "  max_steps: null  # whole number or null" in lines
    assert "  workers: auto  # whole number or text" in lines


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"])
def test_lines_end_at_120_columns(document: Path) -> None:
    """Lines of tables cannot be broken, nor can links."""
    lines = document.read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if len(line) > 120 and not line.lstrip().startswith("| ") and "http" not in line]


def test_the_latest_version_of_the_changelog_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[:2] == ["Unreleased", project["version"]]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_files_that_the_page_of_the_architecture_names_exist() -> None:
    named = set(
        re.findall(r"`((?:[a-z_]+/)+(?:\w+\.(?:py|pt|yaml|md))?)(?:::?\w+)?`", ARCHITECTURE.read_text(encoding="utf-8"))
    )
    assert len(named) > 30
    assert not {path for path in named - NOT_THERE if not (ROOT / path).exists()}


def test_the_files_that_the_picture_of_the_architecture_names_exist() -> None:
    text = ARCHITECTURE.with_suffix(".svg").read_text(encoding="utf-8")
    places = set(re.findall(r">((?:[a-z_]+/)+\w+\.py)<", text))
    places |= {"".join(place) for place in re.findall(r">((?:[a-z_]+/)+)</text>\s*<text [^>]*>(\w+\.py)<", text)}
    assert len(places) > 10
    assert not {path for path in places - NOT_THERE if not (ROOT / path).exists()}


def test_every_option_of_the_originals_has_a_row() -> None:
    """Old and new options of their options/*.py, data sets, models and networks, and of OASIS's config.py."""
    page = (ROOT / "docs" / "coming_from_pix2pixHD.md").read_text(encoding="utf-8")
    hd, _, pix2pix = page.partition("## pix2pix (")
    spade, _, oasis = (ROOT / "docs" / "coming_from_SPADE.md").read_text(encoding="utf-8").partition("\n## OASIS\n")
    unpaired = (ROOT / "docs" / "coming_from_CycleGAN.md").read_text(encoding="utf-8")
    pix2pix += unpaired  # the same program
    spade += hd  # SPADE's table has what differs from pix2pixHD's, and OASIS's what differs from SPADE's
    oasis += spade
    pages = ((hd, PIX2PIXHD), (pix2pix, PIX2PIX), (spade, SPADE), (oasis, OASIS), (unpaired, UNPAIRED))
    for text, options in pages:
        rows = "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| "))
        named = set(re.findall(r"--(\w+)", rows))
        assert set(options.split()) <= named


def test_pix2pix_on_folders_has_the_settings_of_its_recipe() -> None:
    page = ROOT / "docs" / "coming_from_pix2pixHD.md"
    (command,) = (shlex.split(line) for line in commands(page) if "generator.name=unet" in line)
    _, _, _, recipe, *settings = command
    listed = "".join(line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| "))
    assert all(setting in listed for setting in settings if not setting.startswith(("data.root=", "run.name=")))
    shown, original = load_config(ROOT / recipe, settings), load_config(PIX2PIX_RECIPE, ["data.root=FACADES"])
    for section in ("generator", "discriminator", "loss", "optimizer", "train"):
        assert getattr(shown, section) == getattr(original, section)


PIX2PIX_RECIPE = ROOT / "configs" / "pix2pix_facades.yaml"
PIX2PIXHD = """
name gpu_ids checkpoints_dir model norm use_dropout data_type verbose fp16 local_rank batchSize loadSize fineSize
label_nc input_nc output_nc dataroot resize_or_crop serial_batches no_flip nThreads max_dataset_size display_winsize
tf_log netG ngf n_downsample_global n_blocks_global n_blocks_local n_local_enhancers niter_fix_global no_instance
instance_feat label_feat feat_num load_features n_downsample_E nef n_clusters display_freq print_freq save_latest_freq
save_epoch_freq no_html debug continue_train load_pretrain which_epoch phase niter niter_decay beta1 lr num_D
n_layers_D ndf lambda_feat no_ganFeat_loss no_vgg_loss no_lsgan pool_size ntest results_dir aspect_ratio how_many
cluster_path use_encoded_image export_onnx engine onnx
"""
PIX2PIX_AND_CYCLEGAN = """
dataroot name gpu_ids checkpoints_dir model input_nc output_nc ngf ndf netD netG n_layers_D norm init_type init_gain
no_dropout dataset_mode direction serial_batches num_threads batch_size load_size crop_size max_dataset_size
preprocess no_flip display_winsize epoch load_iter verbose suffix use_wandb wandb_project_name display_freq
display_ncols display_id display_server display_env display_port update_html_freq print_freq no_html save_latest_freq
save_epoch_freq save_by_iter continue_train epoch_count phase n_epochs n_epochs_decay beta1 lr gan_mode pool_size
lr_policy lr_decay_iters results_dir aspect_ratio eval num_test model_suffix
which_direction which_model_netG which_model_netD which_epoch batchSize loadSize fineSize nThreads resize_or_crop
niter niter_decay no_lsgan lambda_A how_many ntest
"""
PIX2PIX = f"{PIX2PIX_AND_CYCLEGAN} lambda_L1"
SPADE = """
name gpu_ids checkpoints_dir model norm_G norm_D norm_E phase batchSize preprocess_mode load_size crop_size aspect_ratio
label_nc contain_dontcare_label output_nc dataroot dataset_mode serial_batches no_flip nThreads max_dataset_size
load_from_opt_file cache_filelist_write cache_filelist_read display_winsize netG ngf init_type init_variance z_dim
no_instance nef use_vae display_freq print_freq save_latest_freq save_epoch_freq no_html debug tf_log continue_train
which_epoch niter niter_decay optimizer beta1 beta2 no_TTUR lr D_steps_per_G ndf lambda_feat lambda_vgg no_ganFeat_loss
no_vgg_loss gan_mode netD lambda_kld results_dir how_many coco_no_portraits label_dir image_dir instance_dir
no_pairing_check netD_subarch num_D n_layers_D num_upsampling_layers resnet_n_downsample resnet_n_blocks
resnet_kernel_size resnet_initial_kernel_size
"""
OASIS = """
name seed gpu_ids checkpoints_dir no_spectral_norm batch_size dataroot dataset_mode no_flip num_workers num_res_blocks
channels_G param_free_norm spade_ks no_EMA EMA_decay no_3dnoise z_dim freq_print freq_save_ckpt freq_save_latest
freq_smooth_loss freq_save_loss freq_fid continue_train which_iter num_epochs beta1 beta2 lr_g lr_d channels_D
add_vgg_loss lambda_vgg no_balancing_inloss no_labelmix lambda_labelmix results_dir ckpt_iter phase
"""
UNPAIRED = f"""{PIX2PIX_AND_CYCLEGAN}
easy_label normG normD no_antialias no_antialias_up random_scale_max stylegan2_G_num_downsampling evaluation_freq
pretrained_name beta2 lambda_B lambda_identity CUT_mode lambda_GAN lambda_NCE nce_idt nce_layers
nce_includes_all_negatives_from_minibatch netF netF_nc nce_T num_patches flip_equivariance lambda_R1
"""
