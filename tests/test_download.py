"""The download: it resumes, verifies, and leaves either a whole file or one that can be resumed."""

import builtins
import contextlib
import errno
import gzip
import hashlib
import itertools
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from loading.download import CHUNK, DELAYS, NotFound, Refused, download, locked
from loading.errors import UserError
from tests.server import Server, answer, claim, cut, drop, garbage, headers, redirect, stall

BODY = bytes(range(256)) * 4000  # 1,024,000 bytes: 15 chunks and a half
ROOT = Path(__file__).parents[1]


class Waits(list):
    """Takes the place of time.sleep and notes what it was asked for."""

    def __call__(self, seconds):
        self.append(seconds)


@pytest.fixture
def waits():
    return Waits()


@pytest.fixture
def server():
    with Server({"/file": BODY}) as server:
        yield server


def parts(folder):
    return list(folder.glob("*.part"))


def check_whole(path, body=BODY):
    assert path.read_bytes() == body
    assert os.listdir(path.parent) == [path.name]


def test_a_file_is_fetched_once(server, tmp_path, waits):
    for _ in range(2):
        download(f"{server.url}/file", tmp_path / "file", len(BODY), wait=waits)
    check_whole(tmp_path / "file")
    assert [method for method, *_ in server.requests] == ["HEAD", "GET"]
    assert waits == []


def test_a_broken_transfer_goes_on_where_it_stopped(server, tmp_path, waits):
    server.faults["/file"] = [cut(4 * CHUNK), drop, cut(CHUNK - 1), cut(5 * CHUNK)]
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")
    assert waits == [1, 2, 4, 8]
    asked = [f"bytes={n}-" for n in (4 * CHUNK, 4 * CHUNK, 5 * CHUNK - 1, 10 * CHUNK - 1)]
    assert server.ranges_asked("/file") == [None, *asked]


def test_a_server_without_ranges_is_asked_for_all_of_it(tmp_path, waits):
    with Server({"/file": BODY}, ranges=False) as server:
        server.faults["/file"] = [cut(4 * CHUNK)]
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")
    assert waits == [1]


def test_attempts_end_and_the_next_start_resumes(server, tmp_path, waits):
    server.faults["/file"] = [cut(CHUNK)] + [answer(503)] * len(DELAYS)
    with pytest.raises(UserError, match="503.*goes on where it stopped") as error:
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    assert "\n" not in str(error.value)
    assert waits == list(DELAYS)
    [part] = parts(tmp_path)
    assert part.read_bytes() == BODY[:CHUNK]
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")
    assert server.ranges_asked("/file")[-1] == f"bytes={CHUNK}-"


@pytest.mark.parametrize("fault", [answer(500), answer(503), answer(429), drop])
def test_what_may_pass_is_tried_again(server, tmp_path, waits, fault):
    server.head_faults["/file"] = [fault]
    server.faults["/file"] = [fault]
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")
    assert waits == [1, 2]


def test_404_is_final(server, tmp_path, waits):
    with pytest.raises(NotFound, match="404"):
        download(f"{server.url}/other", tmp_path / "other", wait=waits)
    assert waits == [] and os.listdir(tmp_path) == []


@pytest.mark.parametrize("status, kind", [(401, Refused), (403, Refused), (418, UserError)])
def test_a_refusal_is_final(server, tmp_path, waits, status, kind):
    server.head_faults["/file"] = [answer(status)]
    with pytest.raises(kind, match=str(status)):
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    assert waits == []


@pytest.mark.parametrize("status", [405, 501])
def test_a_server_without_head_is_asked_by_get(server, tmp_path, waits, status):
    server.head_faults["/file"] = [answer(status)] * 9
    server.faults["/file"] = [headers(), cut(4 * CHUNK)]  # what answers the question is not read
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")
    assert waits == [1]
    assert server.ranges_asked("/file")[-1] == f"bytes={4 * CHUNK}-"


