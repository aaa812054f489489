"""Repair the confidence of a classifier that is already trained, from its logits alone.

The logits here are those of a network trained for long on digits of which every fifth has a wrong label: it learns them
by heart, and is far too sure. A map fitted on validation samples mends what it says of test samples.
"""

import torch

from surefoot.data import digits
from surefoot.metrics import accuracy, ece, ece_test, interval
from surefoot.models import MLP
from surefoot.posthoc import Temperature, load
from surefoot.predictions import Predictions

torch.manual_seed(0)
data = digits(num_train=1000, num_validation=300, noisy_labels=0.2)
assert data.validation is not None
model = MLP(input_shape=data.input_shape, num_classes=data.num_classes)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(300):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(data.train.inputs), data.train.labels).backward()
    optimizer.step()

with torch.no_grad():
    validation = Predictions(model(data.validation.inputs), data.validation.labels)
    test = Predictions(model(data.test.inputs), data.test.labels)

fitted = Temperature.fit(validation)
fitted.save("temperature.safetensors")
repaired = Predictions(load("temperature.safetensors")(test.logits), test.labels)

print(f"before: ECE {interval('ece', test)}, accuracy {accuracy(test):.3f}, n = {test.num_samples}")
print(f"after:  ECE {interval('ece', repaired)}, accuracy {accuracy(repaired):.3f}, T = {fitted.temperature:.2f}")
print(f"could the rest be chance? p = {ece_test(repaired).p_value:.3f}, before {ece_test(test).p_value:.3f}")

assert fitted.fitted.converged
assert fitted.temperature > 2
assert ece(repaired) < ece(test) / 2
assert accuracy(repaired) == accuracy(test)  # dividing all logits changes no prediction
