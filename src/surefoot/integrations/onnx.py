"""Models in ONNX files, with their calibration inside."""

import contextlib
import inspect
import io
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from surefoot.eval_mode import evaluating
from surefoot.files import write_atomically


@torch.no_grad()
def write_onnx(
    model: nn.Module, inputs: Tensor | Sequence[Tensor], path: Path | str, *, tolerance: float = 1e-5
) -> float:
    """Write a model, such as a `Calibrated` one, as one ONNX file; returns how far onnxruntime is from torch at most.

    The number of samples, the first dimension of every input, is free in the file. `inputs`, at least two samples that
    are like those to come, are run through both: ValueError, and no file, where the outputs differ by more than
    `tolerance`. Steps of binned maps can differ by more where a probability lies on an edge. The model is exported as
    it predicts, in `eval` mode, and left in the mode it was in.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if not given or not all(isinstance(part, Tensor) and part.ndim >= 1 and len(part) >= 2 for part in given):
        raise ValueError("`inputs` must be a tensor, or several, of at least 2 samples each, got something else.")
    try:
        import onnxruntime
        import onnxscript  # noqa: F401, torch's exporter needs it
    except ImportError as error:
        raise ImportError(
            f"ONNX files need onnx, onnxscript and onnxruntime: pip install 'surefoot[onnx]' ({error})."
        ) from None

    with evaluating(model):
        expected = model(*given)
        if not isinstance(expected, Tensor):
            raise TypeError(
                f"`model` must return a tensor, got a {type(expected).__name__}: wrap it in `Calibrated` with `logits`."
            )
        content = _exported(model, given)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [part.name for part in session.get_inputs()]
    output = session.run(None, {name: part.cpu().numpy() for name, part in zip(names, given, strict=True)})[0]
    distance = float((torch.from_numpy(output).double() - expected.cpu().double()).abs().max())
    if not distance <= tolerance:
        raise ValueError(f"onnxruntime must agree with torch to {tolerance:g} (`tolerance`), got {distance:.3g}.")
    write_atomically(Path(path), content)
    return distance


def _exported(model: nn.Module, inputs: tuple[Tensor, ...]) -> bytes:
    samples: Any = torch.export.Dim("num_samples")
    quiet = logging.getLogger("torch.onnx")
    before = quiet.level
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):  # the exporter talks about itself
        warnings.simplefilter("ignore")
        quiet.setLevel(logging.ERROR)
        try:
            shapes = ({0: samples},) * len(inputs)
            program = torch.export.export(model, inputs, dynamic_shapes=_by_position(model, shapes))
            written = torch.onnx.export(program, dynamo=True, verbose=False)
        finally:
            quiet.setLevel(before)
    if written is None:
        raise RuntimeError("torch.onnx.export returned nothing.")
    content: bytes = written.model_proto.SerializeToString()
    return content


def _by_position(model: nn.Module, shapes: tuple[dict[int, Any], ...]) -> Any:
    """`Calibrated.forward(*inputs)` takes all inputs under one name."""
    kinds = [parameter.kind for parameter in inspect.signature(model.forward).parameters.values()]
    return (shapes,) if kinds and kinds[0] == inspect.Parameter.VAR_POSITIONAL else shapes
