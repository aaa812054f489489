"""Robust margins of some samples from both sides, as far as the network allows."""

from dataclasses import dataclass

from torch import Tensor, nn

from surefoot.attack import Norm, worst_shift
from surefoot.eval_mode import refuse_training
from surefoot.theory._chain import NoSoundBound
from surefoot.theory._exact_predictions import exact_predictions
from surefoot.theory._margin_tail import log_mean_exp
from surefoot.theory.lipschitz import margin_lipschitz, robust_margin_floor


@dataclass(frozen=True, eq=False)
class RobustMargins:
    """The true margin's infimum within `radius` of each input lies between `floor` and `attacked`."""

    radius: float
    norm: Norm
    attacked: Tensor  # [N], what an attack has left of it
    floor: Tensor | None  # [N], proved; None where no sound bound is known for the network
    lipschitz: Tensor | None  # [N], how fast a margin changes with the input, at most; None likewise
    why_not: str  # which layer, where there is no floor

    @property
    def log_moments(self) -> dict[str, float]:
        """Logs of Q0 = mean exp(-m_eps), by the attack and by the floor, and of Q- and Q+ where L is known."""
        moments = {"Q0 attacked": float(log_mean_exp(-self.attacked))}
        if self.floor is not None:
            moments["Q0 proved"] = float(log_mean_exp(-self.floor))
        if self.lipschitz is not None:
            reach = self.radius * self.lipschitz
            moments["Q-"] = float(log_mean_exp(-self.attacked - reach))
            moments["Q+"] = float(log_mean_exp(-self.attacked + reach))
        return moments


def robust_margins(
    model: nn.Module, inputs: Tensor, labels: Tensor, *, radius: float, norm: Norm = "l2", num_steps: int = 20
) -> RobustMargins:
    """Attack every sample, and prove what can be proved from the weights.

    The attack goes by the model's own arithmetic; margins at its end are those in float64.

    >>> import torch
    >>> model = nn.Linear(2, 2, bias=False)
    >>> _ = model.weight.data.copy_(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    >>> margins = robust_margins(model, torch.tensor([[1.0, 1.0]]), torch.tensor([0]), radius=0.5)
    >>> round(margins.attacked.item(), 3), round(margins.floor.item(), 3)  # exact for a linear model: 7 - 0.5 * 5
    (4.5, 4.5)
    """
    refuse_training(model)
    shifted = worst_shift(model, inputs, labels, radius=radius, norm=norm, num_steps=num_steps).inputs
    shifted_margins, clean_margins = (exact_predictions(model, points, labels).margin for points in (shifted, inputs))
    attacked = shifted_margins.minimum(clean_margins)  # no shift is a candidate
    try:
        floor = robust_margin_floor(model, inputs, labels, radius=radius, norm=norm)
        lipschitz = margin_lipschitz(model, labels, norm=norm)
    except NoSoundBound as reason:
        return RobustMargins(radius, norm, attacked, None, None, str(reason))
    return RobustMargins(radius, norm, attacked, floor, lipschitz, "")
