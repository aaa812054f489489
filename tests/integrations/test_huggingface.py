"""Hugging Face's trainer as it is, with a tiny text classifier of random weights."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import transformers

from surefoot.integrations import SAMTrainerMixin, Watch, calibration_metrics, huggingface_callback
from surefoot.metrics import ece
from surefoot.optim import BSAM, CSAM, SAM
from surefoot.predictions import Predictions
from surefoot.runs.folder import RunFolder

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def network(**options: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
        num_labels=3,
        **options,
    )
    return transformers.BertForSequenceClassification(config)


def texts(number: int, *, seed: int) -> list[dict[str, Tensor]]:
    random = np.random.default_rng(seed)
    ids = random.integers(1, 20, (number, 8))
    return [
        {
            "input_ids": torch.tensor(row),
            "attention_mask": torch.ones(8, dtype=torch.long),
            "labels": torch.tensor(int(row.sum() % 3)),
        }
        for row in ids
    ]


TRAIN, TEST = texts(48, seed=0), texts(30, seed=1)


class SAMTrainer(SAMTrainerMixin, transformers.Trainer):
    """With the mixin before it."""


def trainer(model: Any, folder: Path, *, kind: Any = transformers.Trainer, **options: Any) -> Any:
    names = ("callbacks", "compute_metrics", "optimizers", "eval_dataset")
    given = {name: options.pop(name) for name in names if name in options}
    arguments = {"per_device_train_batch_size": 8, "num_train_epochs": 1, "max_grad_norm": 0, "save_strategy": "no"}
    arguments |= {"report_to": "none", "use_cpu": True, "disable_tqdm": True, "lr_scheduler_type": "constant"}
    settings = transformers.TrainingArguments(output_dir=str(folder), **{**arguments, **options})
    made = kind(model=model, args=settings, train_dataset=TRAIN, **{"eval_dataset": TEST, **given})
    made.remove_callback(transformers.PrinterCallback)
    return made


def said(model: Any, samples: list[dict[str, Tensor]]) -> Predictions:
    batch = {key: torch.stack([sample[key] for sample in samples]) for key in samples[0]}
    labels = batch.pop("labels")
    with torch.no_grad():
        return Predictions(model.eval()(**batch).logits, labels)


def same(one: nn.Module, other: nn.Module) -> bool:
    others = other.state_dict()
    return all(torch.equal(value, others[name]) for name, value in one.state_dict().items())


def test_the_trainer_under_a_watch_gives_the_same_bits_and_the_right_numbers(tmp_path: Path) -> None:
    alone, watched = network(), network()
    callback = huggingface_callback(tmp_path / "run", every=2, num_train=20, observers=("calibration", "curvature"))
    options = {"eval_strategy": "steps", "eval_steps": 3}
    trainer(alone, tmp_path, compute_metrics=calibration_metrics(), **options).train()
    made = trainer(watched, tmp_path, callbacks=[callback], compute_metrics=callback.compute_metrics, **options)
    made.train()
    assert same(alone, watched)
    run = RunFolder(tmp_path / "run")
    rows, _ = run.rows()
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 6]
    assert run.ended
    assert run.spec.budget == 6
    assert rows[-1]["test/ece"] == pytest.approx(float(ece(said(watched, TEST))), rel=1e-5)
    assert rows[-1]["train/ece"] == pytest.approx(float(ece(said(watched, TRAIN[:20]))), rel=1e-5)
    assert all("train/ggn_sharpness" in row for row in rows if row["step"] != 3)
    assert made.evaluate()["eval_ece"] == pytest.approx(rows[-1]["test/ece"])  # after training: seen by nobody
    assert len(run.rows()[0]) == 5


def test_several_evaluation_sets_keep_their_names(tmp_path: Path) -> None:
    callback = huggingface_callback(tmp_path / "run", every=99)
    sets = {"own": TEST, "other_domain": TRAIN[:10]}
    options = {"callbacks": [callback], "compute_metrics": callback.compute_metrics, "eval_dataset": sets}
    trainer(network(), tmp_path, eval_strategy="epoch", **options).train()
    row = RunFolder(tmp_path / "run").rows()[0][-1]
    assert row["own/nll"] != row["other_domain/nll"]


def test_training_that_resumes_goes_on_with_the_rows(tmp_path: Path) -> None:
    def made(name: str) -> Any:
        callback = huggingface_callback(tmp_path / f"run-{name}", every=2, observers=("calibration", "curvature"))
        saving = {"save_strategy": "steps", "save_steps": 3}
        return trainer(network(), tmp_path / name, callbacks=[callback], eval_dataset=None, **saving)

    whole = made("whole")
    whole.train()
    rows = (tmp_path / "run-whole" / "metrics.jsonl").read_text()
    made("whole").train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-3"))
    again = (tmp_path / "run-whole" / "metrics.jsonl").read_text()
    assert again == rows
    assert len(rows.splitlines()) == 4


@pytest.mark.parametrize("kind", [SAM, CSAM])
@pytest.mark.parametrize("bf16", [False, True])
def test_the_mixin_steps_as_the_plain_loop_does(tmp_path: Path, kind: Any, bf16: bool) -> None:
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model, plain = network(**still), network(**still)
    optimizer = kind(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.1, momentum=0.9)
    made = trainer(model, tmp_path, kind=SAMTrainer, optimizers=(optimizer, None), bf16=bf16)
    order: list[Any] = []
    step = made.training_step
    made.training_step = lambda model, inputs, *rest: order.append(dict(inputs)) or step(model, inputs, *rest)
    made.train()
    assert len(order) == 6
    other = kind(plain.parameters(), torch.optim.SGD, rho=0.05, lr=0.1, momentum=0.9)
    plain.train()
    for batch in order:

        def closure(batch: dict[str, Tensor] = batch) -> Tensor:
            given = dict(batch)
            labels = given.pop("labels")
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
                logits = plain(**given).logits.float()
                loss = other.loss(logits, labels) if kind is CSAM else nn.functional.cross_entropy(logits, labels)
            loss.backward()
            return loss

        other.step(closure)
    for (name, found), wanted in zip(model.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=2e-3 if bf16 else 0, msg=name)


def test_the_mixin_leaves_other_optimizers_alone(tmp_path: Path) -> None:
    one, other = network(), network()
    trainer(one, tmp_path).train()
    trainer(other, tmp_path, kind=SAMTrainer).train()
    assert same(one, other)


def test_what_would_go_wrong_is_refused(tmp_path: Path) -> None:
    model = network()
    sam, bsam = SAM(model.parameters(), lr=0.1), BSAM(model.parameters(), num_samples=48, lr=0.1)
    with pytest.raises(ValueError, match="`gradient_accumulation_steps` must be 1 with SAM, got 2"):
        trainer(model, tmp_path, kind=SAMTrainer, optimizers=(sam, None), gradient_accumulation_steps=2).train()
    with pytest.raises(ValueError, match="BSAM needs one"):
        trainer(model, tmp_path, kind=SAMTrainer, optimizers=(bsam, None)).train()
    callback = huggingface_callback(tmp_path / "run")
    multiple = network(problem_type="multi_label_classification")
    with pytest.raises(ValueError, match="multi-label targets"):
        trainer(multiple, tmp_path, callbacks=[callback]).train()
    with pytest.raises(ValueError, match="multi-label"):
        calibration_metrics()((np.eye(3), np.eye(3)))
    with pytest.raises(ValueError, match="`num_train` must be at least 1"):
        huggingface_callback(tmp_path, num_train=0)


def test_prediction_needs_no_labels_and_says_so_if_asked_for_calibration(tmp_path: Path) -> None:
    callback = huggingface_callback(tmp_path / "run")
    made = trainer(network(), tmp_path, callbacks=[callback], compute_metrics=callback.compute_metrics)
    bare = [{key: value for key, value in sample.items() if key != "labels"} for sample in TEST]
    found = made.predict(bare)
    assert found.predictions.shape == (30, 3)
    with pytest.raises(ValueError, match="`compute_metrics` needs labels"):
        callback.compute_metrics(transformers.EvalPrediction(found.predictions, None))
    with pytest.raises(ValueError, match="no labels among its keys"):
        Watch(network(), folder=tmp_path).evaluate([{"input_ids": TEST[0]["input_ids"][None]}])


def test_a_forgotten_compute_metrics_is_said(tmp_path: Path) -> None:
    made = trainer(network(), tmp_path, callbacks=[huggingface_callback(tmp_path / "run")], eval_strategy="epoch")
    with pytest.warns(RuntimeWarning, match="compute_metrics=callback.compute_metrics"):
        made.train()


def test_gradient_checkpointing_on(tmp_path: Path) -> None:
    alone, watched = network(), network()
    callback = huggingface_callback(tmp_path / "run", every=2, observers=("calibration", "curvature"))
    trainer(alone, tmp_path, gradient_checkpointing=True).train()
    trainer(watched, tmp_path, gradient_checkpointing=True, callbacks=[callback]).train()
    assert same(alone, watched)
    assert RunFolder(tmp_path / "run").rows()[0][-1]["train/ggn_sharpness"] is not None


def test_outputs_and_batches_of_these_models_need_no_help_in_a_plain_loop(tmp_path: Path) -> None:
    model = network()
    batch = {key: torch.stack([sample[key] for sample in TEST]) for key in TEST[0]}
    row = Watch(model, folder=tmp_path, observers=("calibration", "curvature")).step(batch)
    assert row is not None
    assert row["train/ece"] == pytest.approx(float(ece(said(model, TEST))), rel=1e-6)


SCRIPT = """
import sys, torch
from accelerate import Accelerator
from surefoot.integrations import Watch
from surefoot.optim import SAM

