"""Translate the samples of requests in batches, in the order of their arrival."""

import argparse
import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from configs.build import image_sides
from data.batch import Batch, Sample
from inference.load import LoadedGenerator
from inference.predictor import Predictor
from inference.request import Request
from inference.requested_predictor import encode_style, load_requested_generator, requested_predictor
from tools.serve.request_files import RequestFiles
from utils.device import choose_device
from utils.errors import ConfigError
from utils.signatures import accepted

_MOST_PIXELS = 2**21  # pixels of a batch; a larger batch is not faster per pixel


@dataclass(frozen=True, eq=False)
class Job:
    """A sample that waits for translation.

    sample: Sample, padded for the network.
    seed: Seed for features, noise and style, or the number of a style if the server has several styles.
    toward: Second seed or style, and its share of the mix, from 0 to 1. None: do not mix.
    begin: Function to call just before the network runs.
    result: Future of the translation.
    """

    translator: "Translator"
    sample: Sample
    seed: int = 0
    toward: tuple[int, float] | None = None
    begin: Callable[[], object] = lambda: None
    result: asyncio.Future[Tensor] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def batch_key(self) -> Hashable:
        """Key that is equal for jobs that can share a batch."""
        return id(self.translator), self.sample.source.shape, self.sample.source.dtype, self.seed, self.toward


@dataclass(frozen=True)
class Translator:
    """A generator, ready to translate the samples of requests.

    loaded: Generator, with the settings for reading samples.
    styles: Encoded --style images, (1, style_channels) each.
    batch_size: Maximum batch size.
    files: Reader and writer for the files of requests.
    """

    loaded: LoadedGenerator
    predictor: Predictor
    styles: Sequence[Tensor]
    batch_size: int
    files: RequestFiles

    def translate(self, jobs: Sequence[Job]) -> Sequence[Tensor]:
        """Return the translations of jobs with the same `batch_key`."""
        predictor, seed, toward = self.predictor, jobs[0].seed, jobs[0].toward
        if len(self.styles) > 1:
            other, share = toward or (seed, 0.0)
            first, second = (self.styles[number % len(self.styles)] for number in (seed, other))
            predictor = replace(predictor, style=torch.lerp(first, second, share))
        else:
            predictor = replace(predictor, seed=seed, toward=toward)
        return list(predictor.translate(Batch.of([job.sample for job in jobs])))

    def picture(self, image: Tensor) -> bytes:
        """Return a translation as an 8-bit RGB BMP file. BMP is uncompressed, and therefore fast."""
        file, pixels = BytesIO(), self.predictor.show_target(image).permute(1, 2, 0)
        Image.fromarray(pixels.contiguous().numpy()).save(file, "BMP")
        return file.getvalue()

    def describe(self) -> dict[str, Any]:
        """Return what a client must know about the generator, as values for JSON."""
        config, facts = self.loaded.config, self.loaded.data_facts
        data, sides = config.data, image_sides(config)
        names = facts.classes.names if facts.classes else tuple(map(str, range(facts.n_classes)))
        content = dict.fromkeys(self.files.kinds, "values" if facts.source_images in facts.storage else "8-bit RGB")
        content |= {"instances": "ids", "features": "8-bit RGB"}
        if facts.n_classes:
            content["source"] = "class colours" if facts.file_colors else "class ids"
        label_channels = 3 if facts.file_colors else 1
        return {
            "name": self.loaded.name,
            "step": self.loaded.step,
            "direction": self.loaded.direction,
            "card": self.loaded.card,
            "inputs": {kind: content[kind] for kind in self.files.kinds},
            "source_channels": data.source_channels if facts.has_source_images else label_channels,
            "source_range": facts.bounds(facts.source_images) if facts.has_source_images else None,
            "classes": dict(enumerate(names[: facts.n_classes])),
            "ignore_id": facts.ignored_id,
            "size_multiple": sides.multiple,
            "min_size": sides.minimum,
            "scale": config.generator.scale,
            "takes_seed": self.predictor.takes_seed,
            "output": self.files.media_type,
            "output_channels": data.target_channels if "target" in facts.storage else 3,
            "output_range": facts.bounds("target"),
            "output_dtype": str(facts.target_dtype).removeprefix("torch."),
        }


