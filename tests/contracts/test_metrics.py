"""What every record in the table of metrics promises."""

import inspect
import subprocess
import sys

import pytest
import torch

import surefoot.metrics
import surefoot.metrics._intervals
from references import slow
from surefoot.metric import METRICS, METRICS_OF_MORE, metric_of
from surefoot.metrics._intervals import Interval, IntervalOptions
from surefoot.predictions import Predictions

ALL = pytest.mark.parametrize("name", METRICS)
EVERY = {**METRICS, **METRICS_OF_MORE}


@ALL
def test_function_and_interval_measure_the_same(name: str) -> None:
    record, predictions = METRICS[name], Predictions(*slow.random_case(3, n=200))
    value = record(predictions)
    assert value.dtype == torch.float64
    assert value.ndim == 0
    if record.interval_implementation is not None:
        limits = record.interval_implementation(predictions, IntervalOptions())
        assert isinstance(limits, Interval)
        assert limits.value == pytest.approx(float(value), rel=1e-9)


@pytest.mark.parametrize("name", EVERY)
def test_names_agree_and_people_can_read_them(name: str) -> None:
    record = EVERY[name]
    assert record.name == name
    assert record.implementation.__name__ == ("tce" if name == "ece_temperature" else name)
    if inspect.isfunction(record.interval_implementation):
        assert record.interval_implementation.__name__ in (f"{name}_interval", "interval")
    assert record.label
    assert record.meaning
    assert not record.meaning.endswith(".")
    assert "\n" not in record.meaning


def test_no_name_stands_twice_and_labels_tell_metrics_apart() -> None:
    assert not METRICS.keys() & METRICS_OF_MORE.keys()
    assert len({record.label for record in EVERY.values()}) == len(EVERY)


def test_functions_and_intervals_are_those_that_the_packages_export() -> None:
    for name, record in METRICS.items():
        if name in surefoot.metrics.__all__:
            assert record.implementation is getattr(surefoot.metrics, name)
            if record.interval_implementation is not None:
                assert record.interval_implementation is getattr(surefoot.metrics._intervals, f"{name}_interval")


def test_keys_of_rows_have_the_record_of_their_metric() -> None:
    assert metric_of("test/confidence") is METRICS["mean_confidence"]
    assert metric_of("motion_blur-3/ece") is METRICS["ece"]
    assert metric_of("test/auroc_ood") is METRICS_OF_MORE["auroc_ood"]
    assert metric_of("train/ggn_sharpness") is None


def test_direction_and_label_are_read_without_torch() -> None:
    code = (
        "import sys; from surefoot.metric import METRICS, metric_of\n"
        "assert not METRICS['ece'].higher_is_better and metric_of('test/nll').label == 'NLL'\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
