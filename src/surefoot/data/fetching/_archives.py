"""Single files out of archives, into memory: nothing is written where an archive says, and nothing is unpickled."""

import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import IO

_AR_START = b"!<arch>\n"
_AR_HEADER = 60  # bytes: name 16, times and owners 32, size 10, end 2


def from_tar(archive: Path | IO[bytes], names: Iterable[str], *, limit: int) -> dict[str, bytes]:
    """The files of these names in a tar archive, none above `limit` bytes.

    An archive with a link, a device or a path outside its folder is refused whole.
    """
    wanted = set(names)
    files: dict[str, bytes] = {}
    try:
        opened = tarfile.open(archive) if isinstance(archive, Path) else tarfile.open(fileobj=archive)  # noqa: SIM115
        with opened as tar:
            for member in tar:
                _check_member(member)
                name = str(PurePosixPath(member.name))
                if name in wanted:
                    file = tar.extractfile(member)
                    if file is None or member.size > limit:
                        raise ValueError(f"{name} in the archive must be a file of at most {limit:,} bytes.")
                    files[name] = file.read()
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"The archive is damaged: {error}.") from None
    if missing := wanted - files.keys():
        raise ValueError(f"The archive must hold {', '.join(sorted(missing))}.")
    return files


def from_deb(archive: Path, names: Iterable[str], *, limit: int) -> dict[str, bytes]:
    """The files of these names in a Debian package."""
    with archive.open("rb") as file:
        if file.read(len(_AR_START)) != _AR_START:
            raise ValueError(f"{archive.name} is not a Debian package.")
        while len(header := file.read(_AR_HEADER)) == _AR_HEADER:
            name, size = header[:16].decode("ascii", "replace").strip().rstrip("/"), int(header[48:58])
            if name.startswith("data.tar"):
                return from_tar(io.BytesIO(file.read(size)), names, limit=limit)
            file.seek(size + size % 2, io.SEEK_CUR)
    raise ValueError(f"{archive.name} is not a Debian package: it has no data.tar.")


def gunzipped(content: bytes, *, limit: int) -> bytes:
    """What a gzip file holds, at most `limit` bytes."""
    try:
        with gzip.open(io.BytesIO(content)) as file:
            unpacked = file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"The file is not a whole gzip file: {error}.") from None
    if len(unpacked) > limit:
        raise ValueError(f"The gzip file must hold at most {limit:,} bytes.")
    return unpacked


def _check_member(member: tarfile.TarInfo) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"The archive holds {member.name!r}, a path outside its folder: it is not used.")
    if not (member.isfile() or member.isdir()):
        raise ValueError(f"The archive holds {member.name!r}, which is a link or a device: it is not used.")