def open_translator(arguments: argparse.Namespace, folder: Path, *, accepts_features: bool = True) -> Translator:
    """Load the generator of --checkpoint.

    folder: Folder for temporary files.
    accepts_features: Whether a request can contain precomputed features.

    Raises:
        UserError: The checkpoint cannot be used, or its generator needs instance features that no request can provide.
    """
    options = vars(arguments) | {"style": next(iter(arguments.styles), None), "size": "own"}
    request = Request(**accepted(Request, options))
    device = choose_device(request.device, option="--device ")
    loaded = load_requested_generator(request, has_instances=arguments.instance_edges)
    if loaded.config.data.has_volumes:
        command = f"python test.py --checkpoint {loaded.file} --input PATH"
        raise ConfigError(f"{loaded.file}: translates volumes, but a server translates only images. Run {command}.")
    usable = ("none", "precomputed") if accepts_features else ("none",)
    if loaded.clusters is None and loaded.conditioning.features not in usable:
        raise ConfigError(
            f"{loaded.file}: needs instance features, which requests do not contain. To sample features from clusters, "
            f"first run python -m tools.cluster_features --checkpoint {loaded.file}."
        )
    styles = [encode_style(loaded, file) for file in arguments.styles]
    predictor = requested_predictor(loaded, request, device, folder, next(iter(styles), None))
    loaded = replace(loaded, config=loaded.reading_config)
    batch_size = 1 if predictor.tiles or request.noise else arguments.batch_size
    files = RequestFiles(loaded.config, loaded.data_facts, folder)
    return Translator(loaded, predictor, styles, batch_size, files)


class TranslationQueue:
    """A queue that translates jobs in order. A job never waits for a batch to fill.

    Only one thread computes, because torch would start a thread pool for each computing thread.

    max_pixels: Maximum number of pixels of a batch. A single larger image is allowed.
    """

    def __init__(self, max_pixels: int) -> None:
        self._max_pixels = min(max_pixels, _MOST_PIXELS)
        self._waiting = list[Job]()
        n_threads = torch.get_num_threads()  # read it now, because worker threads later set it to 1
        self._thread = ThreadPoolExecutor(1, "translator", torch.set_num_threads, (n_threads,))
        self._computing: asyncio.Task[None] | None = None

    async def translate(self, job: Job) -> Tensor:
        """Return the translation of a job. If the caller is cancelled, a job that has not begun is dropped."""
        self._waiting.append(job)
        if self._computing is None:
            self._computing = asyncio.create_task(self._translate_all())
        return await job.result

    def close(self) -> None:
        """Start no more translations. Do not wait for the current translation."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _translate_all(self) -> None:
        while waiting := [job for job in self._waiting if not job.result.done()]:
            first = waiting[0]
            most = max(1, min(first.translator.batch_size, self._max_pixels // first.sample.source[0].numel()))
            batch = [job for job in waiting if job.batch_key == first.batch_key][:most]
            self._waiting = [job for job in waiting if job not in batch]
            for job in batch:
                job.begin()
            await self._translate_batch(batch)
        self._computing = None

    async def _translate_batch(self, jobs: Sequence[Job]) -> None:
        """Translate a batch. If the batch fails, translate each job by itself, so that only the bad job fails."""
        loop = asyncio.get_running_loop()
        try:
            images = await loop.run_in_executor(self._thread, jobs[0].translator.translate, jobs)
        except Exception as error:  # noqa: BLE001 - the caller that waits for the result raises it
            if len(jobs) > 1:
                for job in (job for job in jobs if not job.result.done()):
                    await self._translate_batch([job])
            elif not jobs[0].result.done():
                jobs[0].result.set_exception(error)
            return
        for job, image in zip(jobs, images, strict=True):
            if not job.result.done():  # the client can have left
                job.result.set_result(image)
