"""Tables, figures and pages from what the store holds; never imports torch.

The package itself can be called, so that `surefoot.report(folder)` writes a page whether or not one of its modules has
been imported before: importing a module makes the package an attribute of `surefoot`, over any function of that name.
"""

import sys
from pathlib import Path
from types import ModuleType


class _CallablePackage(ModuleType):
    def __call__(self, folder: Path | str, out: Path | str | None = None) -> Path:
        """Write the HTML page of a run's or a study's folder; returns its path.

        Args:
            folder: The folder of a run or of a study.
            out: The folder to write to; `folder` itself if not given.
        """
        from surefoot.report._write_report import write_report

        return write_report(folder, out)


sys.modules[__name__].__class__ = _CallablePackage