def test_wrong_bytes_are_thrown_away(server, tmp_path, waits):
    server.faults["/file"] = [garbage]
    with pytest.raises(UserError, match="damaged.*md5"):
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    assert os.listdir(tmp_path) == []
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")


def test_a_bad_beginning_is_fetched_anew(server, tmp_path, waits):
    def wrong_beginning(handler, body):
        wrong = b"wrong" + body[5:]
        etag = f'"{hashlib.sha1(body).hexdigest()}"'
        handler.serve(wrong, limit=4 * CHUNK, headers={"ETag": etag})

    server.faults["/file"] = [wrong_beginning]
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")
    assert server.ranges_asked("/file") == [None, f"bytes={4 * CHUNK}-", None]


def test_the_sha256_that_the_caller_knows_counts(tmp_path, waits):
    with Server({"/file": BODY}, checksum=False) as server:
        server.faults["/file"] = [garbage]
        with pytest.raises(UserError, match="sha256"):
            download(f"{server.url}/file", tmp_path / "file", None, "0" * 64, wait=waits)
        right = hashlib.sha256(BODY).hexdigest()
        download(f"{server.url}/file", tmp_path / "file", None, right, wait=waits)
    check_whole(tmp_path / "file")


def test_the_sha256_that_a_hub_tells_counts(tmp_path, waits):
    with Server({"/file": BODY}, checksum=False, etag=False) as server:
        server.head_faults["/file"] = [headers(X_Linked_ETag=f'"{"0" * 64}"')]
        with pytest.raises(UserError, match="sha256"):
            download(f"{server.url}/file", tmp_path / "file", wait=waits)
        right = hashlib.sha256(BODY).hexdigest()
        server.head_faults["/file"] = [headers(X_Linked_ETag=f'"{right}"')]
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")


@pytest.mark.parametrize("last", [None, "", "right"])
def test_of_several_sha256_the_last_one_counts(tmp_path, waits, last):
    right = hashlib.sha256(BODY).hexdigest()
    with Server({"/file": BODY, "/end": BODY}, checksum=False) as server:
        first = right if last != "right" else "0" * 64
        server.head_faults["/file"] = [redirect("/end", X_Linked_ETag=f'"{first}"')] * 9
        ours = {} if last is None else {"X_Linked_ETag": last and f'"{right}"'}
        server.head_faults["/end"] = [headers(**ours)] * 9
        server.faults["/file"] = [garbage, headers()]
        with pytest.raises(UserError, match="damaged.*sha256"):
            download(f"{server.url}/file", tmp_path / "file", wait=waits)
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")


def test_a_server_that_tells_nothing_is_believed(tmp_path, waits):
    with Server({"/file": BODY}, ranges=False, checksum=False, etag=False) as server:
        server.head_faults["/file"] = [lambda handler, body: handler.start(200, None)]
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")


def test_another_size_than_the_known_one_is_refused_before_it_is_fetched(server, tmp_path, waits):
    with pytest.raises(UserError, match="1024000 bytes, expected 7"):
        download(f"{server.url}/file", tmp_path / "file", 7, wait=waits)
    assert server.ranges_asked("/file") == [] and os.listdir(tmp_path) == []


def test_a_length_that_is_too_great_is_no_whole_file(server, tmp_path, waits):
    server.head_faults["/file"] = [claim(2_000_000)] * 9
    with pytest.raises(UserError, match="416|broken off at 1024000 of 2000000"):
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    assert not (tmp_path / "file").exists()
    server.head_faults.clear()  # the server tells the truth again
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")


def test_a_length_that_is_too_small_is_no_whole_file(server, tmp_path, waits):
    server.head_faults["/file"] = [claim(500_000)] * 9
    with pytest.raises(UserError, match="broken off at .* of 500000 bytes"):
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    assert not (tmp_path / "file").exists()
    server.head_faults.clear()
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")


def test_an_endless_reply_does_not_fill_the_disk(server, tmp_path, waits):
    def endless(handler, body):
        handler.start(200, None)
        with pytest.raises(OSError):
            while True:
                handler.wfile.write(bytes(1 << 20))

    server.faults["/file"] = [endless]
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")


