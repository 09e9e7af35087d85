"""Ranges of bytes of files of this machine and of others: exactly those asked for, or an error that ends the run."""

import functools
import os
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.batch import LoadingError
from utils.data_root import CREDENTIALS, address_problem, without_secrets

TRY_S = 30.0  # longest that one try takes
PAUSES_S = (1.0, 5.0, 20.0)  # between tries


class StoreError(LoadingError):
    """A store does not give the bytes that it should: the run ends, and no sample is skipped for it."""


@dataclass(frozen=True)
class RemoteFile:
    """A file that is read by ranges of bytes; `str` is its place, for messages.

    url: a path of this machine, or an address (http, https, s3, gs), which holds no credentials.
    """

    url: str

    def __post_init__(self) -> None:
        if problem := address_problem(self.url):
            raise StoreError(problem)

    def __str__(self) -> str:
        return self.url

    @property
    def _scheme(self) -> str:
        """The part before "://"; empty for a path."""
        return self.url.rpartition("://")[0]

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to `end`, exactly that many.

        Raises:
            StoreError: they cannot be read, or are fewer.
        """
        return self._read(start, end, at_least=end - start)

    def read_all(self, limit: int) -> bytes:
        """Return all bytes, at least one; raises as `read`, and where they are more than `limit`."""
        content = self._read(0, limit + 1, at_least=1)
        if len(content) > limit:
            raise StoreError(f"{self}: has more than {limit} bytes. Check that it is the right file.")
        return content

    def size(self) -> int:
        """Return the number of bytes of a file of this machine; raises as `read`."""
        assert not self._scheme, self
        try:
            return Path(self.url).stat().st_size
        except OSError as error:
            raise self._final(error) or StoreError(f"{self}: {error.strerror}.") from error

    def _read(self, start: int, end: int, at_least: int) -> bytes:
        """Return the bytes from `start` up to `end`, or to the end of the file. A file elsewhere is tried again."""
        pauses_s, problem = PAUSES_S if self._scheme else (), ""
        for pause_s in (0.0, *pauses_s):
            if pause_s:  # a sleep of 0 s takes milliseconds on a busy machine
                time.sleep(pause_s)
            try:
                content = self._request(start, end) if self._scheme else self._local(start, end)
            except Exception as error:  # the libraries of the schemes have classes of their own
                if (final := self._final(error)) is not None:
                    raise final from error
                is_late = isinstance(error, TimeoutError)
                problem = f"no answer within {TRY_S:g} s" if is_late else f"{type(error).__name__}: {error}"
            else:
                if at_least <= len(content) <= end - start:
                    return content
                problem = f"gave {len(content)} of {end - start} bytes from {start} on"
        tries = f"Tried {1 + len(pauses_s)} times. " if pauses_s else ""
        raise StoreError(f"{self}: {problem}. {tries}Start again when it can be read.")

    def _final(self, error: BaseException | None) -> StoreError | None:
        """Return the error of a try that another one will not mend; None where it may."""
        where = CREDENTIALS.get(self._scheme)
        remedies = {
            ImportError: 'needs other packages: python -m pip install --editable ".[remote]"',
            FileNotFoundError: "no such file. Check data.root, and that it was copied whole.",
            PermissionError: f"access denied. {f'Give credentials by {where}' if where else 'Change its permissions'}.",
        }
        if type(error).__name__ == "NoCredentialsError":  # of botocore
            error = PermissionError()
        if remedy := next((text for kind, text in remedies.items() if isinstance(error, kind)), None):
            return StoreError(f"{self}: {remedy}")
        while not isinstance(error, StoreError | None):  # which a library may have wrapped in an error of its own
            error = error.__cause__ or error.__context__
        return error

    def _local(self, start: int, end: int) -> bytes:
        with Path(self.url).open("rb") as file:
            file.seek(start)
            return file.read(end - start)

    def _request(self, start: int, end: int) -> bytes:
        system = file_system(self._scheme, os.getpid(), threading.get_ident())
        from fsspec.asyn import sync

        path = system._strip_protocol(self.url)
        content: bytes = sync(system.loop, system._cat_file, path, start=start, end=end, timeout=TRY_S)
        return content


@functools.cache
def file_system(scheme: str, _process: int, _thread: int) -> Any:
    """Return fsspec's file system of a scheme, with connections of this process and thread; it follows no redirect.

    scheme: as "s3". _process, _thread: their numbers.

    None is ever let go: fsspec would close what a forked process inherits, and with it connections of the parent, whose
    epoll it shares.
    """
    import aiohttp
    import fsspec

    async def refuse(_session: object, _context: object, redirect: aiohttp.TraceRequestRedirectParams) -> None:
        if there := redirect.response.headers.get("Location"):
            redirect.response.close()
            what = f"redirects to {without_secrets(there)}, which is not followed"
            raise StoreError(f"{without_secrets(str(redirect.url))}: {what}.")

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(refuse)
    trace.freeze()
    options: dict[str, Any] = {"session_kwargs": {"trace_configs": [trace]}}  # of gs
    if scheme == "s3":
        options = {"config_kwargs": {"http_session_cls": _s3_session(trace), "retries": {"total_max_attempts": 1}}}
    elif scheme != "gs":
        client = {"trace_configs": [trace], "raise_for_status": _check_answer, "trust_env": True}  # ~/.netrc too
        options = {"client_kwargs": client}
    system = fsspec.filesystem(scheme, skip_instance_cache=True, **options)
    system.retries = 1  # tries of s3fs, which makes up to 25 for one read
    return system


def _s3_session(trace: Any) -> Any:
    """Return the class of aiobotocore's sessions, with a trace of aiohttp, for which it has no setting."""
    from aiobotocore.httpsession import AIOHTTPSession

    class Session(AIOHTTPSession):
        async def _get_session(self, proxy_url: str) -> Any:
            session = await super()._get_session(proxy_url)
            if not session.trace_configs:
                session.trace_configs.append(trace)
            return session

    return Session


async def _check_answer(response: Any) -> None:
    """Raise an error unless an answer over HTTP is the range of bytes that was asked for, before these are read."""
    place, status = without_secrets(str(response.url)), response.status
    whole = StoreError(f"{place}: the server sends whole files instead of ranges. Use one that does, as nginx.")
    known = {200: whole, 404: FileNotFoundError(), 401: PermissionError(), 403: PermissionError()}
    error = known.get(status, OSError(f"the server answers with status {status}"))
    if status == 206:
        start, last = map(int, response.request_info.headers["Range"].removeprefix("bytes=").split("-"))
        given = re.match(rf"bytes {start}-(\d+)/", response.headers.get("Content-Range", ""))
        n_bytes = int(given[1]) + 1 - start if given else 0
        if 0 < n_bytes == response.content_length <= last + 1 - start and "Content-Encoding" not in response.headers:
            return
        error = OSError("the server answers with another range than was asked for")
    response.close()
    raise error
