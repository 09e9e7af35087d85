"""Train a GAN that translates images: python train.py --config configs/NAME.yaml [section.key=value ...]."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

import build
from adversarial_step import build_game
from configs.load import config_differences, config_from_dict, config_to_dict, config_to_yaml, load_config
from configs.schema import Config, ConfigError
from data.batch import Batch, DataError, Sample
from data.layout import Layout
from data.loader import TrainingDataset, read_fixed, training_batches
from data.sampler import SampleKey, TrainingSampler
from translator import Translator
from utils.checkpoint import (
    CheckpointError,
    checkpoint_path,
    list_checkpoints,
    load_checkpoint,
    remove_old_checkpoints,
    save_checkpoint,
)
from utils.distributed import World, joined_world
from utils.entry_point import run_entry_point
from utils.pictures import picture_table
from utils.random_state import random_state, restore_random_state
from utils.run_folder import log_file, log_to_console, logger, set_aside
from utils.schedule import linear_decay
from utils.stopwatch import Stopwatch
from utils.tensorboard import Board

CHECKED_SAMPLES = 100  # by --dry-run


@dataclass
class Position:
    """How far a run has come: steps made, and joint batches (of all processes) taken from the data."""

    step: int = 0
    batches: int = 0


class Training:
    """One run: a game, its data, and the folder where it writes."""

    def __init__(self, config: Config, world: World) -> None:
        """Build everything and check the data; nothing is written yet.

        Raises:
            build.USER_ERRORS: a setting, the data or a weights file cannot be used.
        """
        self.config = config
        self.world = world
        self.folder = Path(config.run.root) / config.run.name
        self.layout = build.build_layout(config.data, config.run.seed, "train", needs_targets=True)
        self.preprocessing = build.build_preprocessing(config)
        self.joint_batch_size = config.train.batch_size * world.size
        self.batches_per_epoch = len(self.layout) // self.joint_batch_size
        if self.batches_per_epoch == 0:
            raise DataError(
                f"the train split has {len(self.layout)} samples, fewer than train.batch_size x processes = "
                f"{self.joint_batch_size}: lower train.batch_size"
            )
        self._check_scales()
        self.validation_samples = read_validation_samples(config, self.layout) if world.is_main else []
        self.game = build_game(config, world)
        self.translator = Translator(
            generator=self.game.generator.module,
            precision=self.game.precision,
            weights_dtype=torch.float32,
            device=world.device,
            colors=build.class_colors(config.data),
        )
        self.position = Position()

    @property
    def total_steps(self) -> int:
        """The step at which the run is finished."""
        batches_to_go = max(self.config.total_epochs * self.batches_per_epoch - self.position.batches, 0)
        steps = self.position.step + -(-batches_to_go // self.config.train.accumulation_steps)
        return min(steps, self.config.train.max_steps or steps)

    @property
    def epoch(self) -> int:
        """The epoch of the next step, from 0."""
        return self.position.batches // self.batches_per_epoch

    def run(self) -> None:
        """Train from the present position to the end."""
        settings, position = self.config, self.position
        step = self.game.step_with_kept_graph if settings.train.retain_graph else self.game.step_in_sequence
        total_steps = self.total_steps
        with closing(Board(self.folder if self.world.is_main else None, first_step=position.step + 1)) as board:
            stopwatch = Stopwatch(position.step)
            stream = self._batches()
            while position.step < total_steps:
                self._set_learning_rate()
                step([batch.to(self.world.device) for batch in islice(stream, settings.train.accumulation_steps)])
                position.step += 1
                position.batches += settings.train.accumulation_steps
                is_last = position.step == total_steps
                if is_last or position.step % settings.log.every_steps == 0:
                    self._report(board, stopwatch, total_steps)
                if is_last or position.step % settings.log.images_every_steps == 0:
                    self._validate(board)
                if is_last or position.step % settings.checkpoint.every_steps == 0:
                    self.save()

    def save(self) -> None:
        """Write a checkpoint: everything needed to go on as if never stopped."""
        random_states = self.world.gather(random_state(self.world.device))
        if not self.world.is_main:
            return
        epoch, batches = divmod(self.position.batches, self.batches_per_epoch)
        state = {
            "step": self.position.step,
            "epoch": epoch,
            "samples_into_epoch": batches * self.joint_batch_size,
            "config": config_to_dict(self.config),
            **{name: player.state_dict() for name, player in self.game.players.items()},
            "random_states": random_states,
        }
        path = checkpoint_path(self.folder, self.position.step)
        save_checkpoint(path, state)
        remove_old_checkpoints(self.folder, self.config.checkpoint.keep)
        logger.info("saved %s", path)

    def restore(self, path: Path) -> None:
        """Go on from a checkpoint, whatever the batch size and the number of processes that wrote it.

        Raises:
            CheckpointError: the file cannot be used, or its networks differ from the configuration's.
        """
        state = load_checkpoint(path)
        check_same_networks(config_from_dict(state["config"], str(path)), self.config, path)
        for name, player in self.game.players.items():
            player.load_state_dict(state[name])
        if self.world.rank < len(state["random_states"]):
            restore_random_state(state["random_states"][self.world.rank], self.world.device)
        batches_into_epoch = state["samples_into_epoch"] // self.joint_batch_size
        self.position.step = state["step"]
        self.position.batches = state["epoch"] * self.batches_per_epoch + batches_into_epoch
        logger.info("going on from %s", path)

    def _check_scales(self) -> None:
        """Refuse scales at which nothing is left of an image: a norm needs more than one pixel."""
        sample = read_fixed(self.layout, self.preprocessing, 0)
        n_scales, side = self.config.discriminator.n_scales, min(sample.source.shape[-2:])
        if side <= 2 ** (n_scales - 1):
            raise ConfigError(
                f"discriminator.n_scales is {n_scales}, but images whose shorter side is {side} pixels can be halved "
                f"only {(side - 1).bit_length() - 1} times: lower it"
            )

    def _batches(self) -> Iterator[Batch]:
        sampler = TrainingSampler(
            n_samples=len(self.layout),
            batch_size=self.config.train.batch_size,
            seed=self.config.run.seed,
            rank=self.world.rank,
            world_size=self.world.size,
            first_batch=self.position.batches,
        )
        return training_batches(
            TrainingDataset(self.layout, self.preprocessing, self.config.run.seed),
            sampler,
            n_workers=self.config.data.workers,
            pin_memory=self.world.device.type == "cuda",
        )

    def _set_learning_rate(self) -> None:
        train = self.config.train
        factor = linear_decay(self.epoch, constant_epochs=train.epochs, decay_epochs=train.decay_epochs)
        for player in self.game.players.values():
            player.learning_rate = self.config.optimizer.learning_rate * factor

    def _report(self, board: Board, stopwatch: Stopwatch, total_steps: int) -> None:
        """The one transfer of losses from device to host: to the log and to TensorBoard."""
        losses = self.game.means.take(self.world)
        images_per_s = stopwatch.lap(self.position.step) * self.joint_batch_size * self.config.train.accumulation_steps
        epoch = (self.position.batches - 1) // self.batches_per_epoch + 1  # of the step just made, from 1
        scalars = {**losses, "progress/epoch": float(epoch), "progress/images_per_s": images_per_s}
        for name, player in self.game.players.items():
            scalars[f"learning_rate/{name}"] = player.learning_rate
            scalars[f"amp/scale/{name}"] = player.scaler.get_scale()
            scalars[f"amp/skipped_steps/{name}"] = float(player.skipped_steps)
        board.write_scalars(scalars, self.position.step)
        terms = "  ".join(f"{tag.removeprefix('loss/')} {value:.3f}" for tag, value in losses.items())
        skipped = sum(int(player.skipped_steps) for player in self.game.players.values())
        logger.info(
            f"step {self.position.step:>6}/{total_steps}  epoch {epoch:>3}  {images_per_s:6.1f} images/s"
            f"  {terms}" + (f"  skipped {skipped}" if skipped else "")
        )

    def _validate(self, board: Board) -> None:
        """Show the validation samples; the main process alone, on the bare network, so that no other waits."""
        rows, distances = [], []
        for sample in self.validation_samples:
            assert sample.target is not None
            fake = self.translator.translate(Batch.of([sample]))[0]
            rows.append([self.translator.show_source(sample), fake, sample.target])
            distances.append((fake.float() - sample.target.float()).abs().mean().item() / 255)
        if rows:
            board.write_image("validation/source_translated_target", picture_table(rows), self.position.step)
            board.write_scalars({"validation/l1": sum(distances) / len(distances)}, self.position.step)


def read_validation_samples(config: Config, train_layout: Layout) -> list[Sample]:
    """The samples that are shown during training; training samples where the data set has no validation split."""
    split = config.data.validation_split
    try:
        layout = build.build_layout(config.data, config.run.seed, split or "val", needs_targets=True)
    except DataError as error:
        if split is not None:
            raise
        logger.info(f"training samples are shown for validation, because there is no split val ({error})")
        layout = train_layout
    preprocessing = build.build_preprocessing(config)
    return [read_fixed(layout, preprocessing, index) for index in range(min(config.log.n_images, len(layout)))]


def check_same_networks(saved: Config, wanted: Config, path: Path) -> None:
    """Raise CheckpointError where a checkpoint's networks have another form; log other changed settings."""
    changes = config_differences(saved, wanted)
    for key, (old, new) in changes.items():
        is_form = key.startswith(("generator.", "discriminator.")) and ".init" not in key
        if is_form or key in ("data.n_classes", "data.instance_edges"):
            raise CheckpointError(
                f"{path} was trained with {key}={old}, now it is {new}: set it back, or start anew with "
                "--resume never or another run.name"
            )
    if changes:
        logger.info("changed since: %s", ", ".join(f"{key} {old} -> {new}" for key, (old, new) in changes.items()))