torch.set_num_threads(1)
accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
model = torch.nn.Linear(4, 3).double()
generator = torch.Generator().manual_seed(1)
inputs = torch.randn(16, 4, generator=generator, dtype=torch.float64)
labels = torch.randint(0, 3, (16,), generator=generator)
data = torch.utils.data.TensorDataset(inputs, labels)
loader = torch.utils.data.DataLoader(data, batch_size=8 // accelerator.num_processes)
optimizer = SAM(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.5)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
with Watch(model, folder=sys.argv[1], optimizer=optimizer, every=1, observers=("calibration", "margins")) as watch:
    for batch in loader:
        def closure():
            loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
            accelerator.backward(loss)
            return loss
        optimizer.step(closure)
        watch.step(batch)
    watch.evaluate(loader)
    assert accelerator.num_processes == int(sys.argv[2])
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()  # its threads must not outlive the interpreter
"""


@pytest.mark.slow
def test_accelerate_under_torchrun_writes_the_rows_of_one_process(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(SCRIPT)
    source = Path(sys.modules["surefoot"].__file__ or "").parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    rows = []
    for number in (1, 2):
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={number}"]
        command = [*run, str(tmp_path / "loop.py"), str(tmp_path / str(number)), str(number)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
        rows.append(RunFolder(tmp_path / str(number)).rows()[0])
    assert [row["gradients"] for row in rows[1]] == [2, 4]
    for one, two in zip(*rows, strict=True):
        assert one == pytest.approx(two, rel=1e-9)
    assert "test/ece" in rows[1][-1]
