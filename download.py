"""Fetch one file: resumed after a break, verified, and under its own name only when it is whole.

The bytes are collected in `NAME.<version>.part`, where <version> is made of what the server says
about this very content (ETag, date): so a resumed download never joins two versions of a file. When
size and checksum agree, the part file is renamed, which is atomic: NAME is whole or not there.
"""

import contextlib
import hashlib
import os
import re
import sys
import time
from base64 import b64encode
from pathlib import Path
from typing import NamedTuple

CHUNK = 1 << 16  # bytes read and written at a time; what a break can cost
DELAYS = 1, 2, 4, 8  # seconds to wait before each new attempt


class UserError(Exception):
    """Something that the user can put right; the message is one line that says what to do."""


class NotFound(UserError):
    """The server has no such file."""


class Broken(Exception):
    """A transfer failed in a way that may pass: worth another attempt."""


class Remote(NamedTuple):
    """What the server says about a file; None for what it does not say."""

    size: int | None  # bytes
    etag: str | None
    modified: str | None  # the header Last-Modified
    md5: str | None  # base64, as in the header Content-MD5
    sha256: str | None  # hexadecimal


def download(url, path, size=None, sha256=None, wait=time.sleep):
    """Fetch `url` into the file `path`, unless it is there already with `size` bytes.

    size (bytes) and sha256 (hexadecimal) are what the caller knows about the right file. A broken
    transfer is resumed, by another process too; `wait(seconds)` is called before each new attempt.
    One process at a time may fetch one file: hold `locked(path.parent)`. Raises NotFound for 404,
    UserError for whatever else the user has to see to.
    """
    path = Path(path)
    if path.is_file() and size in (None, path.stat().st_size):
        return
    for delay in (*DELAYS, None):
        try:
            with clear_errors(path):
                return attempt(url, path, size, sha256)
        except Broken as error:
            if delay is None:
                raise UserError(
                    f"cannot download {url}: {error}; check the network and run this again,"
                    " it goes on where it stopped"
                ) from None
            print(f"{url}: {error}; trying again in {delay} s", file=sys.stderr)
            wait(delay)


def attempt(url, path, size, sha256):
    """One attempt at all of it: ask, fetch what is missing, verify, rename. Raises Broken."""
    remote = ask(url)
    if None not in (size, remote.size) and size != remote.size:
        raise UserError(f"{url} has {remote.size} bytes where {size} are right: not a mirror of it")
    size, sha256 = size or remote.size, sha256 or remote.sha256
    version = hashlib.sha256(f"{remote.etag} {remote.modified}".encode()).hexdigest()[:8]
    part = path.with_name(f"{path.name}.{version}.part")
    for old in path.parent.glob(f"{path.name}.????????.part"):
        if old != part:
            old.unlink()
    resumed = True
    if not part.is_file() or part.stat().st_size != size:
        resumed = fetch(url, part, remote._replace(size=size))
    fault = compare(part, size, remote.md5, sha256)
    if fault:
        part.unlink()
        if resumed:  # perhaps only the part that was there before is bad: start over
            raise Broken(fault)
        raise UserError(f"{url} arrived damaged ({fault}): try again later, or another mirror")
    os.replace(part, path)


def ask(url):
    """HEAD: what the server says about the file, before a byte of it moves. -> Remote"""
    with request("HEAD", url) as response:
        answers = [*response.history, response]  # a hub says more before it redirects
        linked = "".join(answer.headers.get("X-Linked-ETag", "") for answer in answers)
        length = response.headers.get("Content-Length", "")
        return Remote(
            size=int(length) if re.fullmatch("[0-9]{1,15}", length) else None,
            etag=response.headers.get("ETag"),
            modified=response.headers.get("Last-Modified"),
            md5=response.headers.get("Content-MD5"),
            sha256=linked.strip('"') if re.fullmatch('"?[0-9a-f]{64}"?', linked) else None,
        )


