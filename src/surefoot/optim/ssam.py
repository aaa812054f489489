"""Stable SAM."""

import torch

from surefoot.optim.sam import SAM, TINY, total_norm


class SSAM(SAM):
    r"""SAM whose gradient is scaled back to the length it had before the climb, by ||g|| / ||g~||. Tan et al. 2024.

    Without this SAM's steps grow with the curvature uphill, and fewer learning rates are stable. Two gradients per
    step. Not the sparse SAM that shares the abbreviation.
    """

    @torch.no_grad()
    def _arrive(self) -> None:
        """Before anything else happens to the gradients: clipping and a scaler act on the scaled ones."""
        gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        if gradients:
            torch._foreach_mul_(gradients, self._norm / (total_norm([gradients]) + TINY))
