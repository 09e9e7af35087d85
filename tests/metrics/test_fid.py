"""FID and KID against their formulas, with random weights in InceptionV3's place."""

import hashlib
import pickle
from pathlib import Path

import pytest
import torch
from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

from metrics.fid import INCEPTION, N_FEATURES, Inception, frechet_distance, kernel_distance
from metrics.metric import SetScore
from tests.metrics.networks import save_random_inception
from utils.errors import ConfigError
from utils.pretrained import WeightsError

CPU = torch.device("cpu")


N_DIMENSIONS = 128


def fid(fakes: torch.Tensor, targets: torch.Tensor) -> float:
    return frechet_distance([*fakes], [*targets]).value


def kid(fakes: torch.Tensor, targets: torch.Tensor) -> SetScore:
    return kernel_distance([*fakes], [*targets])


def features(seed: int, n: int = 12) -> torch.Tensor:
    return torch.randn(n, N_DIMENSIONS, generator=torch.Generator().manual_seed(seed))


def test_fid_of_a_shift_is_its_squared_length() -> None:
    assert fid(features(0), features(0)) == pytest.approx(0, abs=0.05)
    assert fid(features(0) + 0.5, features(0)) == pytest.approx(0.25 * N_DIMENSIONS, rel=1e-3)


def test_kid_is_the_unbiased_estimate_of_the_papers_kernel() -> None:
    def kernel(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a @ b.T / N_DIMENSIONS + 1) ** 3

    fakes, targets = features(0) + 0.3, features(1)
    n = len(fakes)
    within = sum((kernel(x, x).sum() - kernel(x, x).trace()) / (n * (n - 1)) for x in (fakes, targets))
    expected = float(within - 2 * kernel(fakes, targets).mean())
    mean, deviation = kid(fakes, targets)
    assert mean == pytest.approx(expected, rel=1e-4)
    assert deviation == pytest.approx(0, abs=1e-4)  # each subset is the full set


def test_kid_is_the_same_at_each_call_and_leaves_the_random_state_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    assert kid(features(0), features(1)) == kid(features(0), features(1))
    assert torch.rand(1) == expected


def test_features_are_those_of_the_network_with_the_cached_weights(hub: Path) -> None:
    file = save_random_inception(hub)
    inception = Inception(CPU)
    image = torch.randint(0, 256, (3, 20, 30), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    found = inception(image)
    assert found.shape == (N_FEATURES,)
    assert 0.01 < found.std() < 100
    assert not torch.allclose(found, inception(255 - image), rtol=0.01)
    original = FeatureExtractorInceptionV3("inception-v3-compat", ["2048"], str(file))  # which resizes in the same way
    torch.testing.assert_close(found, original(image[None])[0][0], rtol=1e-4, atol=0)
    assert inception.protocol["weights_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    state = torch.load(file, weights_only=True)
    torch.save({key: value * 0 for key, value in state.items()}, file)
    assert Inception(CPU)(image).abs().max() == 0


def test_damaged_weights_are_refused(hub: Path) -> None:
    file = save_random_inception(hub)
    state = torch.load(file, weights_only=True)
    state["Conv2d_1a_3x3.conv.weight"][0, 0, 0, 0] = torch.nan
    torch.save(state, file)
    with pytest.raises(WeightsError, match=r"825d\.pth: its Conv2d_1a_3x3\.conv\.weight is damaged"):
        Inception(CPU)


def test_kid_draws_subsets_of_large_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = kid(features(0, 40) + 0.3, features(1, 40))
    monkeypatch.setattr("metrics.fid.KID_SUBSET_SIZE", 20)
    mean, deviation = kid(features(0, 40) + 0.3, features(1, 40))
    assert deviation is not None
    assert deviation > 0
    assert mean == pytest.approx(whole, abs=3 * deviation)


def test_kid_seeds_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.manual_seed_all", lambda seed: pytest.fail(f"seeded with {seed}"))
    kid(features(0), features(1))


def test_a_file_of_another_network_is_refused_with_the_remedy(hub: Path) -> None:
    torch.save({"weight": torch.zeros(1)}, hub / INCEPTION.name)
    with pytest.raises(WeightsError, match=r"825d\.pth: holds no InceptionV3.*; delete it"):
        Inception(CPU)


class Malicious:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"fc.weight": value}], ids=["alone", "inside"])
def test_a_malicious_file_runs_nothing(tmp_path: Path, hub: Path, wrap: object) -> None:
    (hub / INCEPTION.name).write_bytes(pickle.dumps(wrap(Malicious(tmp_path / "ran"))))  # type: ignore[operator]
    with pytest.raises(WeightsError, match=r"825d\.pth: cannot be read as weights"):
        Inception(CPU)
    torch.save(wrap(Malicious(tmp_path / "ran")), hub / INCEPTION.name)  # type: ignore[operator]
    with pytest.raises(WeightsError, match=r"825d\.pth: cannot be read as weights"):
        Inception(CPU)
    assert not (tmp_path / "ran").exists()


def test_without_the_package_the_message_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'fid or kid.* pip install "torch-fidelity'):
        Inception(CPU)
