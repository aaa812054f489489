"""The block that transformers are made of."""

from torch import Tensor, nn
from torch.nn import functional as F


class TransformerBlock(nn.Module):
    """Attention of every token to every other, then a perceptron, each after a layer norm and beside a way past it."""

    def __init__(self, dim: int, heads: int, mlp: int) -> None:
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(dim, eps=1e-6), _Attention(dim, heads))
        self.think = nn.Sequential(nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, mlp), nn.GELU(), nn.Linear(mlp, dim))

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens [N, T, D] of tokens [N, T, D]."""
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


def start_small(model: nn.Module) -> None:
    """Draw the weights of linear and patch layers from a normal of deviation 0.02 cut at 0.04, and set biases to 0."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
