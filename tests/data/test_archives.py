import gzip
import io
import random
import tarfile
from pathlib import Path

import pytest

from surefoot.data.fetching._archives import from_deb, from_tar, gunzipped


def packed(path: Path, *members: tuple[str, bytes | tarfile.TarInfo], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, content in members:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[str, tarfile.TarInfo]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return name, info


def test_only_what_is_asked_for_comes_out(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.tgz", ("x/a", b"1"), ("./x/b", b"22"), ("x/c", b"3"))
    assert from_tar(archive, ["x/a", "x/b"], limit=10) == {"x/a": b"1", "x/b": b"22"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.tgz"]


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (("../evil", b"1"), "a path outside its folder"),
        (("x/../../evil", b"1"), "a path outside its folder"),
        (("/etc/evil", b"1"), "a path outside its folder"),
        (link("x/a", "/etc/passwd"), "a link or a device"),
        (link("other", "x/a", tarfile.LNKTYPE), "a link or a device"),
        (link("pipe", "", tarfile.FIFOTYPE), "a link or a device"),
        (("x/a", b"1" * 11), "must be a file of at most 10 bytes"),
    ],
)
def test_archives_that_reach_out_are_refused(
    member: tuple[str, bytes | tarfile.TarInfo], message: str, tmp_path: Path
) -> None:
    archive = packed(tmp_path / "a.tgz", member, ("x/a", b"1"))
    with pytest.raises(ValueError, match=message):
        from_tar(archive, ["x/a"], limit=10)


def test_damaged_and_incomplete_archives(tmp_path: Path) -> None:
    archive = packed(tmp_path / "a.tgz", ("x/a", random.Random(0).randbytes(10_000)))
    with pytest.raises(ValueError, match="The archive must hold x/b"):
        from_tar(archive, ["x/b"], limit=10)
    archive.write_bytes(archive.read_bytes()[:5000])
    with pytest.raises(ValueError, match="The archive is damaged"):
        from_tar(archive, ["x/a"], limit=10**6)
    archive.write_bytes(b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 600)
    with pytest.raises(ValueError, match="The archive is damaged"):
        from_tar(archive, ["x/a"], limit=10**6)
    archive.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="The archive is damaged"):
        from_tar(archive, ["x/a"], limit=10**6)


def deb(path: Path, members: dict[str, bytes]) -> Path:
    parts = [b"!<arch>\n"]
    for name, content in members.items():
        parts.append(f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode())
        parts.append(content + b"\n" * (len(content) % 2))
    path.write_bytes(b"".join(parts))
    return path


def test_debian_packages(tmp_path: Path) -> None:
    inner = packed(tmp_path / "data.tar.xz", ("./usr/a", b"1"), mode="w:xz").read_bytes()
    package = deb(tmp_path / "a.deb", {"debian-binary": b"2.0", "control.tar.xz": b"...", "data.tar.xz": inner})
    assert from_deb(package, ["usr/a"], limit=10) == {"usr/a": b"1"}
    with pytest.raises(ValueError, match=r"it has no data\.tar"):
        from_deb(deb(tmp_path / "b.deb", {"debian-binary": b"2.0\n"}), ["usr/a"], limit=10)
    with pytest.raises(ValueError, match="is not a Debian package"):
        from_deb(tmp_path / "data.tar.xz", ["usr/a"], limit=10)


def test_gunzipped() -> None:
    assert gunzipped(gzip.compress(b"abc"), limit=3) == b"abc"
    with pytest.raises(ValueError, match="at most 2 bytes"):
        gunzipped(gzip.compress(b"abc"), limit=2)
    for bad in (b"abc", gzip.compress(b"abc" * 1000)[:-9]):
        with pytest.raises(ValueError, match="not a whole gzip file"):
            gunzipped(bad, limit=10_000)
