import pytest
from scipy.stats import spearmanr

from surefoot.runs.spec import RunSpec
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.correlation import spearman
from surefoot_papers.too_sharp.certificates._proxies import agreements, proxies


def run(observers: dict[str, dict[str, float]], rows: list[dict[str, float | None]]) -> Trajectory:
    spec = {"optimizer": {"name": "gd", "lr": 0.1}, "budget": 9, "observers": observers}
    return Trajectory.of(RunSpec.from_dict(spec), rows)


def test_spearman_is_scipys_with_ties() -> None:
    x, y = [1.0, 2.0, 2.0, 5.0, -1.0, 3.0], [0.5, 9.0, 1.0, 1.0, -2.0, 30.0]
    both = run({}, [{"a": a, "b": b} for a, b in zip(x, y, strict=True)])
    assert spearman(both, "a", "b") == pytest.approx(spearmanr(x, y).statistic)
    assert spearman(both, "a", "missing") is None


def test_bias_order_and_calls() -> None:
    rows: list[dict[str, float | None]] = [
        {
            "step": float(k),
            "train/log_margin_moment": float(-k),
            "train/proxy_batch_log_moment": -k + 0.5,
            "train/proxy_batch_interpolating": 1.0,
            "train/margin_min": k - 2.0,
            "train/bound_sharpness_ours": 10.0 * (k + 1),
            "train/proxy_low_rank_sharpness": 5.0 * (k + 1),
        }
        for k in range(6)
    ]
    table = proxies([run({"proxies": {}}, rows)])
    assert table is not None
    batch, rank = table.rows
    assert batch[2] == "log Q, from a mini-batch"
    assert batch[3:] == (0.5, 0.5, 0.5, pytest.approx(1.0), "3 of 6", 6)
    assert rank[3] == pytest.approx(-0.6931, abs=1e-4)
    assert rank[7] is None
    assert [each.rank_r for each in agreements([run({"proxies": {}}, rows)])] == pytest.approx([1.0, 1.0])
    assert proxies([run({}, rows)]) is None
