"""SAM and its family in Hugging Face's trainer, which steps without a closure."""

from contextlib import nullcontext
from typing import Any

from torch import Tensor

from surefoot.optim import CSAM, SAM
from surefoot.optim.passes import gradients_kept_local
from surefoot.watch.logits import logits_of
from surefoot.watch.optimizer_tree import innermost


class SAMTrainerMixin:
    """To stand before `Trainer` among the bases of a trainer whose optimizer is of the SAM family.

    `class SAMTrainer(SAMTrainerMixin, Trainer): pass`, then `optimizers=(CSAM(model.parameters(), ...), None)`. A
    training step passes its batch twice, and the trainer's clipping, schedule and step follow. With another optimizer
    it is the trainer as it was. CSAM's loss is its own, of the model's logits and the labels; elsewhere it is the
    trainer's. Gradient accumulation and fp16 are refused, bf16 is not.
    """

    optimizer: Any
    args: Any
    accelerator: Any

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Two passes over the batch, the second at the perturbed weights; the loss of the first."""
        step: Any = super().training_step  # type: ignore[misc]
        given = innermost(self.optimizer)
        if not getattr(given, "needs_closure", False):
            plain: Tensor = step(model, inputs, num_items_in_batch)
            return plain
        optimizer = self._checked(given)
        with nullcontext() if optimizer.sync_perturbation else gradients_kept_local():
            loss: Tensor = step(model, dict(inputs), num_items_in_batch)  # a copy: the trainer may take labels out
        try:
            optimizer.perturb()
            optimizer.zero_grad()
            step(model, dict(inputs), num_items_in_batch)
        finally:
            optimizer.restore()
        return loss

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None, **options: Any
    ) -> Any:
        """The trainer's, or CSAM's while it trains."""
        optimizer = innermost(self.optimizer)
        if not (isinstance(optimizer, CSAM) and model.training):
            whole: Any = super().compute_loss  # type: ignore[misc]
            return whole(model, inputs, return_outputs, num_items_in_batch, **options)
        given = dict(inputs)
        if "labels" not in given:
            raise ValueError(f"CSAM needs `labels` in the batch, got keys {sorted(given)}.")
        labels = given.pop("labels")
        outputs = model(**given)
        loss = optimizer.loss(logits_of(outputs), labels)
        return (loss, outputs) if return_outputs else loss

    def _checked(self, optimizer: Any) -> SAM:
        name = type(optimizer).__name__
        if not isinstance(optimizer, SAM):
            raise ValueError(f"The trainer gives no closure, and {name} needs one: use SAM, ASAM, VASSO, SSAM or CSAM.")
        if self.args.gradient_accumulation_steps != 1:
            raise ValueError(
                f"`gradient_accumulation_steps` must be 1 with {name}, got {self.args.gradient_accumulation_steps}: "
                "both of its gradients are of one batch."
            )
        if getattr(self.accelerator, "scaler", None) is not None:
            raise ValueError(f"`fp16` must be off with {name}: its climb would go by scaled gradients. Use bf16.")
        return optimizer