def chunked(n_blocks):
    """A reply whose length is not known: blocks of 64 kB, after them the end, or none."""

    def fault(handler, body):
        handler.start(200, None, {"Transfer-Encoding": "chunked"})
        with contextlib.suppress(OSError):
            for _ in range(n_blocks):
                handler.wfile.write(b"%x\r\n%s\r\n" % (1 << 16, bytes(1 << 16)))
            handler.wfile.write(b"0\r\n\r\n")

    return fault


@pytest.mark.parametrize("claimed", [False, True])
def test_a_file_above_its_limit_is_refused(server, tmp_path, waits, claimed):
    if not claimed:
        server.head_faults["/file"] = [lambda handler, body: handler.start(200, None)]
        server.faults["/file"] = [chunked(10**9)]
    with pytest.raises(UserError, match="has more than 1000000 bytes"):
        download(f"{server.url}/file", tmp_path / "file", limit=1e6, wait=waits)
    assert waits == [] and os.listdir(tmp_path) == []


def test_a_length_that_is_not_known_is_no_fault(server, tmp_path, waits):
    server.head_faults["/file"] = [lambda handler, body: handler.start(200, None)]
    server.faults["/file"] = [chunked(10)]
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file", bytes(10 << 16))


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_an_encoded_reply_is_refused(tmp_path, waits, encoding):
    """It can be neither counted nor bounded; a few bytes of it may unfold to gigabytes."""
    with Server({"/file": gzip.compress(BODY)}) as server:
        encoded = headers(Content_Encoding=encoding)
        server.head_faults["/file"] = server.faults["/file"] = [encoded] * 9
        if encoding == "identity":
            return download(f"{server.url}/file", tmp_path / "file", wait=waits)
        with pytest.raises(UserError, match="comes as gzip, unasked: use another mirror"):
            download(f"{server.url}/file", tmp_path / "file", wait=waits)
    assert waits == [] and os.listdir(tmp_path) == []


def test_a_transfer_that_trickles_has_failed(server, tmp_path, waits, monkeypatch):
    clock = itertools.count(0, 61)  # a minute passes between any two readings
    monkeypatch.setattr("loading.download.monotonic", lambda: next(clock))
    server.faults["/file"] = [stall(1)] * 9  # it would keep the line open
    with pytest.raises(UserError, match="fewer than 60000 bytes in 60 seconds"):
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    assert waits == list(DELAYS)
    assert server.ranges_asked("/file")[-1] == "bytes=4-"  # what came is kept


def test_a_transfer_of_many_minutes_has_not_failed(server, tmp_path, waits, monkeypatch):
    clock = itertools.count(0, 5)
    monkeypatch.setattr("loading.download.monotonic", lambda: next(clock))
    monkeypatch.setattr("loading.download.CHUNK", 10_000)
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")
    assert waits == [] and next(clock) > 500


@pytest.mark.parametrize("checksum, etag", [(True, True), (False, True), (True, False),
                                            (False, False)])  # fmt: skip
def test_two_versions_are_never_joined(tmp_path, waits, checksum, etag):
    new = bytes(reversed(BODY))  # as long as the old one
    with Server({"/file": BODY}, checksum=checksum, etag=etag) as server:

        def cut_and_change(handler, body):
            handler.serve(body, limit=4 * CHUNK)
            server.files["/file"] = new

        server.faults["/file"] = [cut_and_change]
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file", new)


def test_a_change_between_question_and_answer_is_seen(tmp_path, waits):
    with Server({"/file": BODY}, checksum=False) as server:
        server.faults["/file"] = [headers(ETag='"another"')]
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")
    assert waits == [1]


def test_another_range_than_the_asked_one_is_not_appended(server, tmp_path, waits):
    def wrong_range(handler, body):
        handler.start(206, 100, {"Content-Range": f"bytes 7-106/{len(body)}"})
        handler.wfile.write(body[7:107])

    server.faults["/file"] = [cut(4 * CHUNK), wrong_range]
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")
    assert waits == [1, 2]


