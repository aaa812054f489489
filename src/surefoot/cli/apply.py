"""`surefoot apply`: a saved post-hoc map on a file of predictions."""

import io
from dataclasses import dataclass
from pathlib import Path

import tyro

from surefoot.cli._terminal import print_json
from surefoot.cli.evaluate import check_writable
from surefoot.cli.request import request


@dataclass
class ApplyCommand:
    """Apply a map that `surefoot calibrate --save` wrote to the logits or probabilities in a file.

    Writes an npz file with the array logits (log-probabilities up to a constant), and labels if the file has them.

    Example: surefoot apply map.safetensors test.npz --out calibrated.npz
    """

    map: tyro.conf.Positional[Path]
    """The saved map."""
    file: tyro.conf.Positional[Path]
    """The predictions; labels are not needed."""
    logits: str | None = None
    """Name of the logits (before softmax), [N, K]."""
    probs: str | None = None
    """Name of the probabilities, [N, K], if there are no logits."""
    labels: str | None = None
    """Name of the labels to carry over."""
    out: Path | None = None
    """Where to write; FILE with the ending .calibrated.npz if not given."""
    json: bool = False
    """Print what was done as JSON."""

    def __call__(self) -> int:
        with request():
            import numpy as np
            import torch

            from surefoot.files import write_atomically
            from surefoot.io import read_labels, read_scores
            from surefoot.posthoc import load

            fitted = load(self.map)
            scores = read_scores(self.file, logits=self.logits, probabilities=self.probs)
            labels = read_labels(self.file, self.labels)
            if labels is not None and labels.shape != (scores.num_samples,):
                raise ValueError(f"{self.file}: {scores.num_samples} rows of logits but labels {list(labels.shape)}.")
            readable = scores.floored_logits()
            logits = fitted(readable.float() if readable.dtype == torch.bfloat16 else readable)
            arrays = {"logits": logits.numpy()}
            if labels is not None:
                arrays["labels"] = labels.numpy()
            out = self.out or self.file.with_suffix(".calibrated.npz")
            check_writable(out)
            if out.suffix != ".npz":
                raise ValueError(f"`--out` must end in .npz, got {out}.")
            content = io.BytesIO()
            np.savez(content, **arrays)  # type: ignore[arg-type]
            write_atomically(out, content.getvalue())
        about = fitted.fitted
        if self.json:
            print_json({"out": str(out), "n": len(logits), "num_classes": logits.shape[1], "fitted_on": about.source})
        else:
            source = f" of {about.source}" if about.source else ""
            state = "" if about.converged else ", not converged"
            print(f"{out}: {len(logits):,} samples, map fitted on {about.num_samples:,} samples{source}{state}")
        return 0
