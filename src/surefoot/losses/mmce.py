"""Maximum mean calibration error as a penalty."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from surefoot.kernel import laplacian_pair_sum
from surefoot.losses._outputs import top_label
from surefoot.losses._penalised import Penalised, check_at_least_zero

_NU = 0.4  # the kernel's width, of the authors


@dataclass(frozen=True)
class MMCE(Penalised):
    r"""Cross-entropy + strength T: T is a kernel distance of the batch between confidence r and correctness c.

    With k = exp(-|r_i - r_j| / 0.4) and g = c - r, of which m samples are right and n wrong:

    - `form="m"`: T = sum_ij g_i g_j k / N^2, the square of the metric `mmce`, as code has it.
    - `form="w"`: T = sqrt(A / m^2 + B / n^2 - 2 C / (m n)), where A, B and C are the sums of |g_i| |g_j| k over pairs
      of right samples, of wrong ones, and of one each; 0 where m or n is.
    - `form="w_code"`: the same with means in place of sums, which normalises twice, and the small constants of the
      code: what published results were made with.

    The slope goes through r, in the kernel too, never through c. Range [0, inf). Kumar et al. 2018; Mukhoti et al. 2020
    take w_code with strength 2, others 1 with m, 4 and more elsewhere. Couples the samples of a batch. O(N log N).
    """

    couples_samples: ClassVar[bool] = True

    strength: float = 2.0
    form: Literal["m", "w", "w_code"] = "w_code"

    def __post_init__(self) -> None:
        check_at_least_zero(self, "strength")
        if self.form not in ("m", "w", "w_code"):
            raise ValueError(f"`form` must be 'm', 'w' or 'w_code', got {self.form!r}.")

    def penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        """T []."""
        confidence, correct = top_label(logits, labels)
        gap = correct - confidence
        if self.form == "m":
            return laplacian_pair_sum(confidence, gap, nu=_NU).to(gap) / len(gap) ** 2
        right = correct.sum()
        wrong = len(gap) - right
        m, n = right.clamp(min=1), wrong.clamp(min=1)
        if self.form == "w":
            square = laplacian_pair_sum(confidence, gap / torch.where(correct > 0, m, n), nu=_NU)
        else:
            parts = [gap * correct, gap * (1 - correct), gap]
            a, b, all_ = (laplacian_pair_sum(confidence, part, nu=_NU) for part in parts)
            cross = (all_ - a - b) / 2  # -C, as gaps of wrong samples are negative
            square = a / m**2 / (m**2 + 1e-5) + b / n**2 / (n**2 + 1e-5) + 2 * cross / (m * n) / (m * n + 1e-5)
        root = (square.clamp(min=0) + 1e-10).sqrt()  # rounding can take the square below 0
        return torch.where((right > 0) & (wrong > 0), root, 0.0).to(gap)
