"""A small transformer that says which character comes next."""

import torch
from torch import Tensor, nn

from surefoot.models._transformer_block import TransformerBlock, start_small


class TextTransformer(nn.Module):
    """Characters and their places through pre-norm blocks; the head on the last one says what follows.

    Inputs are whole numbers below `num_classes`: what follows is from the same alphabet. Only the last place is read,
    so that each window is one sample; blocks may therefore look both ways.

    >>> model = TextTransformer(input_shape=(16,), num_classes=96)
    >>> model(torch.zeros(2, 16, dtype=torch.int64)).shape
    torch.Size([2, 96])
    """

    def __init__(
        self,
        *,
        input_shape: tuple[int, ...],
        num_classes: int,
        dim: int = 32,
        depth: int = 2,
        heads: int = 4,
        mlp: int = 64,
    ) -> None:
        super().__init__()
        if len(input_shape) != 1:
            raise ValueError(f"`input_shape` must be a number of characters, got {list(input_shape)}.")
        for name, value in (("depth", depth), ("heads", heads), ("mlp", mlp)):
            if value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}.")
        if dim < 1 or dim % heads:
            raise ValueError(f"`dim` must be a multiple of the {heads} heads, got {dim}.")
        self.embedding = nn.Embedding(num_classes, dim)
        self.positions = nn.Parameter(torch.zeros(1, input_shape[0], dim))
        self.blocks = nn.Sequential(*(TransformerBlock(dim, heads, mlp) for _ in range(depth)))
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, num_classes)
        start_small(self)
        for p in (self.embedding.weight, self.positions):
            nn.init.trunc_normal_(p, std=0.02, a=-0.04, b=0.04)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [N, K] of characters [N, T]."""
        logits: Tensor = self.head(self.norm(self.blocks(self.embedding(inputs) + self.positions)[:, -1]))
        return logits
