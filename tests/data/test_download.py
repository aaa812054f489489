import hashlib
from pathlib import Path

import numpy as np
import pytest

from references.loopback import serving
from surefoot.data.fetching._download import Damaged, NoSpace, Unreachable, download

CONTENT = np.random.default_rng(0).bytes(1_000_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def test_a_file_comes_whole_with_progress_and_leaves_no_part(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    with serving({"/a": CONTENT}) as site:
        download(f"{site.address}/a", tmp_path / "new" / "a", sha256=DIGEST, on_bytes=lambda *each: seen.append(each))
    assert (tmp_path / "new" / "a").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a"]
    assert seen[0] == (0, 1_000_000)
    assert seen[-1] == (1_000_000, 1_000_000)


def test_what_breaks_off_is_taken_up_where_it_broke(tmp_path: Path) -> None:
    with serving({"/a": CONTENT}) as site:
        site.breaks_after = [300_000, 123]
        download(f"{site.address}/a", tmp_path / "a", sha256=DIGEST, pause=0)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert [asked for _, asked in site.asked] == [None, "bytes=300000-", "bytes=300123-"]


def test_a_later_call_goes_on_from_the_part(tmp_path: Path) -> None:
    with serving({"/a": CONTENT}) as site:
        site.breaks_after = [400_000]
        with pytest.raises(Unreachable, match=r"broke off after 400,000 of 1,000,000 bytes\. What came is kept"):
            download(f"{site.address}/a", tmp_path / "a", sha256=DIGEST, num_attempts=1)
        assert not (tmp_path / "a").exists()
        assert (tmp_path / "a.part").stat().st_size == 400_000
        download(f"{site.address}/a", tmp_path / "a", sha256=DIGEST)
    assert site.asked[-1] == ("/a", "bytes=400000-")
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_over(tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(CONTENT[:500])
    with serving({"/a": CONTENT}, ranges=False) as site:
        site.breaks_after = [1000]
        download(f"{site.address}/a", tmp_path / "a", sha256=DIGEST, pause=0)
    assert (tmp_path / "a").read_bytes() == CONTENT


@pytest.mark.parametrize("extra", [b"", b"x"])
def test_a_part_that_is_whole_or_too_long(extra: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(CONTENT + extra)
    with serving({"/a": CONTENT}) as site:
        download(f"{site.address}/a", tmp_path / "a", sha256=DIGEST)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert len(site.asked) == 1 + len(extra)


def test_a_part_of_something_else_is_found_out_and_deleted(tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(b"other")
    with serving({"/a": CONTENT}) as site:
        with pytest.raises(Damaged, match=f"/a must have the sha256 {DIGEST}, got [0-9a-f]{{64}}. It was deleted"):
            download(f"{site.address}/a", tmp_path / "a", sha256=DIGEST)
        assert not list(tmp_path.iterdir())
        download(f"{site.address}/a", tmp_path / "a", sha256=DIGEST)  # and the next call is clean
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_a_wrong_file_is_deleted_and_not_used(tmp_path: Path) -> None:
    with serving({"/a": b"x" + CONTENT}) as site, pytest.raises(Damaged, match="deleted and not used"):
        download(f"{site.address}/a", tmp_path / "a", sha256=DIGEST)
    assert not list(tmp_path.iterdir())


def test_nobody_there(tmp_path: Path) -> None:
    with serving({}) as site:
        with pytest.raises(Unreachable, match=r"/b answered 404 Not Found"):
            download(f"{site.address}/b", tmp_path / "b", sha256=None)
        gone = site.address
    with pytest.raises(Unreachable, match="cannot be reached"):
        download(f"{gone}/b", tmp_path / "b", sha256=None)
    assert not list(tmp_path.iterdir())


def test_a_server_that_dies_in_between_leaves_a_part_to_go_on_from(tmp_path: Path) -> None:
    with serving({"/a": CONTENT}) as site:
        site.breaks_after = [70_000]
        with pytest.raises(Unreachable):
            download(f"{site.address}/a", tmp_path / "a", sha256=DIGEST, num_attempts=1)
        gone = site.address
    with pytest.raises(Unreachable, match=r"cannot be reached.*What came is kept"):
        download(f"{gone}/a", tmp_path / "a", sha256=DIGEST, num_attempts=2, pause=0)
    assert (tmp_path / "a.part").stat().st_size == 70_000


def test_no_room_is_said_before_a_byte_is_written(tmp_path: Path) -> None:
    with (
        serving({"/a": CONTENT}) as site,
        pytest.raises(NoSpace, match=r"1,000,000,001,000,000 bytes are needed in .*, where [\d,]+ are free"),
    ):
        download(f"{site.address}/a", tmp_path / "a", sha256=DIGEST, spare=10**15)
    assert not list(tmp_path.iterdir())
