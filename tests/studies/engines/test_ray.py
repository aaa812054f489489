"""Ray's engine on nodes that its cluster utilities simulate on this machine."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surefoot.report.study import all_tables
from surefoot.studies.engines import make_engine
from surefoot.studies.engines.cluster import ClusterEngine
from surefoot.studies.engines.engine import Event
from surefoot.studies.engines.local import LocalEngine
from surefoot.studies.engines.ray import RayBackend
from surefoot.studies.folder import StudyFolder
from surefoot.studies.run import missing, run_study
from surefoot.studies.study import read_study
from surefoot.studies.study_outcome import study_outcome

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # Ray's own warnings

STUDY = """
title = "Why?"
analysis = "surefoot_papers.too_sharp.coupling"
[scales.digits]
about = "Small."
seeds = [0]
[scales.digits.run]
budget = 600
data = { name = "digits", num_train = 100, noisy_labels = 0.3 }
model = { name = "mlp", widths = [8] }
schedule = { every = 50, per_decade = 4 }
[[scales.digits.grid]]
optimizer = { name = "gd", lr = [0.25, 0.5] }
[[scales.digits.grid]]
optimizer = { name = "adamw", lr = 0.01 }
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head node of one core."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    made.one_more = lambda: made.add_node(**node)
    yield made
    ray.shutdown()
    made.shutdown()


def strike(cluster: Any, node: Any, study: Path) -> threading.Thread:
    """Kill that node once two runs of the study have rows."""

    def watch() -> None:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            begun = [path for path in study.rglob("metrics.jsonl") if path.stat().st_size]
            if len(begun) == 2:
                cluster.remove_node(node, allow_graceful=False)
                return
            time.sleep(0.01)

    striker = threading.Thread(target=watch, daemon=True)
    striker.start()
    return striker


def test_a_study_on_two_nodes_of_which_one_dies_has_the_table_of_a_local_one(tmp_path: Path, cluster: Any) -> None:
    (tmp_path / "why.toml").write_text(STUDY)
    study = read_study(str(tmp_path / "why.toml"))
    second = cluster.one_more()
    far = tmp_path / "ray"
    events: list[Event] = []
    striker = strike(cluster, second, far)
    engine = ClusterEngine(RayBackend(cluster.address))
    ended = run_study(study, far, missing(study, far), engine=engine, on_event=events.append)
    striker.join()
    assert [event.status for event in ended.values()] == ["done"] * 3
    assert sum(event.kind == "lost" for event in events) == 1
    near = tmp_path / "local"
    run_study(study, near, missing(study, near), engine=LocalEngine(1), on_event=lambda event: None)
    for path in near.rglob("metrics.jsonl"):
        assert path.read_bytes() == (far / path.relative_to(near)).read_bytes()
    tables = [[table.markdown() for table in all_tables(study_outcome(StudyFolder(root)))] for root in (far, near)]
    assert tables[0] == tables[1]


def test_the_command_does_coupling_on_two_nodes_of_which_one_dies_as_it_does_it_here(
    tmp_path: Path, cluster: Any
) -> None:
    second = cluster.one_more()
    far, near = tmp_path / "ray", tmp_path / "local"
    command = [sys.executable, "-m", "surefoot.cli", "study", "coupling", "--scale", "digits", "--no-page", "--out"]
    striker = strike(cluster, second, far)
    on_ray = subprocess.run(
        [*command, str(far), "--engine", "ray", "--address", cluster.address], capture_output=True, text=True
    )
    striker.join()
    assert on_ray.returncode == 0, on_ray.stderr
    assert on_ray.stderr.count("it will be resumed") == 1
    here = subprocess.run([*command, str(near)], capture_output=True, text=True)
    assert here.returncode == 0, here.stderr
    for path in near.rglob("metrics.jsonl"):
        assert path.read_bytes() == (far / path.relative_to(near)).read_bytes()
    written = sorted(path.name for path in near.glob("*.csv"))
    assert written
    for name in written:
        assert (near / name).read_bytes() == (far / name).read_bytes()


def test_no_cluster_at_an_address_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"There is no Ray cluster at 127\.0\.0\.1:1"):
        make_engine("ray", num_workers=1, address="127.0.0.1:1", logs=tmp_path)
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
