from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from surefoot.io import read_predictions

LOGITS = np.array([[2.0, 0.0, -1.0], [0.5, 0.25, 3.0], [1.0, 1.5, 0.0]], dtype=np.float32)
LABELS = np.array([0, 2, 0])


def write(path: Path, **arrays: np.ndarray) -> Path:
    """The same arrays in the format of the path's ending."""
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".safetensors":
        save_file({name: torch.from_numpy(array) for name, array in arrays.items()}, path)
    else:
        columns = {}
        for name, array in arrays.items():
            columns |= {name: array} if array.ndim == 1 else {f"{name}_{k}": array[:, k] for k in range(array.shape[1])}
        if path.suffix == ".csv":
            rows = [
                ",".join(columns),
                *(",".join(map(repr, row)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)),
            ]
            path.write_text("\n".join(rows) + "\n")
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("ending", ["npz", "csv", "safetensors", "parquet"])
def test_every_kind_of_file(tmp_path: Path, ending: str) -> None:
    p = read_predictions(write(tmp_path / f"a.{ending}", logits=LOGITS, labels=LABELS))
    torch.testing.assert_close(p.logits.float(), torch.from_numpy(LOGITS), rtol=0, atol=0)
    assert p.labels.tolist() == [0, 2, 0]
    path = write(tmp_path / f"b.{ending}", net=LOGITS, truth=LABELS)
    p = read_predictions(path, logits="net", labels="truth")
    assert p.predicted.tolist() == [0, 2, 1]
    probs = torch.from_numpy(LOGITS).double().softmax(dim=1).numpy()
    p = read_predictions(write(tmp_path / f"c.{ending}", probs=probs, y=LABELS))
    torch.testing.assert_close(p.confidence, torch.from_numpy(probs).amax(dim=1), rtol=0, atol=0)


def test_lists_in_parquet(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"logits": LOGITS.tolist(), "label": LABELS}), tmp_path / "a.parquet")
    torch.testing.assert_close(read_predictions(tmp_path / "a.parquet").logits.float(), torch.from_numpy(LOGITS))


def test_more_than_ten_columns_stay_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    wide = np.arange(24.0).reshape(2, 12)
    p = read_predictions(write(tmp_path / "a.csv", logits=wide, labels=np.array([0, 11])))
    assert p.logits.tolist() == wide.tolist()


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.uint64, np.float32])
def test_labels_of_any_whole_kind(tmp_path: Path, kind: type) -> None:
    p = read_predictions(write(tmp_path / "a.npz", logits=LOGITS, labels=LABELS.astype(kind)[:, None]))
    assert p.labels.tolist() == [0, 2, 0]


def test_other_byte_orders_and_halves(tmp_path: Path) -> None:
    p = read_predictions(write(tmp_path / "a.npz", logits=LOGITS.astype(">f4"), labels=LABELS.astype(">i8")))
    assert p.logits.tolist() == LOGITS.tolist()
    assert read_predictions(write(tmp_path / "b.npz", logits=LOGITS.astype(np.float16), labels=LABELS)).num_classes == 3


SOFT = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
OBJECTS = np.array([{"a": 1}, None, 3], dtype=object)


