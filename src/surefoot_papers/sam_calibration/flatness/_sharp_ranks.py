"""Do methods that end better calibrated end flatter?"""

from collections.abc import Iterator

from surefoot.studies.comparison import Groups, Judged
from surefoot.studies.correlation import FEWEST, t_interval
from surefoot.studies.paired import by_seed, last, verdict
from surefoot_papers.too_sharp.certificates.proxies import spearman

ECE, SHARPNESS = "test/ece", "train/hessian_sharpness"


def along_methods(groups: Groups) -> Iterator[Judged]:
    """Spearman's r of ECE and sharpness over the methods, once for each seed; nothing for fewer than five methods."""
    ends = [(by_seed(runs, last(ECE)), by_seed(runs, last(SHARPNESS))) for runs in groups.values()]
    known = [(ece, sharpness) for ece, sharpness in ends if ece and sharpness]
    if len(known) < FEWEST:
        return
    seeds = sorted(set.intersection(*(set(values) for pair in known for values in pair)))
    found = [spearman([{"e": e[seed], "s": s[seed]} for e, s in known], "e", "s") for seed in seeds]
    ranks = [r for r in found if r is not None]
    interval = t_interval(ranks)
    if interval is None:
        return
    mean = sum(ranks) / len(ranks)
    told = f"rank r over {len(known)} methods {mean:+.2f} [{interval[0]:+.2f}, {interval[1]:+.2f}] (n={len(ranks)})"
    yield "the better calibrated a method, the flatter its minimum", told, verdict(ranks, lower=False)
