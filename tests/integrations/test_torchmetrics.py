"""Our metrics inside torchmetrics."""

import pickle
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy

from references import slow
from references.processes import in_two_processes
from surefoot.integrations.torchmetrics import Streamed, collection, metric
from surefoot.metrics import METRICS
from surefoot.metrics.streaming import STREAMING
from surefoot.predictions import Predictions

K = 4
ALL = pytest.mark.parametrize("name", METRICS)


def batches(*, num: int = 3) -> list[tuple[Tensor, Tensor]]:
    return [slow.random_case(seed, k=K) for seed in range(num)]


def whole(parts: list[tuple[Tensor, Tensor]]) -> Predictions:
    return Predictions(torch.cat([logits for logits, _ in parts]), torch.cat([labels for _, labels in parts]))


@ALL
@pytest.mark.parametrize("given", ["logits", "probabilities"])
def test_batches_give_the_metric_of_all_samples(name: str, given: str) -> None:
    found = metric(name, K, given=given)  # type: ignore[arg-type]
    everything = whole(batches())
    if given == "probabilities":
        everything = Predictions.from_probabilities(everything.probabilities, everything.labels)
    for logits, labels in batches():
        scores = logits if given == "logits" else logits.softmax(dim=1)
        step = found(scores, labels)  # as in a training loop: of this batch alone
        alone = Predictions(scores, labels) if given == "logits" else Predictions.from_probabilities(scores, labels)
        torch.testing.assert_close(step, METRICS[name](alone), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found.compute(), METRICS[name](everything), rtol=1e-9, atol=1e-12)
    assert found.compute().dtype == torch.float64
    again = pickle.loads(pickle.dumps(found))
    assert torch.equal(again.compute(), found.compute())
    found.reset()
    found.update(*batches(num=1)[0]) if given == "logits" else found.update(everything.probabilities, everything.labels)
    expected = METRICS[name](whole(batches(num=1)) if given == "logits" else everything)
    torch.testing.assert_close(found.compute(), expected, rtol=1e-9, atol=1e-12)


def test_the_state_of_streamed_metrics_does_not_grow() -> None:
    for name in STREAMING:
        found = metric(name, K)
        assert isinstance(found, Streamed)
        sizes = []
        for logits, labels in batches():
            found.update(logits, labels)
            states = [getattr(found, state) for state in found._defaults]
            sizes.append([tuple(state.shape) for state in states])
        assert sizes[0] == sizes[1] == sizes[2]


def test_a_collection_beside_theirs_updates_shared_sums_once() -> None:
    names = ["accuracy", "nll", "ece", "mce", "rms_ce", "ue", "sm_ece", "kce", "mean_confidence", "classwise_ece"]
    found = MetricCollection({"theirs": MulticlassAccuracy(K, average="micro"), **dict(collection(names, K))})
    for logits, labels in batches():
        found.update(logits, labels)
    values = found.compute()
    assert set(values) == {"theirs", *names}
    for name in names:
        torch.testing.assert_close(values[name], METRICS[name](whole(batches())), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(values["accuracy"].float(), values["theirs"])
    groups = sorted(sorted(group) for group in found.compute_groups.values() if len(group) > 1)
    assert groups == [["ece", "mce", "rms_ce", "ue"], ["kce", "sm_ece"]]
    assert set(collection(names[:2], K, prefix="test/").clone().keys()) == {"test/accuracy", "test/nll"}


def test_sums_that_agree_by_chance_are_not_shared() -> None:
    certain = torch.tensor([[1000.0, 0.0]]), torch.tensor([0])  # right with confidence 1: both sums are 1
    unsure = torch.tensor([[1.0, 0.0]]), torch.tensor([1])
    found = collection(["accuracy", "mean_confidence"], 2)
    found.update(*certain)
    found.update(*unsure)
    values = found.compute()
    assert values["accuracy"] == 0.5
    assert values["mean_confidence"] > 0.8


def test_other_numbers_of_bins() -> None:
    for name in ("ece", "ada_ece", "classwise_ece"):
        found = metric(name, K, num_bins=7)
        found.update(*batches(num=1)[0])
        expected = METRICS[name](whole(batches(num=1)), num_bins=7)  # type: ignore[call-arg]
        torch.testing.assert_close(found.compute(), expected, rtol=1e-9, atol=1e-12)


def test_in_a_module_of_half_precision_sums_stay_exact() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.ece = metric("ece", K)

    net = Net().half()
    for logits, labels in batches():
        net.ece.update(logits, labels)
    torch.testing.assert_close(net.ece.compute(), METRICS["ece"](whole(batches())), rtol=1e-9, atol=1e-12)


def test_higher_is_better_is_known() -> None:
    assert metric("accuracy", K).higher_is_better is True
    assert metric("ece", K).higher_is_better is False
    assert metric("entropy", K).higher_is_better is None


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Unknown metric .ecce.. Did you mean .ece."):
        metric("ecce", K)
    with pytest.raises(ValueError, match="`given` must be 'logits' or 'probabilities', got 'probs'"):
        metric("ece", K, given="probs")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`num_classes` must be at least 2, got 1"):
        metric("ece", 1)
    with pytest.raises(ValueError, match="`logits` must have 3 classes like the metric, got 4"):
        metric("ece", 3).update(*batches(num=1)[0])
    with pytest.raises(ValueError, match=r"`labels` must be integers of shape \[60\]"):
        metric("nll", K).update(batches(num=1)[0][0], torch.zeros(60, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"`probabilities` must lie in \[0, 1\]"):
        metric("ece", K, given="probabilities").update(*batches(num=1)[0])
    with pytest.raises(ValueError, match="without samples has no metrics"), pytest.warns(UserWarning, match="before"):
        metric("ece", K).compute()


def _half(rank: int, folder: Path) -> None:
    found = collection(["ece", "classwise_ece", "nll", "sm_ece"], K)
    for logits, labels in batches()[rank::2]:  # two batches on one process, one on the other
        found.update(logits, labels)
    torch.save(found.compute(), folder / f"{rank}.pt")


@pytest.mark.slow
def test_two_processes_give_the_metric_of_all_samples(tmp_path: Path) -> None:
    in_two_processes(_half, tmp_path)
    for rank in (0, 1):
        for name, value in torch.load(tmp_path / f"{rank}.pt").items():
            torch.testing.assert_close(value, METRICS[name](whole(batches())), rtol=1e-9, atol=1e-12)
