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

from tools.export.format import ExportError
from utils.files import replacing
from utils.log import logger
from utils.paths import expanded

VERSION = "1.30.0"
PACKAGE = f"onnxruntime-web@{VERSION}"
URL = f"https://cdn.jsdelivr.net/npm/{PACKAGE}/dist"
MEGABYTES = 33  # size of the package
SILENCE_S = 20.0  # without data, after which a download has failed

WASM = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
WEBGPU = ("ort.webgpu.bundle.min.mjs", "ort-wasm-simd-threaded.asyncify.wasm")
# Files in the package with the integrity sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZCl…
SHA256 = {
    "ort.wasm.bundle.min.mjs": "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
    "ort.webgpu.bundle.min.mjs": "0730816731ce2cdfb06f273da065d4a1c7091eb9d1756a83b2916c8a89d015e2",
    "ort-wasm-simd-threaded.asyncify.wasm": "39f9f0894d478800487ed9f7dbe92618498db320cf55c8e3d89adff8dce658da",
}


def runtime_files(names: tuple[str, ...], given: Path | None) -> dict[str, bytes]:
    """Return the content of files of the package by name.

    given: the package's archive, its folder, or its folder dist; None to take them from the cache, where they are
        downloaded to if missing.

    Raises:
        ExportError: a file is missing, is none of version VERSION, or cannot be downloaded.
    """
    origin, place = f"--web-runtime {given}", given
    if place is None:
        place = expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "XDG_CACHE_HOME") / "pairgan" / PACKAGE
        origin = str(place)
        if not all((place / name).is_file() for name in names):
            _download(names, place)
    return {name: _checked(name, _content(name, place, origin), origin) for name in names}


def _checked(name: str, content: bytes, origin: str) -> bytes:
    if hashlib.sha256(content).hexdigest() != SHA256[name]:
        raise ExportError(f"{origin}: its {name} is not that of {PACKAGE}. Delete it, or name another.")
    return content


def _content(name: str, place: Path, origin: str) -> bytes:
    """Return a file of the package's folder, or of its archive, which is not unpacked. origin: for messages."""
    try:
        if place.is_dir():
            found = (place / name, place / "dist" / name, place / "package" / "dist" / name)
            return next(file for file in found if file.is_file()).read_bytes()
        with tarfile.open(place) as package:
            member = package.extractfile(f"package/dist/{name}")
            return member.read() if member else b""
    except (tarfile.TarError, KeyError, EOFError, OSError, StopIteration) as error:
        problem = f"holds no {name}" if place.exists() else "no such file or folder"
        remedy = f"Name the archive or the folder of {PACKAGE}, as npm pack {PACKAGE} writes it."
        raise ExportError(f"{origin}: {problem}. {remedy}") from error


def _download(names: tuple[str, ...], folder: Path) -> None:
    """Download files into the cache: by npm where it is installed, otherwise from a public mirror of its packages."""
    logger.info("downloading  %s (%d MB) to %s", PACKAGE, MEGABYTES, folder)
    try:
        contents = _from_npm(names) if shutil.which("npm") else _from_web(names)
    except (OSError, HTTPException, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        raise ExportError(
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
        return {name: _content(name, archive, PACKAGE) for name in names}


def _from_web(names: tuple[str, ...]) -> dict[str, bytes]:
    contents = {}
    for name in names:
        with urllib.request.urlopen(f"{URL}/{name}", timeout=SILENCE_S) as answer:
            contents[name] = answer.read()
    return contents
