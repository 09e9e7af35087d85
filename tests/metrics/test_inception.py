"""FID and KID against their formulas, with random weights in InceptionV3's place."""

import hashlib
import pickle
from pathlib import Path

import pytest
import torch
from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

from metrics.fid import N_FEATURES, Inception, fid, kid
from tests.metrics.networks import save_random_inception
from utils.errors import ConfigError
from utils.pretrained import WeightsError

CPU = torch.device("cpu")


def features(seed: int, n: int = 12) -> torch.Tensor:
    return torch.randn(n, N_FEATURES, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("n", [64, pytest.param(N_FEATURES, marks=pytest.mark.slow)])  # 64: eigenvalues take n^3
def test_fid_of_a_shift_is_its_squared_length(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr("metrics.fid._Given.num_features", n)
    some = features(0)[:, :n]
    assert fid(some, some) == pytest.approx(0, abs=0.05)
    assert fid(some + 0.5, some) == pytest.approx(0.25 * n, rel=1e-3)


def test_kid_is_the_unbiased_estimate_of_the_papers_kernel() -> None:
    def kernel(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a @ b.T / N_FEATURES + 1) ** 3

    fakes, targets = features(0) + 0.3, features(1)
    n = len(fakes)
    within = sum((kernel(x, x).sum() - kernel(x, x).trace()) / (n * (n - 1)) for x in (fakes, targets))
    expected = float(within - 2 * kernel(fakes, targets).mean())
    mean, deviation = kid(fakes, targets)
    assert mean == pytest.approx(expected, rel=1e-4)
    assert deviation == pytest.approx(0, abs=1e-4)  # each subset is the whole


def test_kid_is_the_same_at_each_call_and_leaves_the_random_state_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    assert kid(features(0), features(1)) == kid(features(0), features(1))
    assert torch.rand(1) == expected


def test_features_are_those_of_the_network_whose_weights_are_given(tmp_path: Path) -> None:
    file = save_random_inception(tmp_path / "inception.pth")
    inception = Inception(file, CPU)
    image = torch.randint(0, 256, (3, 20, 30), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    found = inception(image)
    assert found.shape == (N_FEATURES,)
    assert 0.01 < found.std() < 100
    assert not torch.allclose(found, inception(255 - image), rtol=0.01)
    original = FeatureExtractorInceptionV3("inception-v3-compat", ["2048"], str(file))  # with the same way to resize
    torch.testing.assert_close(found, original(image[None])[0][0], rtol=1e-4, atol=0)
    state = torch.load(file, weights_only=True)
    torch.save({key: value * 0 for key, value in state.items()}, tmp_path / "zeros.pth")
    assert Inception(tmp_path / "zeros.pth", CPU)(image).abs().max() == 0
    assert inception.protocol["weights_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    state = torch.load(save_random_inception(tmp_path / "inception.pth"), weights_only=True)
    state["Conv2d_1a_3x3.conv.weight"][0, 0, 0, 0] = torch.nan
    torch.save(state, tmp_path / "nan.pth")
    with pytest.raises(WeightsError, match=r"nan\.pth: its Conv2d_1a_3x3\.conv\.weight is damaged"):
        Inception(tmp_path / "nan.pth", CPU)


def test_kid_draws_subsets_of_large_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = kid(features(0, 40) + 0.3, features(1, 40))
    monkeypatch.setattr("metrics.fid.KID_SUBSET_SIZE", 20)
    mean, deviation = kid(features(0, 40) + 0.3, features(1, 40))
    assert deviation > 0
    assert mean == pytest.approx(whole, abs=3 * deviation)


def test_kid_seeds_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.manual_seed_all", lambda seed: pytest.fail(f"seeded with {seed}"))
    kid(features(0), features(1))


def test_a_file_of_another_network_is_told_with_the_way_out(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(WeightsError, match=r"other\.pth: holds no InceptionV3.*metrics\.inception_weights"):
        Inception(tmp_path / "other.pth", CPU)


class Malicious:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"fc.weight": value}], ids=["alone", "inside"])
def test_a_malicious_file_runs_nothing(tmp_path: Path, wrap: object) -> None:
    (tmp_path / "bad.pth").write_bytes(pickle.dumps(wrap(Malicious(tmp_path / "ran"))))  # type: ignore[operator]
    with pytest.raises(WeightsError, match=r"bad\.pth: cannot be read as weights"):
        Inception(tmp_path / "bad.pth", CPU)
    torch.save(wrap(Malicious(tmp_path / "ran")), tmp_path / "bad.pth")  # type: ignore[operator]
    with pytest.raises(WeightsError, match=r"bad\.pth: cannot be read as weights"):
        Inception(tmp_path / "bad.pth", CPU)
    assert not (tmp_path / "ran").exists()


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'fid or kid.* pip install "torch-fidelity'):
        Inception(None, CPU)