def find_checkpoint(run_folder: Path, resume: str) -> Path | None:
    """The checkpoint to go on from: the run's newest ("auto"), none ("never"), or the newest of a path."""
    if resume == "never":
        return None
    folder = run_folder if resume == "auto" else Path(resume)
    if folder.is_file():
        return folder
    checkpoints = list_checkpoints(folder)
    if not checkpoints and resume != "auto":
        raise CheckpointError(f"--resume {resume}: neither a checkpoint nor a run folder that holds one")
    return checkpoints[-1] if checkpoints else None


def check_samples(training: Training) -> str:
    """Load up to CHECKED_SAMPLES training samples from all over the data set, as training would.

    Raises:
        DataError: one of them cannot be used.
    """
    dataset = TrainingDataset(training.layout, training.preprocessing, training.config.run.seed)
    n_samples = len(training.layout)
    indices = range(0, n_samples, -(-n_samples // CHECKED_SAMPLES))
    for index in indices:
        loaded = dataset[SampleKey(epoch=0, index=index)]
        if isinstance(loaded, DataError):
            raise loaded
    return f"checked        {len(indices)} of {n_samples} training samples: good"


def describe(training: Training) -> str:
    """The plan in words: networks, data, steps."""
    config, world = training.config, training.world
    sample = read_fixed(training.layout, training.preprocessing, 0)
    counts = [
        f"{name:<14} {sum(p.numel() for p in player.parameters):>12,} parameters"
        for name, player in training.game.players.items()
    ]
    precision = str(training.game.precision.compute_dtype).removeprefix("torch.")
    return "\n".join(
        [
            f"run            {training.folder}",
            *counts,
            f"data           {len(training.layout)} samples, the first is {sample.name} "
            f"{sample.source.shape[-1]}x{sample.source.shape[-2]}",
            f"plan           {training.total_steps} steps of {training.joint_batch_size} x "
            f"{config.train.accumulation_steps} samples, {training.batches_per_epoch} batches an epoch, "
            f"{config.total_epochs} epochs",
            f"device         {world.device}, {world.size} process{'es' if world.size > 1 else ''}, {precision}",
        ]
    )


def train(config: Config, world: World, resume: str) -> None:
    """Build, find the place to go on from, and run to the end."""
    training = Training(config, world)
    if world.is_main:
        if resume == "never":
            set_aside(training.folder)
        training.folder.mkdir(parents=True, exist_ok=True)
    world.barrier()  # no other process looks for checkpoints before an old run is out of the way
    with log_file(training.folder / "log.txt" if world.is_main else None):
        logger.info(describe(training))
        checkpoint = find_checkpoint(training.folder, resume)
        if checkpoint:
            training.restore(checkpoint)
        if world.is_main:
            (training.folder / "config.yaml").write_text(config_to_yaml(config), encoding="utf-8")
        if training.position.step >= training.total_steps:
            logger.info("finished at step %d; raise train.epochs or train.max_steps to go on", training.position.step)
            return
        training.run()
        logger.info("finished: python test.py --checkpoint %s", training.folder)


def main(argv: Sequence[str]) -> None:
    """Parse the command line and do what it says."""
    parser = argparse.ArgumentParser(description="Train a GAN that translates images.")
    parser.add_argument("--config", type=Path, required=True, help="YAML file, see configs/")
    parser.add_argument(
        "--resume",
        default="auto",
        metavar="auto|never|PATH",
        help="go on from the run's newest checkpoint (auto), start anew (never), or start from a checkpoint or run",
    )
    parser.add_argument("--print-config", action="store_true", help="print the resolved configuration and stop")
    parser.add_argument("--dry-run", action="store_true", help="build everything, check the data, print the plan")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings in place of the file's")
    arguments = parser.parse_intermixed_args(argv)
    config = load_config(arguments.config, arguments.overrides)
    if arguments.print_config:
        sys.stdout.write(config_to_yaml(config))
        return
    with joined_world(config.run.device) as world:
        log_to_console(world.is_main)
        if arguments.dry_run:
            training = Training(config, world)
            logger.info(describe(training))
            logger.info(check_samples(training))
            return
        train(config, world, arguments.resume)


if __name__ == "__main__":
    sys.exit(run_entry_point(main, build.USER_ERRORS))
