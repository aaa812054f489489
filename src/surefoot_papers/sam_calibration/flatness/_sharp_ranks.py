"""Do methods that end better calibrated end flatter?"""

from collections.abc import Iterator

from surefoot.studies.claim import Claim
from surefoot.studies.comparison import Groups
from surefoot.studies.correlation import FEWEST, r_of, ranks
from surefoot.studies.intervals import t_interval
from surefoot.studies.paired import above_zero, by_seed, last

ECE, SHARPNESS = "test/ece", "train/hessian_sharpness"


def over_methods(groups: Groups) -> Iterator[Claim]:
    """Spearman's r of ECE and sharpness over the methods, once for each seed; nothing for fewer than five methods."""
    ends = [(by_seed(runs, last(ECE)), by_seed(runs, last(SHARPNESS))) for runs in groups.values()]
    measured = [(ece, sharpness) for ece, sharpness in ends if ece and sharpness]
    if len(measured) < FEWEST:
        return
    seeds = sorted(set.intersection(*(set(values) for pair in measured for values in pair)))
    by_seed_ranks = [(ranks([e[seed] for e, _ in measured]), ranks([s[seed] for _, s in measured])) for seed in seeds]
    values = [r for eces, sharpnesses in by_seed_ranks if (r := r_of(eces, sharpnesses)) is not None]
    interval = t_interval(values)
    if interval is None:
        return
    mean, (low, high) = sum(values) / len(values), interval
    yield Claim(
        id="rank-correlation/ece/hessian-sharpness",
        statement="the better calibrated a method, the flatter its minimum",
        verdict=above_zero(values),
        estimate=mean,
        low=low,
        high=high,
        n=(len(values),),
        measured=f"rank r over {len(measured)} methods {mean:+.2f} [{low:+.2f}, {high:+.2f}] (n={len(values)})",
    )
