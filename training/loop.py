"""One run: a game, its data, and the folder where it writes; the loop, and what a checkpoint holds of it."""

import math
import shutil
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from torch import OutOfMemoryError, Tensor

from configs import build
from configs.load import config_differences, config_from_dict, config_to_dict
from configs.schema import Config
from data.batch import Batch, Sample
from data.device_transfer import DeviceTransfer
from data.fingerprint import difference, fingerprint
from data.layout import Layout, check_enough
from data.loader import TrainingDataset, read_fixed, training_batches
from data.sampler import TrainingSampler
from data.worker_monitor import StoppedWaiting
from inference.predictor import Predictor
from metrics.evaluator import Evaluator
from training.best import BEST, check_best, known_score, score_of_file
from training.checkpointing import CheckpointManager
from training.cuda_graph import CudaGraphs, CudaGraphStep, Step
from training.ema import make_average
from training.finite import NotFiniteError, are_finite
from training.graceful_stop import GracefulStop
from training.lr_schedule import Plateau, learning_rate_factor
from training.profiler import Profiler
from training.random_state import restore_random_state
from training.run_log import Progress, RunLog
from training.throughput import Throughput
from training.update import build_update
from training.validation import Validation, check_module
from utils.checkpoint import CheckpointError, check_training_state
from utils.checkpoint_folder import LoadedCheckpoint, list_checkpoints
from utils.distributed import World
from utils.errors import ConfigError, Interrupted
from utils.log import logger

CHECKED_EVERY_STEPS = 10  # whether steps are left out: a check waits for the device
MAX_SKIPPED = 10  # updates left out one after the other; so many cannot be a batch's fault
MAX_SKIPPED_SCALED = 50  # under float16, where a scale that is too high is found by leaving updates out


@dataclass
class LoopState:
    """How far a run has come: steps made, and joint batches (of all processes) taken from the data."""

    step: int = 0
    batches: int = 0


