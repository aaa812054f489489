"""Vision transformer."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.models.images import check_images


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
        self.blocks = nn.Sequential(*(_Block(dim, heads, mlp) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.trunc_normal_(self.positions, std=0.02, a=-0.04, b=0.04)
        nn.init.trunc_normal_(self.token, std=0.02, a=-0.04, b=0.04)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [N, K] of images [N, C, H, W]."""
        patches = self.patches(inputs).flatten(2).transpose(1, 2)  # [N, T, D]
        tokens = torch.cat([self.token.expand(len(patches), -1, -1), patches], dim=1) + self.positions
        logits: Tensor = self.head(self.norm(self.blocks(tokens)[:, 0]))
        return logits


class _Block(nn.Module):
    def __init__(self, dim: int, heads: int, mlp: int) -> None:
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(dim, eps=1e-6), _Attention(dim, heads))
        self.think = nn.Sequential(nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, mlp), nn.GELU(), nn.Linear(mlp, dim))

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attend(tokens)
        total: Tensor = tokens + self.think(tokens)
        return total


class _Attention(nn.Module):
    # of two plain linear layers, not torch's fused module: ensembles replace linear layers by their own
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.into = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = self.into(tokens).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # [N, h, T, d]
        mixed = F.scaled_dot_product_attention(query, key, value)
        total: Tensor = self.out(mixed.transpose(1, 2).flatten(2))  # [N, T, D]
        return total
