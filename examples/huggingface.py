"""SAM and a watch in Hugging Face's trainer. `python examples/huggingface.py`, with the extra `hf`; no download."""

from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from surefoot.integrations import SAMTrainerMixin, huggingface_callback
from surefoot.optim import SAM
from surefoot.runs.folder import RunFolder


class SAMTrainer(SAMTrainerMixin, Trainer):
    """Two passes per batch where the optimizer is SAM."""


def texts(number: int, seed: int) -> list[dict[str, torch.Tensor]]:
    """Sentences of 6 random words, whose class is that of the first word."""
    words = torch.randint(0, 30, (number, 6), generator=torch.Generator().manual_seed(seed))
    return [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": row[0] % 3} for row in words]


torch.manual_seed(0)
size = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
model = BertForSequenceClassification(BertConfig(vocab_size=30, num_labels=3, **size))
optimizer = SAM(model.parameters(), torch.optim.AdamW, rho=0.05, lr=5e-3)
folder = "runs/huggingface"
watching = huggingface_callback(folder, every=20, overwrite=True)

trainer = SAMTrainer(
    model=model,
    args=TrainingArguments(
        output_dir="runs/huggingface/trainer",
        per_device_train_batch_size=16,
        num_train_epochs=3,
        eval_strategy="epoch",
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    ),
    train_dataset=texts(320, seed=0),
    eval_dataset=texts(150, seed=1),
    optimizers=(optimizer, None),
    callbacks=[watching],
    compute_metrics=watching.compute_metrics,
)
trainer.train()

row = RunFolder(Path(folder)).rows()[0][-1]
print(f"test accuracy {row['test/accuracy']:.3f}, ECE {row['test/ece']:.4f}; surefoot report {folder}")
assert abs(trainer.evaluate()["eval_ece"] - row["test/ece"]) < 1e-6
assert row["gradients"] == 2 * 60
assert row["test/accuracy"] > 0.8