class Training:
    """One run: a game, its data, and the folder where it writes."""

    def __init__(self, config: Config, world: World) -> None:
        """Build everything and check the data; nothing is written yet.

        Raises:
            UserError, OSError: a setting, the data or a weights file cannot be used.
        """
        self.config = config
        self.world = world
        self.folder = run_folder(config)
        self.layout = build.build_layout(config, "train", needs_targets=True)
        self.preprocessing = build.build_preprocessing(config)
        self.joint_batch_size = config.train.batch_size * world.size
        self.batches_per_epoch = len(self.layout) // self.joint_batch_size
        check_enough(self.layout, self.joint_batch_size)
        samples = read_validation_samples(config, self.layout) if world.is_main else []
        check_cuda_graph(config, world)
        check_best(config, world.gather(len(samples))[0])
        evaluator = (
            build.build_evaluator(config, world.device) if world.is_main else Evaluator()
        )  # which never measures
        self.game = build_update(config, world)
        generator, decay = self.game.generator.module, config.train.ema_decay
        self.average = make_average(generator, decay) if decay else None
        predictor = Predictor(
            generator=self.average.module if self.average else generator,
            conditioning=self.game.conditioning,
            precision=self.game.precision,
            device=world.device,
            colors=build.class_colors(config.data),
        )
        try:
            check_module(predictor.generator, config.log.activations)
        except ValueError as error:
            raise ConfigError(f"log.activations: {error}") from error
        self.validation = Validation(samples, predictor, evaluator, config.log.n_images, config.log.activations)
        self.position = LoopState()
        self.stopwatch = Throughput()
        optimizer = config.optimizer
        self.plateau = Plateau(optimizer.plateau_epochs) if optimizer.decay == "plateau" else None
        self._upload = DeviceTransfer(world.device, has_stream=config.train.async_upload)
        self._stop = GracefulStop()
        self._fingerprint = fingerprint(self.layout) if world.is_main else None
        self._recent_names: deque[str] = deque(maxlen=CHECKED_EVERY_STEPS)
        self.checkpoints = CheckpointManager(self.folder, world, config.checkpoint, self._state, self.game.n_bytes)
        self._play = self._make_step()
        self._frozen: dict[str, list[str]] = {}
        self._freeze()

    @property
    def total_steps(self) -> int:
        """The step at which the run is finished."""
        batches_to_go = max(self.config.total_epochs * self.batches_per_epoch - self.position.batches, 0)
        steps = self.position.step + -(-batches_to_go // self.config.batches_per_step)
        return min(steps, self.config.train.max_steps or steps)

    @property
    def epoch(self) -> int:
        """The epoch of the next step, from 0."""
        return self.position.batches // self.batches_per_epoch

    def run(self, stop: GracefulStop) -> None:
        """Train from the present position to the end, or until `stop` says so.

        Raises:
            Interrupted: a signal asked to stop; everything is saved.
            NotFiniteError: in update after update something had to be left out.
        """
        self._stop, position, total_steps = stop, self.position, self.total_steps
        folder = self.folder if self.world.is_main else None
        log = RunLog(folder, position.step + 1, total_steps, self.config.loss.gan_mode)
        trace = Profiler(self.folder / "trace.json.gz", self.config.train.profile_steps if self.world.is_main else 0)
        with self._temporary_cache(), log, closing(self._batches()) as stream, closing(trace):
            stop.be_patient()
            self.stopwatch.start(position.step)
            while position.step < total_steps:
                epoch = self.epoch
                self._freeze()
                self._set_learning_rate()
                taken = self._take_all(stream)
                # asked where no step is under way and each process is sure to come by: a signal can come at any moment
                if signal_number := self.world.all_reduce_max(stop.poll()):
                    self._leave(signal_number)
                assert taken is not None, "waiting ends for a signal alone"
                self._step(taken)
                trace.step()
                log.step_made()
                self._follow_up(log, is_last=position.step == total_steps, is_new_epoch=self.epoch > epoch)

    def _make_step(self) -> Step:
        """What trains the networks for a step."""
        return CudaGraphStep(self.game.step, CudaGraphs()) if self.config.train.cuda_graph else self.game.step

    def _step(self, taken: list[list[Batch]]) -> None:
        self._play(taken)
        if self.average:
            self.average.update_parameters(self.game.generator.module)
        self.position.step += 1
        self.position.batches += self.config.batches_per_step
        self._recent_names.append(" ".join(name for batches in taken for batch in batches for name in batch.names))

    def _follow_up(self, log: RunLog, *, is_last: bool, is_new_epoch: bool) -> None:
        """What is due after a step: log, validation, checkpoint."""
        step, settings = self.position.step, self.config
        if is_last or step % CHECKED_EVERY_STEPS == 0:
            self._check_numbers()
        if is_last or step % settings.log.every_steps == 0:
            self._report(log)
        is_plateau_due = self.plateau is not None and is_new_epoch
        if is_last or is_plateau_due or step % settings.log.images_every_steps == 0:
            l1 = self._validate(log)
            if self.plateau and is_plateau_due:
                self.plateau.update(self.world.gather(l1)[0])
        if is_last:
            self.checkpoints.save_with_retries(step)
        else:
            self.checkpoints.save_if_due(step)

    def _leave(self, signal_number: int) -> NoReturn:
        """Save what is not saved yet, together with the other processes, and stop."""
        self.checkpoints.save_with_retries(self.position.step)
        self.world.barrier()  # torchrun ends all once one has ended: the main process has to have saved
        raise Interrupted(signal_number, f"and saved at step {self.position.step}")

    def _check_numbers(self) -> None:
        """Raise NotFiniteError where update after update was left out, all saved."""
        for name, player in self.game.players.items():
            has_scale, in_a_row = player.scaler.is_enabled(), int(player.skipped_in_a_row)
            scale = player.scaler.get_scale()
            if in_a_row < (MAX_SKIPPED_SCALED if has_scale else MAX_SKIPPED) and not (has_scale and scale < 1):
                continue
            self.checkpoints.save_with_retries(self.position.step)
            how = f", and its scale has fallen to {scale:g}" if has_scale else ""
            raise NotFiniteError(
                f"step {self.position.step}: gradients of the {name} were not finite {in_a_row} times in a row{how}; "
                f"weights were not updated from them. The latest samples: {', '.join(self._recent_names)}. Lower "
                "optimizer.learning_rate, or use amp.opt_level=O0"
            )

    def _state(self, random_states: list[dict[str, Tensor]]) -> dict[str, Any]:
        """What a checkpoint holds: everything needed to go on as if never stopped."""
        self._check_weights()
        return {
            **self._position_state(),
            "config": config_to_dict(self.config),
            **{name: player.state_dict() for name, player in self.game.players.items()},
            "random_states": random_states,
            "data": self._fingerprint,
            **({"generator_average": self.average.state_dict()} if self.average else {}),
            **({"pool": self.game.pool.state_dict()} if self.game.pool else {}),
            **({"plateau": self.plateau.state_dict()} if self.plateau else {}),
            **({"best": self.checkpoints.best} if self.checkpoints.best is not None else {}),
        }

    def _check_weights(self) -> None:
        broken = [name for name, player in self.game.players.items() if not player.is_finite()]
        broken += ["average"] if self.average and not are_finite(self.average.state_dict().values()) else []
        if broken:
            raise NotFiniteError(
                f"step {self.position.step}: the {' and the '.join(broken)} is not finite and is not saved: the "
                "checkpoints before stay. Lower optimizer.learning_rate, or use amp.opt_level=O0"
            )

    def restore(self, found: LoadedCheckpoint, *, accepts_changed_data: bool = False) -> None:
        """Go on from a checkpoint, whatever the batch size and the number of processes that wrote it.

        accepts_changed_data: where the data set has changed, go on at the beginning of the next epoch.

        Raises:
            CheckpointError: the file cannot be used, or its networks or data set are others.
        """
        path, state = found.path, found.state
        check_training_state(state, path, [*self._position_state(), *self.game.players, "random_states", "config"])
        try:
            check_same_networks(config_from_dict(state["config"], str(path)), self.config, path)
            self._take_over(state)
            has_changed = self._has_changed_data(found, accepts_changed_data)
        except (CheckpointError, OutOfMemoryError):
            raise
        except (ConfigError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise CheckpointError(
                f"{path}: does not fit, or is ill-formed: {' '.join(str(error).split())}; use another checkpoint"
            ) from error
        self._know_best_file(found)
        self.checkpoints.saved_step = self.position.step
        if has_changed and state["samples_into_epoch"]:
            self.position.batches = (state["epoch"] + 1) * self.batches_per_epoch
        self._freeze()
        logger.info("going on from %s", path)

    def _take_over(self, state: dict[str, Any]) -> None:
        if not all(isinstance(state[key], int) for key in self._position_state()):
            raise TypeError("its step or its place in the data is no number")
        for name, player in self.game.players.items():
            player.load_state_dict(state[name])
        if self.average:
            self.average.module.load_state_dict(state["generator"]["network"])  # where it starts, unless there was one
            self.average.load_state_dict(state.get("generator_average", self.average.state_dict()))
        self.checkpoints.best = known_score(state, self.config)
        if self.plateau and "plateau" in state:
            self.plateau.load_state_dict(state["plateau"])
        if self.game.pool:
            self.game.pool.load_state_dict(state.get("pool", []), self.world.device)
        if self.world.rank < len(state["random_states"]):
            restore_random_state(state["random_states"][self.world.rank], self.world.device)
        # not more than an epoch holds, should the data set have become smaller
        batches_into_epoch = min(state["samples_into_epoch"] // self.joint_batch_size, self.batches_per_epoch)
        self.position.step = state["step"]
        self.position.batches = state["epoch"] * self.batches_per_epoch + batches_into_epoch

    def _know_best_file(self, found: LoadedCheckpoint) -> None:
        """best.pt may be newer than the checkpoint that the run goes on from; another start sets it aside."""
        whole = [path for path in list_checkpoints(self.folder) if path not in found.damaged]
        goes_on = found.path.resolve() in [path.resolve() for path in whole[-1:]]
        if goes_on and self.world.is_main and self.config.checkpoint.best != "none":
            scores = [self.checkpoints.best, score_of_file(self.folder / BEST, self.config)]
            self.checkpoints.best = max((score for score in scores if score is not None), default=None)

    def _has_changed_data(self, found: LoadedCheckpoint, is_accepted: bool) -> bool:
        saved = found.state.get("data")
        change = difference(saved, self.layout) if saved is not None and self.world.is_main else None
        change = self.world.gather(change)[0]  # the main process alone looks at each file
        if change and not is_accepted:
            raise CheckpointError(
                f"{found.path}: the train split has changed since: {change}. Restore it, or go on from the next epoch "
                "with --accept-changed-data, or start anew with --resume never"
            )
        if change:
            logger.warning("the train split has changed: %s; going on from the next epoch", change)
        return change is not None

    def _position_state(self) -> dict[str, int]:
        """The position as a checkpoint holds it: independent of batch size and number of processes."""
        epoch, batches = divmod(self.position.batches, self.batches_per_epoch)
        samples_into_epoch = batches * self.joint_batch_size
        return {"step": self.position.step, "epoch": epoch, "samples_into_epoch": samples_into_epoch}

    def _batches(self) -> Generator[Batch]:
        layout = build.build_training_layout(self.config, self.layout, self.folder)
        sampler = TrainingSampler(
            n_samples=len(self.layout),
            batch_size=self.config.train.batch_size,
            seed=self.config.run.seed,
            rank=self.world.rank,
            world_size=self.world.size,
            first_batch=self.position.batches,
        )
        return training_batches(
            TrainingDataset(layout, self.preprocessing, self.config.run.seed, self.config.data.on_bad_sample),
            sampler,
            n_workers=build.count_workers(self.config.data, self.world.local_size),
            pin_memory=self.world.device.type == "cuda",
            prefetch=self.config.data.prefetch,
            timeout_s=self.config.data.timeout_s,
            should_stop=lambda: self._stop.poll() != 0,
        )

    @contextmanager
    def _temporary_cache(self) -> Iterator[None]:
        """What data.cache=memory holds goes when the run ends; files that another process still reads go with it."""
        try:
            yield
        finally:
            folder = build.cache_folder(self.config, self.folder)
            if folder and self.config.data.cache == "memory":
                shutil.rmtree(folder, ignore_errors=True)

    def _take_all(self, stream: Iterator[Batch]) -> list[list[Batch]] | None:
        """The batches of a step, for each update of the discriminator; None where a signal has ended the wait."""
        try:
            return [self._take(stream) for _ in range(self.config.train.discriminator_steps)]
        except StoppedWaiting:
            return None

    def _take(self, stream: Iterator[Batch]) -> list[Batch]:
        with self.stopwatch.waiting():
            batches = list(islice(stream, self.config.train.accumulation_steps))
        return [self._upload(batch) for batch in batches]

    def _freeze(self) -> None:
        """Freeze what the present epoch freezes, where that is another than before.

        Raises:
            ConfigError: a network has no such part, or nothing would be left to train.
        """
        train, generator = self.config.train, self.game.generator
        is_global_frozen = self.epoch < train.freeze_global_epochs
        global_part = build.global_part(generator.module) if is_global_frozen else []
        frozen = {
            "generator": [*train.freeze_generator, *global_part],
            "discriminator": train.freeze_discriminator,
        }
        for name, prefixes in frozen.items():
            if prefixes == self._frozen.get(name, []):
                continue
            try:
                self.game.players[name].freeze(prefixes)
            except ValueError as error:
                stage = " with train.freeze_global_epochs" if name == "generator" and global_part else ""
                raise ConfigError(f"train.freeze_{name}{stage}: {error}") from error
            self._play = self._make_step()  # a graph would go on as captured
        self._frozen = frozen

    def _set_learning_rate(self) -> None:
        train, optimizer = self.config.train, self.config.optimizer
        if optimizer.decay == "plateau":
            assert self.plateau is not None
            factor = self.plateau.factor
        else:
            factor = learning_rate_factor(
                optimizer.decay,
                self.epoch,
                constant_epochs=train.epochs,
                decay_epochs=train.decay_epochs,
                step_epochs=optimizer.step_epochs,
            )
        rate = optimizer.discriminator_learning_rate
        self.game.generator.learning_rate = factor * optimizer.learning_rate
        self.game.discriminator.learning_rate = factor * (optimizer.learning_rate if rate is None else rate)

    def _report(self, log: RunLog) -> None:
        """The one transfer of losses from device to host."""
        losses = self.game.means.flush(self.world)
        lap = self.stopwatch.lap(self.position.step)
        players = self.game.players.items()
        progress = Progress(
            step=self.position.step,
            epoch=(self.position.batches - 1) // self.batches_per_epoch + 1,  # of the step just made, from 1
            images_per_s=lap.steps_per_s * self.joint_batch_size * self.config.batches_per_step,
            waiting_share=lap.waiting_share,
            left_s=(self.total_steps - self.position.step) / lap.steps_per_s,
            skipped_steps=sum(int(player.skipped_steps) for _, player in players),
        )
        scalars = {f"learning_rate/{name}": player.learning_rate for name, player in players}
        scalars |= {f"amp/scale/{name}": player.scaler.get_scale() for name, player in players}
        scalars |= {f"amp/skipped_steps/{name}": float(player.skipped_steps) for name, player in players}
        log.report(progress, losses, scalars)

    def _validate(self, log: RunLog) -> float:
        """Show the validation samples; the main process alone, on the bare network, so that no other waits.

        Returns their mean L1 in [0, 1]; NaN on the other processes, which have none.
        """
        if log.page is None:
            return math.nan
        step = self.position.step
        summary = self.validation.run(log.board, log.page, step)
        log.report_validation(step, summary)
        if self.config.log.histograms:
            for name, player in self.game.players.items():
                log.board.write_histograms(f"weights/{name}", dict(player.module.named_parameters()), step)
        self.checkpoints.save_best(summary.figures)
        return summary.figures["l1"]


def run_folder(config: Config) -> Path:
    """Where a run's files go."""
    return Path(config.run.root).expanduser() / config.run.name


def read_validation_samples(config: Config, train_layout: Layout) -> list[Sample]:
    """The samples of each validation; training samples where the data set has no validation split."""
    split = config.data.validation_split or ("val" if build.has_split(config.data, "val") else None)
    layout = build.build_layout(config, split, needs_targets=True) if split else train_layout
    preprocessing = build.build_preprocessing(config)
    return [read_fixed(layout, preprocessing, index) for index in range(min(config.n_validation_samples, len(layout)))]


def check_cuda_graph(config: Config, world: World) -> None:
    """Raise ConfigError where train.cuda_graph is asked for, and cannot be."""
    where = "without a GPU" if world.device.type != "cuda" else "with several processes" if world.size > 1 else ""
    if config.train.cuda_graph and where:
        raise ConfigError(f"train.cuda_graph is true, expected false {where}")


def check_same_networks(saved: Config, wanted: Config, path: Path) -> None:
    """Raise CheckpointError where a checkpoint's networks have another form; log other changed settings."""
    changes = config_differences(saved, wanted)
    for key, (old, new) in changes.items():
        if key.startswith(("generator.", "discriminator.", "features.")) and ".init" not in key:
            raise CheckpointError(
                f"{path} was trained with {key}={old}, now it is {new}: set it back, or start anew with "
                "--resume never or another run.name"
            )
    old_condition, new_condition = (build.build_conditioning(config) for config in (saved, wanted))
    if old_condition != new_condition:
        raise CheckpointError(f"{path} was trained on {old_condition}, now it is {new_condition}: set data.* back")
    if changes:
        logger.info("changed since: %s", ", ".join(f"{key} {old} -> {new}" for key, (old, new) in changes.items()))
