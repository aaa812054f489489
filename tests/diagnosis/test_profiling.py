import torch

from surefoot.diagnosis.profiling import profile
from surefoot.metrics import ece
from surefoot.posthoc import Temperature, cross_fitted
from surefoot.predictions import Predictions


def drawn(n: int = 600) -> Predictions:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(n, 5, generator=generator, dtype=torch.float64)
    labels = torch.randint(5, (n,), generator=generator)
    return Predictions(logits, torch.where(torch.arange(n) % 2 == 0, logits.argmax(dim=1), labels))


def test_parts_add_up_to_the_whole() -> None:
    p = drawn()
    found = profile(p)
    for groups in (found.classes, found.bins):
        assert sum(each.count or 0 for each in groups) == 600
        gap = sum((each.count or 0) * each.gap for each in groups) / 600
        torch.testing.assert_close(gap, found.whole.gap)
    gaps = sum((each.count or 0) * abs(each.gap) for each in found.bins) / 600
    torch.testing.assert_close(gaps, float(ece(p)))
    assert found.num_wrong == int((~p.correct).sum())


def test_samples_stand_in_order_and_carry_their_share() -> None:
    p = drawn()
    found = profile(p, num_samples=600)
    margins = [each.margin for each in found.carriers]
    assert margins == sorted(margins)
    torch.testing.assert_close(sum(each.share for each in found.carriers), 1.0)
    torch.testing.assert_close(found.tail[0][1], sum(each.share for each in found.carriers[:6]))
    assert all(each.label != each.predicted for each in found.wrong)
    assert [each.confidence for each in found.wrong] == sorted((each.confidence for each in found.wrong), reverse=True)
    assert p.confidence[found.wrong[0].index] == found.wrong[0].confidence


def test_a_hand_made_case() -> None:
    p = Predictions(torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]], dtype=torch.float64), torch.tensor([0, 1, 1]))
    found = profile(p, num_bins=2)
    assert [(each.name, each.count, each.accuracy) for each in found.classes] == [("0", 2, 0.5), ("1", 1, 1.0)]
    assert [each.index for each in found.wrong] == [1]
    assert [each.index for each in found.carriers] == [1, 2, 0]


def test_cross_fitting_never_maps_a_sample_by_a_fit_that_saw_it() -> None:
    p = drawn(100)
    mapped = cross_fitted(Temperature, p, num_folds=4)
    fold = torch.randperm(100, generator=torch.Generator().manual_seed(0)) % 4
    for k in range(4):
        inside = fold == k
        wanted = Temperature.fit(p[~inside])(p.exact[inside])
        torch.testing.assert_close(mapped.logits[inside], wanted)
