"""A local HTTP server that takes the place of the Hugging Face hub or of OpenAI's server. Tests can
make it fail."""

import contextlib
import hashlib
import json
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" * 6 + "abcd"


class Server:
    """A context manager that serves `files` {path: bytes} at `url`.

    faults: {path: [fault, ...]}. Each GET of a path calls the next fault with the handler and the
        bytes to send. When no fault is left, the server sends the bytes.
    requests: a list with (method, path, Authorization header or None) for each request.
    """

    def __init__(self, files):
        self.files, self.faults, self.requests = files, {}, []

    def __enter__(self):
        handler = type("Handler", (Handler,), {"owner": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error):
        self.http.shutdown()
        self.http.server_close()


def hub(name, folder):
    """Return a Server that acts as a hub with one repository. It contains the files of a folder."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    places = [f"/{name}/resolve/{revision}" for revision in ("main", COMMIT)]
    served = {f"{place}/{path}": data for place in places for path, data in files.items()}
    return Server(served | {f"/api/models/{name}/revision/main": json.dumps({"id": name}).encode()})


class Handler(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.answer({})

    def do_GET(self):
        self.answer(self.owner.faults)

    def answer(self, faults):
        owner, path = self.owner, self.path.partition("?")[0]
        owner.requests.append((self.command, path, self.headers.get("Authorization")))
        self.close_connection = True
        body = owner.files.get(path)
        if faults.get(path):
            faults[path].pop(0)(self, body)
        elif body is None:
            self.start(404, 0, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        else:
            self.serve(body)

    def serve(self, body, limit=None, headers=()):
        """Send a body, or only its first `limit` bytes."""
        md5 = b64encode(hashlib.md5(body).digest()).decode()
        extra = {"ETag": f'"{hashlib.sha1(body).hexdigest()}"', "X-Repo-Commit": COMMIT}
        extra |= {"X-Linked-Size": str(len(body)), "Content-MD5": md5}
        self.start(200, len(body), extra | dict(headers))
        if self.command == "GET":
            with contextlib.suppress(ConnectionError):  # the client may have disconnected
                self.wfile.write(body[:limit])

    def start(self, status, length, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *args):
        pass


def cut(n):
    """Return a fault that closes the connection after n bytes of the body."""
    return lambda handler, body: handler.serve(body, limit=n)


def answer(status, **headers):
    """Return a fault that sends a status and headers: answer(403, X_Error_Code="GatedRepo")."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, body: handler.start(status, 0, headers)


def garbage(handler, body):
    """Send wrong bytes with the length and the Content-MD5 header of the right bytes."""
    md5 = b64encode(hashlib.md5(body).digest()).decode()
    handler.serve(bytes(255 - byte for byte in body), headers={"Content-MD5": md5})
