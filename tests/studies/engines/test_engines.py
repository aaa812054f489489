import sys
from pathlib import Path

import pytest

from surefoot.studies.engines import make_engine


@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_an_engine_without_its_extra_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs {package}: pip install 'surefoot\[{name}\]'"):
        make_engine(name, num_workers=1, logs=tmp_path)


def test_what_an_engine_has_no_use_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`address` must not be given for the engine local, got 'here:1'"):
        make_engine("local", num_workers=1, address="here:1", logs=tmp_path)
    with pytest.raises(ValueError, match="`engine-option` must not be given for the engine local, got 'a=1'"):
        make_engine("local", num_workers=1, options=["a=1"], logs=tmp_path)
    with pytest.raises(ValueError, match=r"Unknown engine 'rai'\. Did you mean 'ray'\?"):
        make_engine("rai", num_workers=1, logs=tmp_path)
    with pytest.raises(ValueError, match="`workers` must be at least 1, got 0"):
        make_engine("local", num_workers=0, logs=tmp_path)
