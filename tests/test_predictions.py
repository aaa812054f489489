import pytest
import torch

from surefoot.predictions import Predictions


def test_hand_computed() -> None:
    p = Predictions(torch.tensor([[1.0, 3.0, 2.0], [5.0, 5.0, 0.0]]), torch.tensor([2, 1]))
    assert p.predicted.tolist() == [1, 0]  # the lowest index on ties
    assert p.correct.tolist() == [False, False]
    assert p.margin.tolist() == [-1.0, 0.0]
    torch.testing.assert_close(p.confidence[0].item(), 1 / (1 + 2.718281828459045**-1 + 2.718281828459045**-2))


def test_derived_quantities_are_float64_and_stay_on_the_device() -> None:
    p = Predictions(torch.zeros(4, 3, device="meta"), torch.zeros(4, dtype=torch.int64, device="meta"))
    for value in (p.confidence, p.margin):
        assert value.dtype == torch.float64
        assert value.device.type == "meta"


def test_extreme_logits_do_not_overflow() -> None:
    p = Predictions(torch.tensor([[1000.0, -1000.0], [-80.0, 90.0]]), torch.tensor([0, 0]))
    assert p.confidence.tolist() == [1.0, 1.0]
    assert p.margin.tolist() == [2000.0, -170.0]


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros(2), torch.zeros(2, dtype=torch.long), r"shape \[N, K\]"),
        (torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, dtype=torch.long), "floating point"),
        (torch.zeros(2, 1), torch.zeros(2, dtype=torch.long), "2 classes"),
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), "at least 1 sample"),
        (torch.zeros(2, 3), torch.zeros(3, dtype=torch.long), r"`labels` must be integers of shape \[2\]"),
        (torch.zeros(2, 3), torch.zeros(2), "`labels` must be integers"),
        (torch.zeros(2, 3), torch.tensor([0, 3]), r"`labels` must lie in 0..2, got values from 0 to 3"),
        (torch.zeros(2, 3), torch.tensor([-1, 0]), "from -1 to 0"),
        (torch.tensor([[0.0, 0.0], [float("nan"), 0.0]]), torch.tensor([0, 0]), "in 1 rows, first in row 1"),
    ],
)
def test_bad_input_is_refused(logits: torch.Tensor, labels: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Predictions(logits, labels)


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        (
            torch.tensor([[0.5, 0.6], [0.5, 0.5]]),
            "in every row, got 1 rows that are off by more than 0.001, first row 0",
        ),
        (torch.tensor([[1.5, -0.5]]), r"must lie in \[0, 1\], got values from -0.5 to 1.5"),
        (torch.tensor([[0.5, 0.5], [float("inf"), 0.0]]), "`probabilities` must be finite"),
        (torch.tensor([[1.0], [1.0]]), "2 classes"),
        (torch.tensor([0.5, 0.5]), r"`probabilities` must be floating point of shape \[N, K\]"),
    ],
)
def test_bad_probabilities_are_refused(probabilities: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Predictions.from_probabilities(probabilities, torch.zeros(len(probabilities), dtype=torch.long))


def test_probabilities_are_kept_as_given() -> None:
    given = torch.tensor([[0.2, 0.8, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    p = Predictions.from_probabilities(given, torch.tensor([1, 2]))
    assert p.confidence.tolist() == [0.8, 1.0]
    assert p.probabilities.tolist() == given.tolist()
    assert p.logits.isfinite().all()
    torch.testing.assert_close(p.logits.softmax(dim=1), given)


def test_blocks_hold_the_same_samples_in_order() -> None:
    torch.manual_seed(0)
    p = Predictions(torch.randn(700, 1000), torch.randint(1000, (700,)))
    blocks = list(p.blocks())
    assert len(blocks) > 1
    assert torch.equal(torch.cat([block.labels for block in blocks]), p.labels)
    exact = p.exact.softmax(dim=1)
    torch.testing.assert_close(torch.cat([block.probabilities for block in blocks]), exact)
    torch.testing.assert_close(p.confidence, exact.amax(dim=1), rtol=1e-14, atol=0)
    assert torch.equal(p.predicted, p.logits.argmax(dim=1))


def test_half_precision_probabilities_lose_nothing_more() -> None:
    half = torch.tensor([[1.0, 2e-5, 0.0]], dtype=torch.float16)
    p = Predictions.from_probabilities(half, torch.tensor([0]))
    torch.testing.assert_close(p.logits[0, 1].exp(), half[0, 1].double())


def test_logits_with_a_graph_and_unusual_labels() -> None:
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    p = Predictions(logits, torch.zeros(5, dtype=torch.uint16))
    assert not p.confidence.requires_grad
    assert p.correct.dtype == torch.bool
    with pytest.raises(ValueError, match="floating point"):
        Predictions(torch.zeros(2, 3).to(torch.float8_e5m2), torch.zeros(2, dtype=torch.long))
