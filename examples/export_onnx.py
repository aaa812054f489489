"""Ship a network with its calibration inside: one ONNX file, checked against torch. Needs surefoot[onnx]."""

import onnxruntime
import torch

from surefoot.data import digits
from surefoot.integrations.calibrated import Calibrated
from surefoot.integrations.onnx import write_onnx
from surefoot.metrics import ece
from surefoot.models import CNN
from surefoot.posthoc import SVS
from surefoot.predictions import Predictions

torch.manual_seed(0)
data = digits(num_train=1000, num_validation=300, noisy_labels=0.2, images=True)
assert data.validation is not None
model = CNN(input_shape=data.input_shape, num_classes=data.num_classes, widths=(8, 16, 32))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(150):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(data.train.inputs), data.train.labels).backward()
    optimizer.step()
model.eval()

with torch.no_grad():
    validation = Predictions(model(data.validation.inputs), data.validation.labels)
    test = Predictions(model(data.test.inputs), data.test.labels)
calibrated = Calibrated(model, SVS.fit(validation))
distance = write_onnx(calibrated, data.validation.inputs[:50], "digits.onnx")
print(f"digits.onnx: onnxruntime is at most {distance:.1e} from torch")

session = onnxruntime.InferenceSession("digits.onnx", providers=["CPUExecutionProvider"])
(logits,) = session.run(None, {session.get_inputs()[0].name: data.test.inputs.numpy()})
shipped = Predictions(torch.from_numpy(logits), data.test.labels)
print(f"ECE on {test.num_samples} test images: {ece(test):.3f} as trained, {ece(shipped):.3f} from the file")

assert distance <= 1e-5
assert ece(shipped) < 0.7 * ece(test)
torch.testing.assert_close(shipped.logits, calibrated(data.test.inputs).detach(), rtol=0, atol=1e-4)
