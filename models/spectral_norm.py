"""Spectral normalisation (Miyato et al. 2018)."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from models.layers import Float32Buffers, PairConv2d
from utils.device import at_least_float32

SpectralIteration = Literal["u_first", "v_first"]
Vectors = tuple[Tensor, Tensor]

_FIRST_ITERATIONS = 15  # torch also makes 15 steps after it draws the vectors
_SETTLING_ITERATIONS = 50  # sigma of averaged weights then has an error below 1e-3
_EPS = 1e-12


class SpectralNorm(Float32Buffers):
    """Parametrization that divides a weight by its largest singular value, sigma = uᵀ W v (equation 8).

    In training mode, each pass first updates the vectors u and v by one step of the power iteration (algorithm 1), in
    float32 or more. u and v stay in float32 if the network is cast.

    dim: Index of the weight's dimension for output channels.
    iteration: Order of a step. u_first updates u, then v, as in torch's parametrization. v_first updates v, then u, as
        in torch's former hook, which SPADE and OASIS use.
    """

    _u: Tensor  # (out_channels,); checkpoints contain these names, which torch's parametrization also uses
    _v: Tensor  # (number of weights per output channel,)

    def __init__(self, weight: Tensor, *, dim: int = 0, iteration: SpectralIteration = "u_first") -> None:
        super().__init__()
        self._dim = dim
        self._iteration = iteration
        self._chosen: Vectors | None = None
        matrix = self._matrix(weight)
        u, v = (matrix.new_empty(n) for n in matrix.shape)
        if not matrix.is_meta:
            u, v = (F.normalize(vector.normal_(0, 1), dim=0, eps=_EPS) for vector in (u, v))
        self.register_buffer("_u", u)
        self.register_buffer("_v", v)
        self._iterate(matrix, _FIRST_ITERATIONS)

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight divided by sigma, with the same shape and dtype."""
        if weight.is_meta:  # shapes without values, to compare with a checkpoint
            return weight
        with _full_precision(weight):
            matrix = self._matrix(weight)
            u, v = self._vectors(matrix)
            sigma = torch.vdot(u, torch.mv(matrix, v))
            return (weight.to(matrix.dtype) / sigma).to(weight.dtype)

    def settle(self, weight: Tensor) -> None:
        """Fit the vectors to a new weight, such as an average of weights."""
        with _full_precision(weight):
            self._iterate(self._matrix(weight), _SETTLING_ITERATIONS)

    def _matrix(self, weight: Tensor) -> Tensor:
        """Return the weight as a matrix (out_channels, all other dimensions), in float32 or more."""
        rows = weight.transpose(0, self._dim) if self._dim else weight
        return at_least_float32(rows.flatten(1))

    def _vectors(self, matrix: Tensor) -> Vectors:
        """Return u and v for this pass, cloned because a later pass changes the buffers."""
        if self._chosen is not None:
            return self._chosen
        if self.training:
            self._iterate(matrix, 1)
        return self.vectors()

    def vectors(self) -> Vectors:
        """Return copies of the present u and v."""
        return self._u.clone(), self._v.clone()

    @torch.no_grad()
    def _iterate(self, matrix: Tensor, n_iterations: int) -> None:
        if matrix.is_meta:  # no values to iterate on
            return
        for _ in range(n_iterations):
            if self._iteration == "v_first":
                F.normalize(torch.mv(matrix.T, self._u), dim=0, eps=_EPS, out=self._v)
            F.normalize(torch.mv(matrix, self._v), dim=0, eps=_EPS, out=self._u)
            if self._iteration == "u_first":
                F.normalize(torch.mv(matrix.T, self._u), dim=0, eps=_EPS, out=self._v)


def _full_precision(weight: Tensor) -> AbstractContextManager[object]:
    return nullcontext() if weight.is_meta else torch.autocast(weight.device.type, enabled=False)


@contextmanager
def chosen_vectors(vectors: Mapping[SpectralNorm, Vectors]) -> Iterator[None]:
    """Context manager: passes use these vectors and do not iterate."""
    for norm, chosen in vectors.items():
        norm._chosen = chosen
    try:
        yield
    finally:
        for norm in vectors:
            norm._chosen = None


def spectral_norms(network: nn.Module) -> list[SpectralNorm]:
    """Return the spectral norms of a network's convolutions."""
    return [module for module in network.modules() if isinstance(module, SpectralNorm)]


def settle_spectral_norm(network: nn.Module) -> None:
    """Fit u and v of each convolution to its weight, in place."""
    for module in network.modules():
        if isinstance(module, parametrize.ParametrizationList) and isinstance(module[0], SpectralNorm):
            module[0].settle(module.original.detach())


def add_spectral_norm(network: nn.Module, *, outer: bool = True, iteration: SpectralIteration = "u_first") -> nn.Module:
    """Add spectral norm to the convolutions of `network`, in place, and return `network`.

    outer: Whether to include the first and last convolutions of a discriminator.
    """
    for module in normed_convolutions(network, outer=outer):
        dim = 1 if isinstance(module, nn.ConvTranspose2d) else 0
        norm = SpectralNorm(module.weight, dim=dim, iteration=iteration)
        parametrize.register_parametrization(module, "weight", norm)
    return network


def normed_convolutions(network: nn.Module, *, outer: bool = True) -> list[nn.Conv2d | nn.ConvTranspose2d]:
    """Return the convolutions for spectral norm.

    If blocks of the network have a method `normed_convolutions`, return only the convolutions that they choose.

    outer: Same as in `add_spectral_norm`, but ignored for networks with such blocks.
    """
    blocks: list[Any] = [module for module in network.modules() if hasattr(module, "normed_convolutions")]
    if blocks:
        return [convolution for block in blocks for convolution in block.normed_convolutions()]
    return [
        module
        for name, module in network.named_modules()
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d)
        and (outer or not (isinstance(module, PairConv2d) or name.rpartition(".")[2] == "head"))
    ]
