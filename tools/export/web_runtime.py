"""The files of onnxruntime-web, which runs ONNX in a browser: from a folder, from npm or from the web, and checked."""

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from http.client import HTTPException
from pathlib import Path

from utils.atomic_file import replacing
from utils.checkpoint import CheckpointError
from utils.log import logger

VERSION = "1.30.0"
PACKAGE = f"onnxruntime-web@{VERSION}"
URL = f"https://cdn.jsdelivr.net/npm/{PACKAGE}/dist"
MEGABYTES = 33  # of the package
SILENCE_S = 20.0  # without data, after which a download has failed

WASM = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
WEBGPU = ("ort.webgpu.bundle.min.mjs", "ort-wasm-simd-threaded.asyncify.wasm")
SHA512 = {  # of the files in the package with the integrity sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZCl…
    "ort.wasm.bundle.min.mjs": (
        "d4a705f0258065eaad4dcbcb80a3ed38c5c86e459e87ef8b0c24290e14390115"
        "711c02f554d2f9aebd0e23e3314db98d200365744fc0feaf8ee2048a81232359"
    ),
    "ort-wasm-simd-threaded.wasm": (
        "1adeded62203219fcf5c484cfce5657aa5875689b490423f86cf1ca1dd1cad77"
        "15f630c6337f41db71ee42794e3a00ce0b7c78939a71220b5d83368bf6ea7730"
    ),
    "ort.webgpu.bundle.min.mjs": (
        "0070ce851b10cec8d87e17083b8ef41c5da9a5d0b12118dca06510dc2e35c61e"
        "06febed7b48f8f00be1e3c5f0455bf8b84f9158e449a5ec46020c098bd1be16d"
    ),
    "ort-wasm-simd-threaded.asyncify.wasm": (
        "773cfd2347266c1215c9b2ad6eeeacceeee36cc4b354f27713a39cf0f4b2a084"
        "31ff817bc55276886cf7928e38b0bc408b2000c9c3c4415b552872a309c45d77"
    ),
}


class RuntimeFilesError(CheckpointError):
    """The files of onnxruntime-web cannot be had, or are others; the message names the remedy."""


def cache_folder() -> Path:
    """Return the folder in which downloaded files are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "pairgan" / PACKAGE


def runtime_files(names: tuple[str, ...], given: Path | None) -> dict[str, bytes]:
    """Return the content of files of the package by name.

    given: the package's archive, its folder, or its folder dist; None to take them from the cache, where they are
        downloaded to if missing.

    Raises:
        RuntimeFilesError: a file is missing, is none of version VERSION, or cannot be downloaded.
    """
    if given is not None:
        return {name: _checked(name, _given(name, given), str(given)) for name in names}
    folder = cache_folder()
    if not all((folder / name).is_file() for name in names):
        _download(names, folder)
    return {name: _checked(name, (folder / name).read_bytes(), str(folder / name)) for name in names}


def _checked(name: str, content: bytes, origin: str) -> bytes:
    if hashlib.sha512(content).hexdigest() != SHA512[name]:
        raise RuntimeFilesError(f"{origin}: its {name} is not that of {PACKAGE}. Delete it, or name another.")
    return content


def _given(name: str, path: Path) -> bytes:
    remedy = f"Name the archive or the folder of {PACKAGE}, as npm pack {PACKAGE} writes it."
    if path.is_dir():
        for file in (path / name, path / "dist" / name, path / "package" / "dist" / name):
            if file.is_file():
                return file.read_bytes()
        raise RuntimeFilesError(f"--web-runtime {path}: holds no {name}. {remedy}")
    if not path.exists():
        raise RuntimeFilesError(f"--web-runtime {path}: no such file or folder. {remedy}")
    return _member(path, name, f"--web-runtime {path}: holds no {name}. {remedy}")


def _member(archive: Path, name: str, problem: str) -> bytes:
    """Return a file of the package's archive, without unpacking it."""
    try:
        with tarfile.open(archive) as package:
            member = package.extractfile(f"package/dist/{name}")
            content = member.read() if member else b""
    except (tarfile.TarError, KeyError, EOFError, OSError) as error:
        raise RuntimeFilesError(problem) from error
    return content


def _download(names: tuple[str, ...], folder: Path) -> None:
    """Download files into the cache: by npm where it is installed, otherwise from a public mirror of its packages."""
    logger.info("downloading  %s (%d MB) to %s", PACKAGE, MEGABYTES, folder)
    try:
        contents = _from_npm(names) if shutil.which("npm") else _from_web(names)
    except (OSError, HTTPException, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        raise RuntimeFilesError(
            f"{PACKAGE}: cannot be downloaded ({' '.join(reason.split()[-20:])}). Take its archive from elsewhere and "
            "name it with --web-runtime FILE."
        ) from error
    for name, content in contents.items():
        with replacing(folder / name) as unfinished:
            unfinished.write_bytes(_checked(name, content, f"the downloaded {PACKAGE}"))


def _from_npm(names: tuple[str, ...]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="pairgan-") as folder:
        command = ["npm", "pack", "--silent", PACKAGE]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=600)
        (archive,) = Path(folder).glob("*.tgz")
        return {name: _member(archive, name, f"{PACKAGE}: holds no {name}") for name in names}


def _from_web(names: tuple[str, ...]) -> dict[str, bytes]:
    contents = {}
    for name in names:
        with urllib.request.urlopen(f"{URL}/{name}", timeout=SILENCE_S) as answer:
            contents[name] = answer.read()
    return contents
