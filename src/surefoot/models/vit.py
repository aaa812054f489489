"""Vision transformer."""

import torch
from torch import Tensor, nn

from surefoot.models._images import check_images
from surefoot.models._transformer_block import TransformerBlock, start_small


class ViT(nn.Module):
    """Patches and a class token through pre-norm transformer blocks, the head on the class token.

    Dosovitskiy et al. 2021. The defaults are ViT-S with patches of 4 x 4, for small images; ImageNet takes 16 or 32.
    Positions are learnt, one per patch, so inputs must have the size that the model was built for. Weights and
    positions start as normal numbers of deviation 0.02 cut at 0.04, biases at 0.

    >>> tiny = ViT(input_shape=(3, 32, 32), num_classes=10, patch=8, dim=32, depth=2, heads=4, mlp=64)
    >>> sum(p.numel() for p in tiny.parameters())
    24234
    """

    def __init__(
        self,
        *,
        input_shape: tuple[int, ...],
        num_classes: int,
        patch: int = 4,
        dim: int = 384,
        depth: int = 12,
        heads: int = 6,
        mlp: int = 1536,
    ) -> None:
        super().__init__()
        check_images(input_shape)
        for name, value in (("patch", patch), ("depth", depth), ("heads", heads), ("mlp", mlp)):
            if value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}.")
        if dim < 1 or dim % heads:
            raise ValueError(f"`dim` must be a multiple of the {heads} heads, got {dim}.")
        channels, height, width = input_shape
        if height % patch or width % patch:
            raise ValueError(f"`patch` must divide the image of {height} x {width}, got {patch}.")
        self.patches = nn.Conv2d(channels, dim, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.positions = nn.Parameter(torch.zeros(1, 1 + (height // patch) * (width // patch), dim))
        self.blocks = nn.Sequential(*(TransformerBlock(dim, heads, mlp) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, num_classes)
        start_small(self)
        for p in (self.positions, self.token):
            nn.init.trunc_normal_(p, std=0.02, a=-0.04, b=0.04)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [N, K] of images [N, C, H, W]."""
        patches = self.patches(inputs).flatten(2).transpose(1, 2)  # [N, T, D]
        tokens = torch.cat([self.token.expand(len(patches), -1, -1), patches], dim=1) + self.positions
        logits: Tensor = self.head(self.norm(self.blocks(tokens)[:, 0]))
        return logits
