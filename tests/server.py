"""A local HTTP server that misbehaves on request, for the tests of the download."""

import contextlib
import hashlib
import re
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """Serves `files` {path: bytes} at `url`; a context manager.

    faults: {path: [fault, ...]}, one for each GET in turn, afterwards all goes well; a fault is a
    function of the handler and the bytes to send. head_faults: the same for HEAD. ranges, checksum,
    etag: whether the server knows them. requests: what was asked, (method, path, range); tokens:
    the header Authorization of each request, or None.
    """

    def __init__(self, files, ranges=True, checksum=True, etag=True):
        self.files, self.ranges, self.checksum, self.etag = files, ranges, checksum, etag
        self.faults, self.head_faults, self.requests, self.tokens = {}, {}, [], []
        self.release = threading.Event()  # ends the fault `stall`

    def __enter__(self):
        handler = type("Handler", (Handler,), {"owner": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error):
        self.release.set()
        self.http.shutdown()
        self.http.server_close()

    def ranges_asked(self, path):
        """The Range header of every GET of a path, in order."""
        return [r for method, asked, r in self.requests if (method, asked) == ("GET", path)]


class Handler(BaseHTTPRequestHandler):
    owner = None

    def do_HEAD(self):
        self.answer(self.owner.head_faults)

    def do_GET(self):
        self.answer(self.owner.faults)

    def answer(self, faults):
        owner = self.owner
        owner.requests.append((self.command, self.path, self.headers.get("Range")))
        owner.tokens.append(self.headers.get("Authorization"))
        self.close_connection = True
        body = owner.files.get(self.path)
        if faults.get(self.path):
            faults[self.path].pop(0)(self, body)
        elif body is None:
            self.start(404, 0)
        else:
            self.serve(body)

    def serve(self, body, claim=None, limit=None, headers=()):
        """Send a body; `claim` another length, send only `limit` bytes and break off."""
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        first = int(found[1]) if found and self.owner.ranges else 0
        if found and self.owner.ranges and first >= len(body):
            return self.start(416, 0)
        extra = dict(headers)
        if self.owner.etag:
            extra.setdefault("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
        if self.owner.checksum and not first:
            md5 = b64encode(hashlib.md5(body).digest()).decode()
            extra.setdefault("Content-MD5", md5)
        if first:
            extra["Content-Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
        part = body[first:]
        self.start(206 if first else 200, len(part) if claim is None else claim, extra)
        if self.command == "GET":
            with contextlib.suppress(ConnectionError):  # the other side may hang up as well
                self.wfile.write(part[:limit])

    def start(self, status, length, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *args):
        pass


def cut(n):
    """Break the connection off after n bytes of the body."""
    return lambda handler, body: handler.serve(body, limit=n)


def answer(status):
    """An error status instead of the file."""
    return lambda handler, body: handler.start(status, 0)


def redirect(url, **values):
    """Send the client to another address."""
    values = {name.replace("_", "-"): value for name, value in values.items()}
    return lambda handler, body: handler.start(302, 0, {"Location": url, **values})


def claim(length, limit=None):
    """A false Content-Length."""
    return lambda handler, body: handler.serve(body, claim=length, limit=limit)


def headers(**values):
    """The file with other headers; ETag=..., Content_MD5=..., X_Linked_ETag=..."""
    values = {name.replace("_", "-"): value for name, value in values.items()}
    return lambda handler, body: handler.serve(body, headers=values)


def garbage(handler, body):
    """As many bytes as are right, but wrong ones, under the headers of the right ones."""
    wrong = bytes(255 - byte for byte in body)
    right = {"ETag": f'"{hashlib.sha1(body).hexdigest()}"'} if handler.owner.etag else {}
    if handler.owner.checksum:
        right["Content-MD5"] = b64encode(hashlib.md5(body).digest()).decode()
    handler.serve(wrong, headers=right)


def drop(handler, body):
    """Hang up without a word."""


def stall(n):
    """Send n bytes, then keep the line open and silent until the server's `release` is set."""

    def fault(handler, body):
        handler.serve(body, limit=n)
        handler.wfile.flush()
        handler.owner.release.wait(30)

    return fault
