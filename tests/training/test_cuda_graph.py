"""Steps that are repeated as a CUDA graph equal normal steps."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any
from unittest.mock import create_autospec

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from configs.schema import Config
from data.batch import Batch
from losses import PENALTIES, REGISTERED_LOSSES
from tests.runs import NEEDS_GPU, assert_equal, with_slow
from tests.training.test_host_waits import CASES, batch_of, config_of
from training.cuda_graph import WARM_UP_STEPS, CaptureError, CudaGraphs, CudaGraphStep, make_step
from training.methods import METHODS
from training.methods.method import Method
from utils.device import use_deterministic_algorithms
from utils.distributed import World

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
POOL, TWICE = "train.pool_size=2", ["train.accumulation_steps=2"]
UNCUT = "augmentation.policy=[]"  # its draws on a CPU would come between the draws of pools
N_STEPS = WARM_UP_STEPS + 2
pytestmark = pytest.mark.usefixtures("cached_vgg19")


class Recorder(TorchDispatchMode):
    """A substitute for CUDA graphs without a GPU. Records every operation with its tensors, also in backward passes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, outputs))
        return outputs

    @torch.no_grad()
    def repeat(self) -> None:
        """Repeat the operations, and write the results to the same tensors."""
        for func, args, kwargs, outputs in self.calls:
            given = {tensor.untyped_storage().data_ptr() for tensor in _tensors((args, kwargs))}
            for kept, new in zip(_tensors(outputs), _tensors(func(*args, **kwargs)), strict=True):
                if kept.untyped_storage().data_ptr() not in given:  # neither a view nor changed in place
                    kept.copy_(new)


class RecordedGraphs:
    """Replaces training.cuda_graph.CudaGraphs. Capturing also executes the work, as its first repetition."""

    def __init__(self) -> None:
        self.n_captured = 0

    def forget(self) -> None:
        pass

    def run(self, work: Callable[[], None]) -> None:
        work()

    def capture(self, work: Callable[[], None]) -> Callable[[], None] | None:
        self.n_captured += 1
        with Recorder() as recorder:
            work()
        is_done = True

        def repeat() -> None:
            nonlocal is_done
            if not is_done:
                recorder.repeat()
            is_done = False

        return repeat


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def make(config: Config, device: torch.device = CPU) -> Method:
    return METHODS[config.method.name](config, World(0, 1, device))


def batches_of(config: Config, n: int, device: torch.device, size: int = 1) -> list[Batch]:
    torch.manual_seed(1)
    batches = [batch_of(config, device) for _ in range(n)]
    return [replace(batch.mapped(lambda maps: maps[:size]), names=batch.names[:size]) for batch in batches]


