"""Stable SAM."""

import torch

from surefoot.optim.sam import SAM, TINY, Group, total_norm


class SSAM(SAM):
    r"""SAM whose gradient is scaled back to the length it had before the climb, by ||g|| / ||g~||. Tan et al. 2024.

    Without this SAM's steps grow with the curvature uphill, and fewer learning rates are stable. Two gradients per
    step. Not the sparse SAM that shares the abbreviation.
    """

    def _climb(self, groups: list[Group], grad_scale: float) -> None:
        super()._climb(groups, grad_scale)
        self._norm /= grad_scale

    @torch.no_grad()
    def _descend(self) -> None:
        gradients = [gradients for _, _, gradients in self._with_gradients()]
        ratio = self._norm / (total_norm(gradients) + TINY)
        for group in gradients:
            torch._foreach_mul_(group, ratio)
        super()._descend()
