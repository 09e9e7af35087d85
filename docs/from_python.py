"""Load a run, translate a sample, and compute the losses of the generator: python -m docs.from_python RUN_FOLDER."""

import sys
from pathlib import Path

from configs import build
from data.batch import Batch
from data.loader import read_fixed
from inference.load import load_from, load_generator, load_network
from losses.objective import LossInputs

file, loaded = load_from(Path(sys.argv[1]), load_generator)
discriminator = load_network(file, "discriminator")
config, conditioning = loaded.config, build.build_conditioning(loaded.config)
samples = build.build_layout(config, config.data.test_split, needs_targets=True)
batch = Batch.of([read_fixed(samples, build.build_preprocessing(config), index=0)])  # uint8 images, class ids

source, target = conditioning(batch), conditioning.target(batch)  # (1, C, H, W) float32, images in [-1, 1]
fake = loaded.generator(source)
of_fake, of_target = discriminator(source, fake), discriminator(source, target)
objective = build.build_generator_objective(config, fake.device)
losses = objective(
    LossInputs(fake, target, source=source, discriminate_fake=lambda: of_fake, discriminate_target=lambda: of_target)
)
losses["total"].backward()  # gradients are in loaded.generator.parameters()
print(*batch.names, *(f"{name} {loss.item():.4f}" for name, loss in losses.items()))