@pytest.mark.parametrize(
    ("arrays", "names", "message"),
    [
        ({"net": LOGITS, "labels": LABELS}, {}, "has neither 'logits' nor 'probs': say which .* It holds: net, labels"),
        ({"logits": LOGITS, "probs": LOGITS, "y": LABELS}, {}, "has both 'logits' and 'probs'"),
        ({"logits": LOGITS}, {}, "has no labels: name them with `labels`. It holds: logits"),
        ({"logits": LOGITS, "y": LABELS}, {"logits": "logit"}, "Unknown array in .* 'logit'. Did you mean 'logits'"),
        ({"logits": LOGITS, "y": LABELS}, {"logits": "logits", "probabilities": "y"}, "not both"),
        ({"logits": LOGITS, "y": OBJECTS}, {}, "'y' holds Python objects, which are never unpickled"),
        ({"logits": LOGITS, "y": np.array(["a", "b", "c"])}, {}, "'y' must hold numbers, got <U1"),
        ({"logits": LOGITS, "y": LABELS + 0.5}, {}, "`labels` must be whole numbers"),
        ({"logits": LOGITS, "y": LABELS[:2]}, {}, r"`labels` must be integers of shape \[3\]"),
        ({"logits": LOGITS, "y": LABELS + 1}, {}, r"`labels` must lie in 0..2, got values from 1 to 3"),
        ({"logits": LOGITS[:, :1], "y": LABELS}, {}, "a column for each of at least 2 classes, got one column"),
        ({"logits": LOGITS[:, 0], "y": LABELS}, {}, "a column for each of at least 2 classes, got one column"),
        ({"logits": LOGITS[:0], "y": LABELS[:0]}, {}, "at least 1 sample"),
        ({"logits": np.full_like(LOGITS, 1 / 3), "y": LABELS}, {}, "name them with `probabilities`"),
        ({"logits": SOFT.astype(np.float16), "y": LABELS}, {}, "name them with `probabilities`"),
        ({"logits": LOGITS > 0, "y": LABELS}, {}, "must hold real numbers"),
        ({"logits": LOGITS[None], "y": LABELS}, {}, "must hold real numbers"),
        ({"probs": LOGITS, "y": LABELS}, {}, r"`probabilities` must lie in \[0, 1\]"),
        ({"probs": np.full_like(LOGITS, 0.4), "y": LABELS}, {}, "must sum to 1 in every row, got 3 rows"),
        ({"logits": np.where(LOGITS > 2, np.nan, LOGITS), "y": LABELS}, {}, "NaN or inf in 1 rows, first in row 1"),
    ],
)
def test_bad_content_is_refused(tmp_path: Path, arrays: dict, names: dict, message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read_predictions(tmp_path / "a.npz", **names)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", b"", "is empty"),
        ("a.npz", b"PK\x03\x04 broken", "is not an npz file"),
        ("a.safetensors", b"12345678901", "is not a safetensors file"),
        ("a.parquet", b"PAR1 or so", "is not a parquet file"),
        ("a.csv", b"1,2,3\n4,5,6\n", "has no header"),
        ("a.csv", b"logits_0,logits_1,label\n", "has a header but no rows"),
        ("a.csv", b"logits_0,logits_1,label\n1,2,0\n1,0\n", "is not a csv file of numbers"),
        ("a.csv", b"logits_0,logits_1,label\n1,2\n", "3 names in its header but 2 columns"),
        ("a.csv", b"id,logits_0,logits_1,label\nx,1,2,0\ny,1,2,0,7\n", "is not a csv file of numbers"),
        ("a.csv", b"logits_0,logits_1,label\n1,2,cat\n2,1,dog\n", "'label' must hold numbers, got 'cat'"),
        ("a.csv", b"logits_0,logits_1,label\n1,,0\n2,1,1\n", "'logits_1' must hold numbers, got ''"),
        ("a.csv", b"logits_0,logits_0,label\n1,2,0\n", "must name every column differently"),
        ("a.csv", b"logits_0,logits_1,label\n1,nan,0\n2,3,1\n", "NaN or inf in 1 rows, first in row 0"),
        ("a.csv", b"logits_1,logits_2,label\n1,2,0\n2,3,1\n", r"numbered from 0 without gaps, got \[1, 2\]"),
        ("a.csv", b"logits_0,logits_1,logits1,label\n1,2,3,0\n2,3,4,1\n", r"without gaps, got \[0, 1, 1\]"),
        ("a.txt", b"x", "Unknown kind of file '.txt'"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_predictions(tmp_path / name)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", OBJECTS, allow_pickle=True)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="is not an npz file"):
        read_predictions(tmp_path / "a.npz")


def test_columns_of_text_that_nobody_asks_for_are_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('file,logits_0,logits_1,label\n"a, b.png",1,2,0\nc.png,4,3,1\n')
    found = read_predictions(tmp_path / "a.csv")
    assert found.logits.tolist() == [[1, 2], [4, 3]]
    assert found.labels.tolist() == [0, 1]


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="There is no file"):
        read_predictions(tmp_path / "b.npz")
    with pytest.raises(ValueError, match="is a folder, not a file"):
        read_predictions(tmp_path)


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"# ", b"#"])
def test_headers_of_spreadsheets_and_of_numpy(tmp_path: Path, start: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(start + b"logits_0,logits_1,logits_2,label\r\n1,2,3,0\r\n4,5,6,1\r\n")
    assert read_predictions(tmp_path / "a.csv").logits.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_lists_of_different_lengths_are_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"logits": [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]], "y": LABELS}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="lists of the same length"):
        read_predictions(tmp_path / "a.parquet")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=LABELS)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    place = content.index(LOGITS.tobytes())
    content[place : place + 4] = b"\0\1\2\3"
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ValueError, match="is damaged: Bad CRC"):
        read_predictions(str(tmp_path / "a.npz"))