def test_a_part_file_that_is_too_long_starts_over(server, tmp_path, waits):
    server.faults["/file"] = [cut(4 * CHUNK)] + [drop] * 4
    with pytest.raises(UserError):
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    [part] = parts(tmp_path)
    part.write_bytes(BODY + b"more")
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")


def test_a_whole_part_file_is_verified_without_another_transfer(server, tmp_path, waits):
    server.faults["/file"] = [cut(4 * CHUNK)] + [drop] * 4
    with pytest.raises(UserError):
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    [part] = parts(tmp_path)
    part.write_bytes(BODY)  # as if the process had died between the last byte and the renaming
    n_asked = len(server.ranges_asked("/file"))
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")
    assert len(server.ranges_asked("/file")) == n_asked


def test_an_empty_file_is_a_file(tmp_path, waits):
    with Server({"/empty": b""}) as server:
        download(f"{server.url}/empty", tmp_path / "empty", wait=waits)
    check_whole(tmp_path / "empty", b"")


def test_no_network_is_said_plainly(tmp_path, waits):
    with Server({}) as server:
        gone = server.url
    with pytest.raises(UserError, match="refused; check .*network.*--model stories works offline"):
        download(f"{gone}/file", tmp_path / "file", wait=waits)
    assert waits == []


def unresolved(*args, **kwargs):
    raise socket.gaierror(-2, "Name or service not known")


def test_a_name_without_an_address_is_said_plainly(tmp_path, waits, monkeypatch):
    monkeypatch.setattr("socket.getaddrinfo", unresolved)
    with pytest.raises(UserError, match="resolve.*Name or service not known.*works offline"):
        download("http://nowhere.invalid/file", tmp_path / "file", wait=waits)
    assert waits == []


def test_a_connection_lost_on_the_way_may_come_back(server, tmp_path, waits, monkeypatch):
    server.faults["/file"] = [cut(4 * CHUNK)]

    def wait(seconds):
        waits(seconds)
        monkeypatch.undo()
        if seconds < 4:
            monkeypatch.setattr("socket.getaddrinfo", unresolved)

    download(f"{server.url}/file", tmp_path / "file", wait=wait)
    check_whole(tmp_path / "file")
    assert waits == [1, 2, 4]


@pytest.mark.parametrize(
    "url, match",
    [
        ("nonsense", "Invalid URL"), ("ftp://127.0.0.1/file", "No connection adapters"),
        ("http://[/file", "Failed to parse"), ("http://", "No host"),
    ],
)  # fmt: skip
def test_what_is_no_address_is_said_plainly(tmp_path, waits, url, match):
    with pytest.raises(UserError, match=f"{match}.*check the address"):
        download(url, tmp_path / "file", wait=waits)
    assert waits == []


@pytest.mark.parametrize(
    "name, value, match",
    [
        ("https_proxy", "foo://x", "unsupported scheme foo.*https_proxy"),
        ("https_proxy", "http://127.0.0.1:9", "proxy.*refused.*https_proxy"),
        ("REQUESTS_CA_BUNDLE", "/nonexistent", "path: /nonexistent.*REQUESTS_CA_BUNDLE"),
        ("no_proxy", "*", "SSL.*REQUESTS_CA_BUNDLE"),  # the server does not speak TLS
    ],
)
def test_a_wrong_setting_is_named_at_once(server, tmp_path, waits, monkeypatch, name, value, match):
    for other in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    url = server.url.replace("http", "https")
    with pytest.raises(UserError, match=match):
        download(f"{url}/file", tmp_path / "file", wait=waits)
    assert waits == []


@pytest.mark.parametrize("target, match", [("/file", "30 redirects"), ("file:///file", "adapters")])
def test_a_redirect_that_leads_nowhere_is_said_plainly(server, tmp_path, waits, target, match):
    server.head_faults["/file"] = [redirect(target)] * 99
    with pytest.raises(UserError, match=match):
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    assert waits == []


