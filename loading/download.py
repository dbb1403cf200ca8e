"""Fetch one file: resumed after a break, verified, and under its own name only when it is whole.

The bytes are collected in `NAME.<version>.part`, where <version> is a hash of the ETag and date of
this content: a resumed download never joins two versions of a file. Without ETag and date nothing
is resumed. When size and checksum agree, the part file is renamed, which is atomic: NAME is whole
or not there.
"""

import contextlib
import hashlib
import os
import re
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

from loading.errors import UserError, clean, clear_errors

HUB = "https://huggingface.co"
CHUNK = 1 << 16  # bytes read and written at a time
DELAYS = 1, 2, 4, 8  # seconds to wait before each new attempt
SMALL = 50e6  # bytes: more than any configuration, index or tokenizer has
SLOWEST = 60_000, 60  # bytes and seconds: a transfer that is slower has failed


class Refused(UserError):
    """The server does not give this file to this user."""


class NotFound(Refused):
    """The server has no such file."""


class Broken(Exception):
    """A transfer failed in a way that may pass: worth another attempt."""


class NoConnection(Broken):
    """The server cannot be reached: that may pass only where it was reached before."""


class Remote(NamedTuple):
    """A file on the server, by its headers; None for what they lack."""

    size: int | None  # bytes
    etag: str | None
    modified: str | None  # the header Last-Modified
    md5: str | None  # hexadecimal, as is sha256
    sha256: str | None


def download(
    url: str, path: Path, size: int | None = None, sha256: str | None = None,
    limit: float = SMALL, wait: Callable[[float], None] = sleep,
) -> None:  # fmt: skip
    """Fetch `url` into the file `path`, unless it is there already with `size` bytes.

    size (bytes) and sha256 (hexadecimal) are what the caller knows about the right file; without a
    size it may have `limit` bytes. A broken transfer is resumed, by another process too;
    `wait(seconds)` is called before each new attempt. One process at a time may fetch one file:
    hold `locked(path.parent)`. Raises UserError; NotFound for 404, Refused for 401 and 403.
    """
    if path.is_file() and size in (None, path.stat().st_size):
        return
    for n, delay in enumerate((*DELAYS, None)):
        try:
            with clear_errors(path):
                return attempt(url, path, size, sha256, limit)
        except Broken as error:
            if delay is None or (n == 0 and isinstance(error, NoConnection)):
                raise UserError(
                    f"cannot download {url}: {error}; check the address and the network"
                    " (https_proxy, REQUESTS_CA_BUNDLE) and run this again, it goes on where it"
                    " stopped; --model stories works offline"
                ) from None
            print(clean(f"{url}: {error}; trying again in {delay} s"), file=sys.stderr)
            wait(delay)


def attempt(url: str, path: Path, size: int | None, sha256: str | None, limit: float) -> None:
    """One attempt: ask about the file, fetch what is missing, verify, rename. Raises Broken."""
    remote = ask(url)
    if None not in (size, remote.size) and size != remote.size:
        raise UserError(f"{url} has {remote.size} bytes, expected {size}: not a mirror of it")
    remote = remote._replace(size=size or remote.size, sha256=sha256 or remote.sha256)
    version = hashlib.sha256(f"{remote.etag} {remote.modified}".encode()).hexdigest()[:8]
    part = path.with_name(f"{path.name}.{version}.part")
    for old in path.parent.glob(f"{path.name}.????????.part"):
        if old != part or not any(remote[1:]):  # perhaps of another version
            old.unlink()
    whole = part.is_file() and part.stat().st_size == remote.size
    resumed = whole or fetch(url, part, remote, size or limit)
    for name, right in {"md5": remote.md5, "sha256": remote.sha256}.items():
        if right and right != digest(part, name):
            part.unlink()
            if resumed:  # perhaps only the part that was there before is bad: start over
                raise Broken(f"its {name} is wrong")
            raise UserError(f"{url} arrived damaged (its {name} is wrong): try another mirror")
    os.replace(part, path)


def ask(url: str) -> Remote:
    """HEAD: the size, version and checksums of the file, before a byte of it moves."""
    with request("HEAD", url) as response:
        linked = [answer.headers.get("X-Linked-ETag") for answer in [*response.history, response]]
        linked = ["", *filter(None, linked)][-1]  # the hub gives it where it redirects
        length = response.headers.get("Content-Length", "")
        md5 = response.headers.get("Content-MD5", "")  # base64
        return Remote(
            size=int(length) if re.fullmatch("[0-9]{1,15}", length) else None,
            etag=response.headers.get("ETag"),
            modified=response.headers.get("Last-Modified"),
            md5=b64decode(md5).hex() if re.fullmatch("[A-Za-z0-9+/]{22}==", md5) else None,
            sha256=linked.strip('"') if re.fullmatch('"?[0-9a-f]{64}"?', linked) else None,
        )


