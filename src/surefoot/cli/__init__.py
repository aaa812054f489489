"""The command line: one file per verb. `--help` imports neither torch nor anything heavy."""

import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Annotated

import tyro

from surefoot._version import __version__
from surefoot.cli.apply import ApplyCommand
from surefoot.cli.calibrate import CalibrateCommand
from surefoot.cli.certify import CertifyCommand
from surefoot.cli.compare import CompareCommand
from surefoot.cli.data import DataCommand
from surefoot.cli.diagnose import DiagnoseCommand
from surefoot.cli.doctor import DoctorCommand
from surefoot.cli.evaluate import EvaluateCommand
from surefoot.cli.listing import ListCommand
from surefoot.cli.report import ReportCommand
from surefoot.cli.request import BadRequest
from surefoot.cli.sharpness import SharpnessCommand
from surefoot.cli.study import StudyCommand
from surefoot.cli.train import TrainCommand
from surefoot.cli.watch import WatchCommand

Command = (
    Annotated[EvaluateCommand, tyro.conf.subcommand("evaluate")]
    | Annotated[DiagnoseCommand, tyro.conf.subcommand("diagnose")]
    | Annotated[CalibrateCommand, tyro.conf.subcommand("calibrate")]
    | Annotated[ApplyCommand, tyro.conf.subcommand("apply")]
    | Annotated[TrainCommand, tyro.conf.subcommand("train")]
    | Annotated[SharpnessCommand, tyro.conf.subcommand("sharpness")]
    | Annotated[CertifyCommand, tyro.conf.subcommand("certify")]
    | Annotated[DataCommand, tyro.conf.subcommand("data")]
    | Annotated[StudyCommand, tyro.conf.subcommand("study")]
    | Annotated[CompareCommand, tyro.conf.subcommand("compare")]
    | Annotated[ReportCommand, tyro.conf.subcommand("report")]
    | Annotated[WatchCommand, tyro.conf.subcommand("watch")]
    | Annotated[ListCommand, tyro.conf.subcommand("list")]
    | Annotated[DoctorCommand, tyro.conf.subcommand("doctor")]
)


def parsed(arguments: Sequence[str]) -> Callable[[], int]:
    """The command that arguments ask for, not yet done; SystemExit, with the reason on stderr, if they ask for none."""
    command: Callable[[], int] = tyro.cli(
        Command,
        args=arguments,
        prog="surefoot",
        description="Measure and repair a classifier's calibration; watch it train with curvature and margins.",
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
    )
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Exit code 0: done; 1: a run or certificate failed; 2: bad request; 130: stopped by Ctrl-C."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:
        print(f"surefoot {__version__}")
        return 0
    command = None
    _leave_tidily()
    try:
        command = parsed(given or ["--help"])
        return command()
    except BadRequest as error:
        print(f"surefoot: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        resumes = isinstance(command, TrainCommand) or (isinstance(command, StudyCommand) and not command.dry_run)
        print(
            f"surefoot: stopped{'; the same command goes on from the last checkpoint' if resumes else ''}.",
            file=sys.stderr,
        )
        return 130
    except BrokenPipeError:  # the reader of our output is gone, as in `surefoot list | head`
        sys.stderr.close()
        return 0


def _leave_tidily() -> None:
    """Asked to go, or left by its terminal, a command leaves as on Ctrl-C; under nohup it stays."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _hang_up)


def _hang_up(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal that is closed may send it twice
    raise KeyboardInterrupt
