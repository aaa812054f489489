"""Calibrated SAM and a watch in Lightning. `python examples/lightning_loop.py`, with the extra `lightning`."""

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from surefoot.data import digits
from surefoot.integrations import lightning_callback
from surefoot.metrics import ece
from surefoot.optim import CSAM
from surefoot.predictions import Predictions


class Classifier(pl.LightningModule):
    """A small network, trained by CSAM in automatic optimization."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))

    def forward(self, inputs):
        return self.net(inputs)

    def training_step(self, batch, batch_idx):
        inputs, labels = batch
        return self.optimizer.loss(self(inputs), labels)  # CSAM's own: it knows the pass that it is in

    def validation_step(self, batch, batch_idx):
        inputs, labels = batch
        return {"logits": self(inputs), "labels": labels}  # seen by the callback without another pass

    def configure_optimizers(self):
        self.optimizer = CSAM(self.parameters(), torch.optim.SGD, rho=0.05, gamma=1.0, lr=0.1, momentum=0.9)
        return self.optimizer


torch.manual_seed(0)
data = digits(num_train=1200)
train = DataLoader(TensorDataset(data.train.inputs, data.train.labels), batch_size=50, shuffle=True)
test = DataLoader(TensorDataset(data.test.inputs, data.test.labels), batch_size=200)

folder = "runs/lightning_loop"
watching = lightning_callback(folder, every=24, overwrite=True)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = pl.Trainer(max_epochs=5, accelerator="cpu", callbacks=[watching], **quiet)
model = Classifier()
trainer.fit(model, train, test)

found = float(trainer.callback_metrics["test/ece"])
print(f"test ECE {found:.4f} after {trainer.global_step} steps of CSAM; surefoot report {folder}")

with torch.no_grad():
    said = Predictions(model.eval()(data.test.inputs), data.test.labels)
assert abs(found - float(ece(said))) < 1e-5
assert trainer.global_step == 5 * 24
