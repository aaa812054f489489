"""Files from elsewhere: resumed where they broke off, checked, whole or not there."""

import errno
import hashlib
import shutil
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

_CHUNK = 2**18
_TIMEOUT = 30.0  # seconds without a byte
_RANGE_NOT_SATISFIABLE = 416

Progress = Callable[[int, int | None], None]  # bytes there, bytes in all if known


class Unreachable(ConnectionError):
    """The server cannot be reached or does not give the file."""


class Damaged(OSError):
    """What came is not what was asked for; it has been deleted."""


class NoSpace(OSError):
    """There is not enough room."""


def download(
    url: str,
    path: Path,
    *,
    sha256: str | None,
    num_attempts: int = 4,
    pause: float = 1.0,
    spare: int = 0,
    on_bytes: Progress = lambda done, total: None,
) -> None:
    """Fetch `url` to `path`, by way of `path`.part, which a later call goes on from.

    A connection that breaks off is taken up again, `num_attempts` times in all, `pause` seconds apart. Before a byte is
    written there must be room for the rest and `spare` bytes more. `sha256` None leaves the check to the caller.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    for attempt in range(num_attempts):
        if attempt:
            time.sleep(pause)
        try:
            done, total = _rest(url, part, spare, on_bytes)
        except HTTPError as error:
            raise Unreachable(f"{url} answered {error.code} {error.reason}.") from error
        except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", None) or error
            done, total = part.stat().st_size if part.exists() else 0, None
            problem = f"{url} cannot be reached: {reason}."
            if not done:
                raise Unreachable(problem) from error
            continue
        if total is None or done == total:
            break
        problem = f"{url} broke off after {done:,} of {total:,} bytes."
    else:
        raise Unreachable(f"{problem} What came is kept: the same command goes on from there.")
    if sha256 is not None:
        check_sha256(part, sha256, source=url)
    part.replace(path)


def _rest(url: str, part: Path, spare: int, on_bytes: Progress) -> tuple[int, int | None]:
    """Append what is missing; bytes there and bytes in all, if the server says."""
    have = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"User-Agent": "surefoot", **({"Range": f"bytes={have}-"} if have else {})})
    try:
        response = urlopen(request, timeout=_TIMEOUT)
    except HTTPError as error:
        if not have or error.code != _RANGE_NOT_SATISFIABLE:
            raise
        if error.headers.get("Content-Range", "") == f"bytes */{have}":
            return have, have  # all of it was there already
        part.unlink()
        return _rest(url, part, spare, on_bytes)
    with response:
        resumed = response.status == 206 and _first_byte(response) == have
        if response.status == 206 and not resumed:
            raise Unreachable(f"{url} sent another part of the file than was asked for.")
        have = have if resumed else 0  # a server without ranges starts over, and so do we
        length = response.headers.get("Content-Length")
        total = have + int(length) if length is not None else None
        check_space(part.parent, (total - have if total else 0) + spare)
        with part.open("ab" if resumed else "wb") as file:
            on_bytes(have, total)
            while chunk := response.read(_CHUNK):
                _write(file, chunk, part, needed=(total or have) - have)
                have += len(chunk)
                on_bytes(have, total)
    return have, total


def _write(file: BinaryIO, chunk: bytes, part: Path, *, needed: int) -> None:
    try:
        file.write(chunk)
    except OSError as error:
        if error.errno == errno.ENOSPC:  # another process took the room that there was
            raise NoSpace(f"{needed:,} bytes more are needed in {part.parent}, which is full.") from error
        raise


def _first_byte(response: HTTPResponse) -> int:
    """Of a partial answer, from its header, `bytes 100-199/200`."""
    given = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(given) if given.isdigit() else -1


def check_space(folder: Path, needed: int) -> None:
    """Raise NoSpace, naming the bytes, unless the folder has room for so many."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise NoSpace(f"{needed:,} bytes are needed in {folder}, where {free:,} are free.")


def check_sha256(path: Path, sha256: str, *, source: str) -> None:
    """Delete the file and raise Damaged unless it has this digest."""
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != sha256:
        path.unlink()
        raise Damaged(f"{source} must have the sha256 {sha256}, got {actual}. It was deleted and not used.")
