"""The state of torch's random generators, as checkpoints keep it."""

import torch
from torch import Tensor


def random_state(device: torch.device) -> dict[str, Tensor]:
    """Return the state of the CPU's generator and, on a GPU, of the device's."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def restore_random_state(state: dict[str, Tensor], device: torch.device) -> None:
    """Restore what `random_state` returned; a generator that it lacks is left alone."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
