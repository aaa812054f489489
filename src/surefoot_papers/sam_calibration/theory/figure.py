"""The curvature on SAM's path against what the lemma allows, and the weight of the entropy bonus."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surefoot.report.plots import series, svg
from surefoot.runs.trajectory import Trajectory
from surefoot.studies.figure import StudyFigure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def paths(runs: Sequence[Trajectory]) -> str:
    """The curvature on SAM's path against what the lemma allows, and lambda against lambda_0, by optimizer."""
    columns = list({run.optimizer: run for run in reversed(runs)}.values())[::-1]

    def draw(figure: "Figure") -> None:
        grid = figure.subplots(2, len(columns), squeeze=False, sharex="col", sharey="row")
        for column, run in enumerate(columns):
            top, bottom = grid[:, column]
            top.plot(*series(run, "step", "train/sam_kappa_min"), color="#0072B2", label="smallest eigenvalue")
            top.plot(*series(run, "step", "train/sam_directional"), color="#009E73", label="along the gradient")
            top.plot(*series(run, "step", "train/sam_threshold"), color="black", linestyle="--", label="-||g|| / rho")
            top.set_title(f"{run.spec.variant}, seed {run.spec.seed}", fontsize=8)
            bottom.plot(*series(run, "step", "train/sam_lambda"), color="#D55E00", label="lambda")
            bottom.plot(*series(run, "step", "train/sam_lambda_0"), color="#D55E00", linestyle="--", label="lambda_0")
            bottom.set_xlabel("step")
        handles, labels = (
            a + b for a, b in zip(*(axes.get_legend_handles_labels() for axes in grid[:, 0]), strict=True)
        )
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)

    return svg(draw, size=(3.2 * len(columns), 5), name="sam-theory")


PATHS = StudyFigure(
    name="sam_theory",
    heading="Curvature on SAM's path",
    caption="Curvature on the path (solid) against the limit -||g|| / rho (dashed); lambda and lambda_0.",
    draw=paths,
)
