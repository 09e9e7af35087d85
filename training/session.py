"""A session of a run: its loop, with the data, the log and the profiler that are open while it trains."""

import shutil
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager

from configs import build, sample_cache
from configs.label_maps import legend
from data.batch import Batch
from data.device_transfer import DeviceTransfer
from data.loader import training_batches
from data.sampler import TrainingSampler
from training.batches import BatchReader
from training.graceful_stop import GracefulStop
from training.loop import TrainingLoop
from training.profiler import Profiler
from training.run_log import RunLog
from training.setup import Training
from training.throughput import Throughput


@contextmanager
def open_loop(training: Training, stop: GracefulStop) -> Iterator[TrainingLoop]:
    """Open the loop of a run that continues at its present state, with its data, its log and its profiler."""
    config, world, state = training.config, training.world, training.run_state.loop
    folder, total, validation = training.folder if world.is_main else None, training.total_steps, training.validation
    classes = legend(config.data, validation.evaluator.label_colors if validation else None)
    can_draw = build.build_conditioning(config).further_channels == 0
    log = RunLog(folder, state.step + 1, total, config.loss.gan_mode, classes, can_draw=can_draw)
    throughput = Throughput()
    for statistics in training.run_state.average_statistics:
        statistics.read()
    profiler = Profiler(training.folder / "trace.json.gz", config.train.profile_steps if world.is_main else 0)
    with ExitStack() as stack:
        stack.enter_context(_temporary_cache(training))
        stack.enter_context(log)
        stream = stack.enter_context(closing(read_batches(training, stop)))
        stack.enter_context(closing(profiler))
        batches = BatchReader(
            stream=stream,
            transfer=DeviceTransfer(world.device, has_stream=config.train.async_upload),
            throughput=throughput,
            discriminator_steps=config.train.discriminator_steps,
            accumulation_steps=config.train.accumulation_steps,
        )
        yield TrainingLoop(training, batches, log, throughput, profiler)


def read_batches(training: Training, stop: GracefulStop) -> Generator[Batch]:
    """Return the endless stream of batches from the present position on; it ends its wait where `stop` says so."""
    config, world = training.config, training.world
    sampler = TrainingSampler(
        n_samples=len(training.layout),
        batch_size=config.train.batch_size,
        seed=config.run.seed,
        rank=world.rank,
        world_size=world.size,
        first_batch=training.run_state.loop.batches,
    )
    return training_batches(
        training.dataset(sample_cache.build_training_layout(config, training.layout, training.folder)),
        sampler,
        n_workers=build.count_workers(config.data, world.local_size),
        pin_memory=world.device.type == "cuda",
        prefetch=config.data.prefetch,
        timeout_s=config.data.timeout_s,
        should_stop=lambda: stop.poll() != 0,
    )


@contextmanager
def _temporary_cache(training: Training) -> Iterator[None]:
    """Remove what data.cache=memory holds when the run ends; files that another process still reads go with it."""
    try:
        yield
    finally:
        folder = sample_cache.cache_folder(training.config, training.folder)
        if folder and training.config.data.cache == "memory":
            shutil.rmtree(folder, ignore_errors=True)