def fetch(url: str, part: Path, remote: Remote, limit: float) -> bool:
    """GET what `part` does not hold yet. -> whether earlier bytes were kept. Raises Broken."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    have = part.stat().st_size if part.is_file() else 0
    if remote.size is None or have > remote.size:
        have = 0  # nothing to resume
    with request("GET", url, {"Range": f"bytes={have}-"} if have else None) as response:
        if response.headers.get("ETag", remote.etag) != remote.etag:
            raise Broken("the file has changed meanwhile")
        resumed = response.status_code == 206
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise Broken("the server sent another range than it was asked for")
        have = have if resumed else 0  # 200: no ranges here, the whole file comes
        most = min(limit, remote.size or limit)
        with (
            open(part, "ab" if resumed else "wb") as file,
            tqdm(total=remote.size, initial=have, desc=part.name.rsplit(".", 2)[0], unit="B",
                 unit_scale=True, disable=sys.stderr is None) as bar,
        ):  # fmt: skip
            for chunk in chunks(response):
                have += len(chunk)
                if have > most:
                    break  # an endless reply must not fill the disk
                file.write(chunk)
                bar.update(len(chunk))
            file.flush()
            os.fsync(file.fileno())
    if have > limit:
        part.unlink()
        raise UserError(f"{url} has more than {limit:.0f} bytes: not the file that belongs there")
    if remote.size not in (None, have):
        raise Broken(f"broken off at {have} of {remote.size} bytes")
    return resumed


def chunks(response: Any) -> Iterator[bytes]:
    """The bytes of a response as they arrive. Raises Broken where they end, or come too slowly."""
    from urllib3.exceptions import HTTPError  # late: only a download needs it

    n_bytes, seconds = SLOWEST
    have, deadline = 0, monotonic() + seconds
    try:
        while chunk := response.raw.read1(CHUNK):
            yield chunk
            have += len(chunk)
            if have >= n_bytes:
                have, deadline = 0, monotonic() + seconds
            elif monotonic() > deadline:
                raise Broken(f"fewer than {n_bytes} bytes in {seconds} seconds")
    except HTTPError:
        raise Broken("the connection broke off") from None


def request(method: str, url: str, headers: Mapping[str, str] | None = None) -> Any:
    """-> a response that streams, of status 200 or 206. Raises UserError and Broken."""
    import requests  # type: ignore[import-untyped]  # late: only a download needs it

    headers = {"Accept-Encoding": "identity", **(headers or {})}  # bytes as stored, countable
    token = os.environ.get("HF_TOKEN", "").strip()
    if url.startswith(f"{HUB}/") and re.fullmatch(r"[\w.-]+", token, re.ASCII):
        headers["Authorization"] = f"Bearer {token}"  # requests keeps it from all other hosts
    try:
        response = requests.request(method, url, headers=headers, stream=True, timeout=30)
    except (OSError, ValueError) as error:  # so are all errors of requests
        reason = getattr((*error.args, None)[0], "reason", None)  # why there is no connection
        if reason is None and isinstance(error, (requests.ConnectionError, requests.Timeout)):
            raise Broken("the connection broke off") from None
        raise NoConnection(str(reason or error)) from None
    status, encoding = response.status_code, response.headers.get("Content-Encoding") or "identity"
    if status in (200, 206) and encoding == "identity":
        return response
    response.close()
    if method == "HEAD" and status in (405, 501):
        return request("GET", url, headers)
    if status == 404:
        raise NotFound(f"{url} does not exist (404): check the name or the mirror")
    if status in (408, 416, 429) or status >= 500:  # 416: the file has become shorter
        raise Broken(f"the server answered {status}")
    if status in (200, 206):
        raise UserError(f"{url} comes as {encoding}, unasked: use another mirror or proxy")
    kind = Refused if status in (401, 403) else UserError
    raise kind(f"{url}: the server refused with status {status}")


def digest(path: Path, name: str) -> str:
    """The checksum of a whole file, read piece by piece. -> hexadecimal"""
    result = hashlib.new(name, usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            result.update(chunk)
    return result.hexdigest()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make `folder`; let one process at a time work in it, while the others wait. Folders created
    here and still empty are removed.

    The lock (flock) is the folder's own and is released when the process ends, even by a crash.
    Without flock (Windows, some network disks), do not download one model twice at a time.
    """
    with clear_errors(folder):
        handle, made = lock(folder)
    try:
        yield
    finally:
        for place in made:
            with contextlib.suppress(OSError):  # not empty
                place.rmdir()
        if handle is not None:
            os.close(handle)


def lock(folder: Path) -> tuple[int | None, list[Path]]:
    """Make a folder and wait for its lock -> its open handle (None where there are no locks), and
    the folders that were made, the inner ones first."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        return None, made
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"another process is filling {folder}: waiting for it", file=sys.stderr)
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        pass  # a disk without locks
    if folder.is_dir() and os.path.samestat(os.stat(folder), os.fstat(handle)):
        return handle, made
    os.close(handle)  # the other process has removed the folder
    return lock(folder)