@pytest.mark.parametrize("user", ["user:secret", "secret", "a@b:secret"])
def test_credentials_in_an_address_are_not_printed(server, tmp_path, waits, capsys, user):
    base = server.url.replace("//", f"//{user}@")
    server.head_faults["/file"] = [answer(503), answer(403)]
    without_scheme = server.url.replace("http://", "user:secret@") + "/file"
    for url in (f"{base}/file", f"{base}/other", without_scheme):
        with pytest.raises(UserError) as error:
            download(url, tmp_path / "file", wait=waits)
        assert "secret" not in str(error.value) and "127.0.0.1" in str(error.value)
    assert waits == [1]
    assert "secret" not in capsys.readouterr().err
    sent = {token and token[:5] for token in server.tokens}
    assert sent == ({"Basic"} if ":" in user else {None})


def test_the_token_goes_to_the_hub_only(tmp_path, waits, monkeypatch):
    with Server({"/file": BODY}) as hub, Server({"/file": BODY}) as other:
        monkeypatch.setattr("loading.download.HUB", hub.url)
        monkeypatch.setenv("HF_TOKEN", "hf_secret\n")
        elsewhere = redirect(other.url.replace("127.0.0.1", "localhost") + "/file")
        hub.head_faults["/file"] = [elsewhere]
        hub.faults["/file"] = [redirect("/file"), redirect(other.url + "/file")]
        download(f"{hub.url}/file", tmp_path / "file", wait=waits)
        download(f"{other.url}/file", tmp_path / "mirror", wait=waits)
        download(f"{hub.url.replace('127.0.0.1', 'localhost')}/file", tmp_path / "x", wait=waits)
    assert hub.tokens == ["Bearer hf_secret"] * 3 + [None] * 2
    assert other.tokens == [None] * 4


@pytest.mark.parametrize("token", ["", "hf_x\r\nHost: y", "hf\u2026", "a b"])
def test_what_is_not_a_token_is_not_sent(server, tmp_path, waits, monkeypatch, token):
    monkeypatch.setattr("loading.download.HUB", server.url)
    monkeypatch.setenv("HF_TOKEN", token)
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    assert server.tokens == [None, None]


class FullDisk:
    """A file that takes `room` bytes more."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def write(self, data):
        written = self.file.write(data[: self.room])
        self.room -= written
        if written < len(data):
            self.file.flush()
            raise OSError(errno.ENOSPC, "No space left on device")
        return written


def test_a_full_disk_is_said_plainly_and_resumed(server, tmp_path, waits, monkeypatch):
    def full(path, mode="r", *args, **kwargs):
        file = open(path, mode, *args, **kwargs)
        return FullDisk(file, 400_000) if str(path).endswith(".part") and "r" not in mode else file

    with monkeypatch.context() as patch:
        patch.setattr("loading.download.open", full, raising=False)
        with pytest.raises(UserError, match="No space left on device.*make room"):
            download(f"{server.url}/file", tmp_path / "file", wait=waits)
    assert waits == []  # waiting makes no room
    [part] = parts(tmp_path)
    assert part.read_bytes() == BODY[:400_000]
    download(f"{server.url}/file", tmp_path / "file", wait=waits)
    check_whole(tmp_path / "file")
    assert server.ranges_asked("/file")[-1] == "bytes=400000-"


def test_no_permission_is_said_plainly(server, tmp_path, waits, monkeypatch):
    def refuse(path, *args, **kwargs):
        if str(path).startswith(str(tmp_path)):
            raise PermissionError(errno.EACCES, "Permission denied")
        return builtins.open(path, *args, **kwargs)

    monkeypatch.setattr("loading.download.open", refuse, raising=False)
    with pytest.raises(UserError, match="Permission denied.*--models-dir"):
        download(f"{server.url}/file", tmp_path / "file", wait=waits)
    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(UserError, match="Permission denied.*--models-dir"), locked(tmp_path):
        pass


@pytest.mark.parametrize("where", ["no system call", "no such locks on the disk"])
def test_without_locks_it_works_too(server, tmp_path, monkeypatch, where):
    if where == "no system call":  # Windows
        monkeypatch.setitem(sys.modules, "fcntl", None)
    else:

        def refuse(handle, how):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr("fcntl.flock", refuse)
    with locked(tmp_path / "folder"):
        download(f"{server.url}/file", tmp_path / "folder" / "file")
    check_whole(tmp_path / "folder" / "file")


def test_a_folder_that_cannot_be_made_is_said_plainly(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError, match="cannot write .*file"), locked(tmp_path / "file" / "sub"):
        pass


def test_an_error_inside_the_lock_is_left_alone(tmp_path):
    with pytest.raises(FileNotFoundError), locked(tmp_path):
        raise FileNotFoundError("of another kind")


def test_folders_of_which_nothing_came_go_away_again(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RuntimeError), locked(tmp_path / "empty" / "owner" / "name"):
        assert (tmp_path / "empty" / "owner" / "name").is_dir()
        raise RuntimeError
    assert os.listdir(tmp_path / "empty") == []  # which had been there before, and stays
    with locked(tmp_path / "owner" / "name"):
        (tmp_path / "owner" / "name" / "file").touch()
    assert (tmp_path / "owner" / "name" / "file").is_file()


HOLD = """
import os, sys
from pathlib import Path
from loading.download import locked
with locked(Path(sys.argv[1])):
    print("in", flush=True)
    sys.stdin.read(1)
    print("out", flush=True)