def fetch(url, part, remote):
    """GET what `part` does not hold yet. -> whether earlier bytes were kept. Raises Broken."""
    from tqdm import tqdm

    have = part.stat().st_size if part.is_file() else 0
    if remote.size is None or have > remote.size:
        have = 0  # nothing to go on from
    with request("GET", url, {"Range": f"bytes={have}-"} if have else {}) as response:
        if response.headers.get("ETag", remote.etag) != remote.etag:
            raise Broken("the file has changed meanwhile")
        resumed = response.status_code == 206
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            raise Broken("the server sent another range than it was asked for")
        have = have if resumed else 0  # 200: the server knows no ranges, and sends all
        with (
            open(part, "ab" if resumed else "wb") as file,
            tqdm(total=remote.size, initial=have, desc=part.name.rsplit(".", 2)[0], unit="B",
                 unit_scale=True, file=sys.stderr) as bar,
        ):  # fmt: skip
            for chunk in chunks(response):
                have += len(chunk)
                if remote.size is not None and have > remote.size:
                    break  # the comparison reports it; an endless reply must not fill the disk
                file.write(chunk)
                bar.update(len(chunk))
            file.flush()
            os.fsync(file.fileno())
    if remote.size is not None and have < remote.size:
        raise Broken(f"broken off after {have} of {remote.size} bytes")
    if remote.size is not None and have > remote.size:
        part.unlink()
        raise Broken(f"more than the {remote.size} bytes that were announced")
    return resumed


def request(method, url, headers=()):
    """A response that streams, status 200 or 206. Raises NotFound, UserError, Broken."""
    import requests  # late: only a download needs it

    headers = {"Accept-Encoding": "identity", **dict(headers)}  # bytes as stored, countable
    try:
        response = requests.request(
            method, url, headers=headers, stream=True, timeout=30, allow_redirects=True
        )
    except (requests.ConnectionError, requests.Timeout):
        raise Broken("no connection") from None
    except (requests.RequestException, ValueError):
        raise UserError(f"{url} is no address that can be fetched") from None
    status = response.status_code
    if status in (200, 206):
        return response
    response.close()
    if status == 404:
        raise NotFound(f"{url} does not exist (404): check the name or the mirror's address")
    if status in (408, 416, 429) or status >= 500:  # 416: the file has become shorter
        raise Broken(f"the server answered {status}")
    raise UserError(f"{url}: the server refused with status {status}")


def chunks(response):
    """The body of a response, piece by piece; Broken where the transfer breaks off."""
    import requests

    try:
        yield from response.iter_content(CHUNK)
    except requests.RequestException:
        raise Broken("the connection broke off") from None


def compare(path, size, md5, sha256):
    """What is wrong with a file, or None. md5 in base64, sha256 in hexadecimal, None: unknown."""
    if size is not None and path.stat().st_size != size:
        return f"{path.stat().st_size} bytes instead of {size}"
    if md5 is not None and b64encode(digest(path, "md5").digest()).decode() != md5:
        return "the MD5 checksum is wrong"
    if sha256 is not None and digest(path, "sha256").hexdigest() != sha256:
        return "the SHA-256 checksum is wrong"
    return None


def digest(path, name):
    """The hash object of a whole file, read piece by piece."""
    result = hashlib.new(name, usedforsecurity=False)
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            result.update(chunk)
    return result


@contextlib.contextmanager
def locked(folder):
    """Make `folder`; let one process at a time work in it, while the others wait.

    The lock (flock) ends with its process, however that ends: a lock file that stays behind locks
    nothing. Windows has no flock; there, do not start twice at once while a model is fetched.
    """
    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".lock", "w")
    with file:
        try:
            import fcntl
        except ImportError:
            yield
            return
        with clear_errors(folder):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"another process is filling {folder}: waiting for it", file=sys.stderr)
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def clear_errors(path):
    """Turn what the file system refuses (full disk, no permission) into a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or error}; make room or choose another folder"
            " (--models-dir), then run this again"
        ) from None