def train(method: Method, step: Any, batches: list[Batch], n_passes: int = 1) -> dict[str, Any]:
    """Train, on a GPU with changing learning rates, and return the state."""
    torch.manual_seed(0)
    for number in range(0, len(batches), n_passes):
        for group in method.optimizers.values():
            group.set_learning_rate(1e-3 / (1 + number // 8 if method.device.type == "cuda" else 1))
        method.begin_step(number // n_passes, planned_steps=100)
        step([batches[number : number + n_passes]])
    groups = {name: group.state_dict() for name, group in method.optimizers.items()}
    weights = {name: network.module.state_dict() for name, network in method.networks.items()}
    means = method.means.flush(World(0, 1, method.device))
    state = [method.state_dict(), method.process_state()]
    return {"groups": groups, "weights": weights, "means": means, "state": state}


def assert_repeated(config: Config, batches: list[Batch], graphs: RecordedGraphs, n_captured: int) -> None:
    """Check that steps of captured graphs equal normal steps, and the number of graphs."""
    plain, repeated, n_passes = make(config), make(config), config.train.accumulation_steps
    expected = train(plain, plain.step, batches, n_passes)
    found = train(repeated, CudaGraphStep(repeated, graphs), batches, n_passes)  # type: ignore[arg-type]
    assert_equal(found, expected)
    assert graphs.n_captured == n_captured


RECORDED = [
    ("FastCUT, scaled gradients", [], 2),  # mirrored and not
    ("CycleGAN", [POOL, UNCUT], 1),
    ("pix2pixHD", [POOL, *TWICE], 0),
    ("pix2pix", ["amp.opt_level=O2", "amp.dtype=bfloat16"], 1),
]


@pytest.mark.parametrize(
    ("case", "settings", "n_captured"),
    with_slow(RECORDED, [(case, [], 1) for case in ("pix2pixHD", "local enhancer", "SPADE", "OASIS")]),
)
def test_repeated_steps_equal_normal_steps(case: str, settings: list[str], n_captured: int) -> None:
    config = config_of(case, *settings, "optimizer.learning_rate=1e-3")
    batches = batches_of(config, n_captured * (N_STEPS + 1) or 4, CPU)
    assert_repeated(config, batches, RecordedGraphs(), n_captured)


def test_steps_with_and_without_a_penalty_are_two_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PENALTIES, "r1", replace(PENALTIES["r1"], every=2))
    config = config_of("pix2pix", "loss.r1=1", "optimizer.learning_rate=1e-3")
    assert_repeated(config, batches_of(config, 2 * (N_STEPS + 1), CPU), RecordedGraphs(), 2)


def test_images_of_another_size_end_the_graph(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    config = config_of("CUT", UNCUT)
    batches = batches_of(config, N_STEPS, CPU)
    halves = [batch.mapped(lambda maps: maps[..., ::2, ::2]) for batch in batches[:2]]
    assert_repeated(config, [*batches, *halves, batches[0]], RecordedGraphs(), 1)
    assert caplog.messages == ["steps are computed without a CUDA graph: images differ in size"]


def test_freezing_captures_a_new_graph() -> None:
    config, graphs = config_of("pix2pix"), RecordedGraphs()
    batches, plain, repeated = batches_of(config, N_STEPS, CPU), make(config), make(config)
    step = CudaGraphStep(repeated, graphs)  # type: ignore[arg-type]
    for frozen in ([], ["downs"]):
        for method in (plain, repeated):
            method.networks["generator"].freeze(frozen)
        expected = train(plain, plain.step, batches)
        assert_equal(train(repeated, step, batches), expected)
    assert graphs.n_captured == 2


def test_registered_losses_prevent_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    method = make(config_of("pix2pixHD"))
    method.repeats_steps = True
    monkeypatch.setattr("training.cuda_graph.CudaGraphs", RecordedGraphs)
    assert isinstance(make_step(method), CudaGraphStep)
    monkeypatch.setitem(REGISTERED_LOSSES, "mine", (lambda _: torch.zeros(()), 1.0))
    assert make_step(method) == method.step


def test_a_step_that_cannot_be_captured_is_an_error_that_names_the_cause() -> None:
    class Broken(RecordedGraphs):
        def capture(self, work: Any) -> Any:
            try:
                raise RuntimeError("operation not permitted when stream is capturing\nmore")
            finally:
                raise RuntimeError("operation failed due to a previous error during capture")

    method, config = make(config_of("pix2pix")), config_of("pix2pix")
    step = CudaGraphStep(method, Broken())  # type: ignore[arg-type]
    expected = r"a step cannot be a CUDA graph: operation not permitted when stream is capturing\. .*train\.cuda_graph="
    with pytest.raises(CaptureError, match=expected):
        train(method, step, batches_of(config, N_STEPS, CPU))


def test_a_graph_that_would_leave_too_little_memory_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    class TooLarge(RecordedGraphs):
        def capture(self, work: Any) -> None:
            pass

    caplog.set_level("INFO")
    config = config_of("pix2pix")
    assert_repeated(config, batches_of(config, N_STEPS, CPU), TooLarge(), 0)
    assert caplog.messages == ["steps are computed without a CUDA graph: it would leave too little memory"]


LEVELS = [["amp.opt_level=O0"], ["amp.opt_level=O1"], ["amp.opt_level=O1", "amp.dtype=float16"], ["amp.opt_level=O2"]]
IN_FLOAT32 = ("local enhancer", "SPADE")  # their penalties' gradients, so not O2


@pytest.mark.parametrize(
    ("case", "level"),
    [
        (case, level)
        for case, level in product([*CASES, "FastCUT", "pix2pixHD, pool"], LEVELS)
        if case not in IN_FLOAT32 or level != LEVELS[-1]
    ],
)
@NEEDS_GPU[0]
@NEEDS_GPU[1]
def test_a_gpu_repeats_a_step_with_the_same_bits(
    case: str, level: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    capture = create_autospec(CudaGraphs.capture, side_effect=CudaGraphs.capture)
    monkeypatch.setattr(CudaGraphs, "capture", capture)
    known = {"FastCUT": "FastCUT, scaled gradients", "pix2pixHD, pool": "pix2pixHD"}
    config = config_of(known.get(case, case), *level, *([POOL] if "pix2pixHD" in case or "Cycle" in case else []))
    batches = batches_of(config, 2 * N_STEPS, CUDA)
    plain, repeated = make(config, CUDA), make(config, CUDA)
    use_deterministic_algorithms(True)
    try:
        expected = train(plain, plain.step, batches)
        found = train(repeated, make_step(repeated), batches)
    finally:
        use_deterministic_algorithms(False)
    assert not [line for line in caplog.messages if "without a CUDA graph" in line]
    assert capture.called
    assert_equal(found, expected)