"""


def test_the_lock_holds_though_the_folder_goes_away_and_comes_back(tmp_path):
    """The first leaves nothing and takes the folder away, for which the second waits."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", HOLD, str(tmp_path / "folder")]
    first, second = (subprocess.Popen(command, cwd=ROOT, text=True, **pipes) for _ in range(2))
    if select.select([first.stdout, second.stdout], [], [])[0] == [second.stdout]:
        first, second = second, first
    assert "waiting for it" in second.stderr.readline()
    assert first.communicate("x") == ("in\nout\n", "")
    assert second.stdout.readline() == "in\n"
    third = subprocess.Popen(command, cwd=ROOT, text=True, **pipes)
    assert select.select([third.stdout, third.stderr], [], [])[0] == [third.stderr]  # it waits too
    assert second.communicate("x")[0] == "out\n" and third.communicate("x")[0] == "in\nout\n"
    assert os.listdir(tmp_path) == []


START = """
import sys
from pathlib import Path
from loading.download import download, locked
url, path = sys.argv[1], Path(sys.argv[2])
with locked(path.parent):
    download(url, path)
"""


def start(*arguments):
    return subprocess.Popen([sys.executable, "-c", START, *map(str, arguments)], cwd=ROOT)


def test_a_killed_download_is_resumed_by_the_next_process(server, tmp_path):
    path = tmp_path / "folder" / "file"
    server.faults["/file"] = [stall(7 * CHUNK)]
    process = start(f"{server.url}/file", path)
    while not (found := list(path.parent.glob("*.part"))) or found[0].stat().st_size < 7 * CHUNK:
        assert process.poll() is None
    process.kill()
    process.wait()
    assert not path.exists()
    assert start(f"{server.url}/file", path).wait(60) == 0  # the dead process's lock holds nobody
    assert path.read_bytes() == BODY
    first, second = server.ranges_asked("/file")
    assert first is None and second == f"bytes={7 * CHUNK}-"


def test_two_processes_at_once_make_one_good_file(server, tmp_path):
    path = tmp_path / "folder" / "file"
    processes = [start(f"{server.url}/file", path) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert path.read_bytes() == BODY
    assert server.ranges_asked("/file") == [None]
    assert os.listdir(path.parent) == ["file"]


def test_importing_it_imports_no_network_library():
    check = "import sys, loading.download; assert not {'requests', 'tqdm'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT).returncode == 0
