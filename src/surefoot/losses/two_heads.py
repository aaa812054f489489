"""A classifier with a learnt and a fixed head."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class TwoHeads(nn.Module):
    r"""A network with, beside its own last layer, an adaptor to a simplex that does not move: the model of BalCAL.

    The features of `network`, which end in a linear layer, go to that layer and, through a residual adaptor, scaled to
    length 1, to the K corners M = sqrt(K / (K - 1)) P (I - 1 1^T / K), P with orthonormal columns drawn from `seed`:
    unit vectors with cosine -1 / (K - 1) to each other. Logits are share x learnt + (1 - share) x fixed; the share is
    a buffer that training moves. Needs at least as many features as classes. The adaptor has layer norm where the
    authors' convolutional one has batch norm, because it acts on features.
    """

    def __init__(self, network: nn.Module, *, share: float = 0.8, seed: int = 0) -> None:
        super().__init__()
        if not 0 <= share <= 1:
            raise ValueError(f"`share` must lie in [0, 1], got {share}.")
        linear = {name: module for name, module in network.named_modules() if isinstance(module, nn.Linear)}
        if not linear or isinstance(network, nn.Linear):
            raise ValueError(f"`network` must end in a linear layer after others, got {type(network).__name__}.")
        name, self.learnt = list(linear.items())[-1]
        network.set_submodule(name, nn.Identity())
        self.trunk = network
        num_features, num_classes = self.learnt.in_features, self.learnt.out_features
        if num_features < num_classes:
            raise ValueError(
                f"`network` must have at least as many features as classes, got {num_features} for {num_classes}."
            )
        half = max(1, num_features // 2)
        self.adaptor = nn.Sequential(
            nn.LayerNorm(num_features), nn.ReLU(), nn.Linear(num_features, half),
            nn.LayerNorm(half), nn.ReLU(), nn.Linear(half, num_features),
        )  # fmt: skip
        self.norm = nn.LayerNorm(num_features)
        self.register_buffer("corners", simplex(num_features, num_classes, seed=seed))
        self.register_buffer("share", torch.tensor(float(share), device="cpu"))
        self.corners: Tensor
        self.share: Tensor

    def forward(self, inputs: Tensor, *, apart: bool = False) -> Tensor:
        """Logits [N, K]; with `apart` those of the learnt and of the fixed head, [2, N, K]."""
        features: Tensor = self.trunk(inputs)
        adapted = F.normalize(F.relu(self.norm(features + self.adaptor(features))), dim=1)
        learnt: Tensor = self.learnt(features)
        fixed = adapted @ self.corners.to(adapted)
        if apart:
            return torch.stack([learnt, fixed])
        share = self.share.to(learnt)
        return share * learnt + (1 - share) * fixed


def simplex(num_features: int, num_classes: int, *, seed: int = 0) -> Tensor:
    """The corners [num_features, num_classes] of a regular simplex around 0, in a random orientation."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(num_features, num_classes, generator=generator, dtype=torch.float64, device="cpu")
    basis: Tensor = torch.linalg.qr(drawn).Q
    centred: Tensor = basis - basis.mean(dim=1, keepdim=True)
    return centred.mul((num_classes / (num_classes - 1)) ** 0.5).float()
