"""Contrastive loss: a translated patch must resemble the source patch at its place, and no other patch."""

import torch
import torch.nn.functional as F
from torch import Tensor

_NO_NEGATIVE = -10.0  # replaces the positive among the negatives, before the division by the temperature (CUT's code)


def patch_nce(queries: Tensor, keys: Tensor, *, n_groups: int, temperature: float = 0.07) -> Tensor:
    """Return the cross entropy of finding each query's key among the keys of its group (Park et al. 2020, equation 3).

    queries, keys: Vectors of length 1 of patches of translations, and of their sources in the same places, (R, D), at
        least float32. No gradient reaches the keys.
    n_groups: Number of groups of adjacent rows: the number of images, or 1 if patches of other images are negatives.
    """
    query, key = (vectors.unflatten(0, (n_groups, -1)) for vectors in (queries, keys.detach()))
    similarities = query @ key.mT  # (groups, rows, rows)
    positives = similarities.diagonal(dim1=1, dim2=2)[..., None]
    is_positive = torch.eye(query.shape[1], dtype=torch.bool, device=query.device)
    logits = torch.cat([positives, similarities.masked_fill(is_positive, _NO_NEGATIVE)], dim=2) / temperature
    return F.cross_entropy(logits.flatten(0, 1), torch.zeros(len(queries), dtype=torch.long, device=query.device))
