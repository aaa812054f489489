"""A plain training loop and the four lines that watch it. `python examples/plain_pytorch.py`."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from surefoot.data import digits
from surefoot.metrics import accuracy, ece
from surefoot.predictions import Predictions
from surefoot.watch import Watch

torch.manual_seed(0)
data = digits(num_train=1200)
train = DataLoader(TensorDataset(data.train.inputs, data.train.labels), batch_size=50, shuffle=True)
test = DataLoader(TensorDataset(data.test.inputs, data.test.labels), batch_size=200)

model = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
loss = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
folder = "runs/plain_pytorch"

with Watch(model, loss, optimizer=optimizer, folder=folder, every=24, overwrite=True) as watch:  # 1
    for _ in range(5):
        for inputs, labels in train:
            optimizer.zero_grad()
            loss(model(inputs), labels).backward()
            optimizer.step()
            watch.step((inputs, labels))  # 2
        watch.evaluate(test)  # 3
    row = watch.evaluate(test)  # 4: the last row is what the page ends with

print(f"test accuracy {row['test/accuracy']:.3f}, ECE {row['test/ece']:.4f}; surefoot report {folder}")

with torch.no_grad():
    said = Predictions(model.eval()(data.test.inputs), data.test.labels)
assert abs(row["test/ece"] - float(ece(said))) < 1e-6
assert row["test/accuracy"] == float(accuracy(said)) > 0.9
