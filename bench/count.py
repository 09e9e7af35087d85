"""Count the operations and bytes of a training step, on torch's meta device. This needs no GPU and no data.

python -m bench.count [--config F | --write]      --write updates the table in docs/performance.md
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry
from torch.utils.module_tracker import ModuleTracker

from bench.cases import use_random_vgg19
from bench.measure import markdown_table
from configs import build
from configs.load import load_config
from configs.schema import Config
from data import LAYOUTS
from data.batch import Batch
from losses.perceptual import PERCEPTUAL_LOSSES
from training.methods import METHODS
from training.methods.method import Method
from utils.distributed import World

RECIPES = Path(__file__).parents[1] / "configs"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- bench.count -->\n", "<!-- end of bench.count -->\n"
# GPU: (dense bfloat16 operations per second, bytes per second), from NVIDIA's data sheets. For H200 and H100, the first
# figure is a rate that tensor cores reach in practice. The keys are parts of torch's device names.
PEAKS = {"H200": (790e12, 4.8e12), "H100": (790e12, 3.35e12), "A100": (312e12, 2.0e12)}
OTHERS = "others"
_N_BYTES = 2  # bytes of a bfloat16 value, for all operators except _IN_FLOAT32
_IN_FLOAT32 = "_fused_adam_"  # this operator uses float32 weights, gradients and moments


class Call(NamedTuple):
    """A call of an operator.

    owner: Role of the network that calls the operator, or OTHERS.
    flop: Operations of convolutions and matrix products. A multiplication and an addition are two operations.
    n_bytes: Bytes that are read and written, if no operators are fused.
    """

    owner: str
    operator: str
    flop: int
    n_bytes: int


def flop_of(calls: Sequence[Call], owner: str | None = None) -> int:
    """Return the number of operations of all calls, or only of the calls of `owner`."""
    return sum(call.flop for call in calls if owner in (None, call.owner))


def least_seconds(calls: Sequence[Call], device: str) -> float | None:
    """Return the shortest possible time on a GPU, or None if PEAKS lacks this GPU.

    For each call, count the time of its arithmetic or of its memory traffic, whichever is longer.
    """
    peaks = next((peaks for name, peaks in PEAKS.items() if name in device), None)
    return peaks and sum(max(call.flop / peaks[0], call.n_bytes / peaks[1]) for call in calls)


class _Watch(TorchDispatchMode):
    """Records each operator call in `calls`. owners: Roles of networks, by class name."""

    def __init__(self, owners: Mapping[str, str]) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._owners, self._tracker = owners, ModuleTracker()
        self._of_weights: dict[int, tuple[str, Tensor]] = {}  # keeps the tensors alive, so that their ids stay unique

    def __enter__(self) -> "_Watch":
        self._tracker.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._tracker.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        operator = func.overloadpacket.__name__
        counted = flop_registry.get(func.overloadpacket)
        flop = int(counted(*args, **(kwargs or {}), out_val=made)) if counted else 0
        if not func.is_view:
            read = _tensors((args, kwargs))
            written = [one for one in _tensors(made) if all(one is not other for other in read)]
            places = zip(args, func._schema.arguments, strict=False)
            written += [one for value, place in places if _changes(place) for one in _tensors(value)]
            n_bytes = sum(one.numel() for one in (*read, *written)) * (4 if operator == _IN_FLOAT32 else _N_BYTES)
            self.calls.append(Call(self._owner(read) if flop else OTHERS, operator, flop, n_bytes))
        return made

    def _owner(self, tensors: Sequence[Tensor]) -> str:
        """Return the owner of a call. In a backward pass, the weights in `tensors` identify the owner."""
        storages = {one.untyped_storage()._cdata: one for one in tensors}
        if not self._tracker.is_bw:
            roots = {name.partition(".")[0] for name in self._tracker.parents}
            owner = next((self._owners[root] for root in roots if root in self._owners), OTHERS)
            self._of_weights |= {number: (owner, one) for number, one in storages.items() if one.dim() > 1}
        return next((self._of_weights[number][0] for number in storages if number in self._of_weights), OTHERS)


def _tensors(values: Any) -> list[Tensor]:
    return [one for one in tree_leaves(values) if isinstance(one, Tensor)]


def _changes(argument: torch.Argument) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


@contextmanager
def _steps_on_meta() -> Iterator[None]:
    """Allow fused Adam on the meta device, and disable autocast, which the meta device does not support."""
    with ExitStack() as stack:
        stack.enter_context(patch("torch.optim.adam._device_dtype_check_for_fused", lambda _: None))
        for place in ("torch.autocast", "utils.device.autocast"):
            stack.enter_context(patch(place, lambda *_, **__: nullcontext()))
        yield


def count_step(config: Config, batch: Batch) -> list[Call]:
    """Return the calls of a training step with a batch on the meta device, at opt level O0."""
    with _steps_on_meta():
        method = METHODS[config.method.name](config, World(0, 1, torch.device("meta")))
        groups = [[batch]]
        method.step(groups)  # creates Adam's moments
        with _Watch(_owners(method)) as watch:
            method.step(groups)
    return watch.calls


def _owners(method: Method) -> dict[str, str]:
    """Return the roles of the networks, by class name."""
    found = {loss.__name__: "perceptual" for loss in PERCEPTUAL_LOSSES.values()}
    for network in method.networks.values():
        found |= dict.fromkeys({type(one).__name__ for one in (network.network, network.module)}, network.role)
    return found


def _batch(config: Config) -> Batch:
    """Return a batch on the meta device."""
    facts, n, (height, width) = build.data_facts(config), config.train.batch_size, size_of(config)
    scale = config.generator.scale

    def maps(n_channels: int, dtype: torch.dtype = torch.uint8, scale: float = 1) -> Tensor:
        return torch.empty((n, n_channels, round(scale * height), round(scale * width)), dtype=dtype, device="meta")

    return Batch(
        tuple(map(str, range(n))),
        source=maps(1 if facts.n_classes else config.data.n_source_channels),
        instances=maps(1, torch.int32) if facts.conditioning.needs_instances else None,
        target=maps(config.data.target_channels, scale=scale),
    )


def size_of(config: Config) -> tuple[int, int]:
    """Return the height and width of the sources. If images are not cropped, assume Cityscapes' 2048x1024 pixels."""
    data = config.data
    if LAYOUTS[data.layout].drawn:
        return data.synthetic_size[0], data.synthetic_size[1]
    width = {"none": 2048, "scale_width": data.load_width}.get(data.preprocess)
    return (width // 2, width) if width else (data.crop_height, data.crop_width)


def row(name: str, config: Config) -> dict[str, object]:
    """Return the row of a recipe in the table."""
    calls, (height, width) = count_step(config, _batch(config)), size_of(config)
    tera = {owner: f"{flop_of(calls, owner) / 1e12:.3g}" for owner in ("generator", "discriminator", "perceptual")}
    return {
        "recipe": f"`{name}`",
        "size, batch": f"{width}x{height}, {config.train.batch_size}",
        "TFLOP": f"{flop_of(calls) / 1e12:.3g}",
        **tera,
        "GB": f"{sum(call.n_bytes for call in calls) / 1e9:.3g}",
        "limit on an H200": f"{1e3 * (least_seconds(calls, 'H200') or 0):.2g} ms",
    }


def operators(config: Config) -> list[dict[str, object]]:
    """Return a row for each owner and operator. Rows with the most memory traffic are first."""
    flop, n_bytes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for call in count_step(config, _batch(config)):
        flop[call[:2]] += call.flop
        n_bytes[call[:2]] += call.n_bytes
    return [
        {"owner": key[0], "operator": key[1], "GFLOP": flop[key] / 1e9, "GB": traffic / 1e9}
        for key, traffic in n_bytes.most_common()
    ]


def recipe(path: Path) -> Config:
    """Return the configuration of a recipe, for data in the current folder."""
    use_random_vgg19()
    return load_config(path, ["data.root=.", "amp.opt_level=O0"])


def main() -> None:
    """Print the table for the command line. With --write, also write it to docs/performance.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, metavar="F", help="list the operators of this recipe")
    parser.add_argument("--write", action="store_true", help="update the table of all recipes in docs/performance.md")
    arguments = parser.parse_args()
    if arguments.config:
        print(markdown_table(operators(recipe(arguments.config))))
        return
    recipes = [path for path in sorted(RECIPES.glob("*.yaml")) if path.stem != "reference"]
    table = markdown_table([row(path.stem, recipe(path)) for path in recipes])
    print(table)
    if arguments.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
