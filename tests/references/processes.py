"""Two processes of one group, on loopback."""

import socket
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist


def in_two_processes(work: Callable[[int, Path], None], folder: Path) -> None:
    """Call work(rank, folder) in each of two processes that form a gloo group."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_joined, args=(work, port, folder), nprocs=2)


def _joined(rank: int, work: Callable[[int, Path], None], port: int, folder: Path) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    work(rank, folder)
    dist.barrier()  # whoever leaves first would cut the other off, which gloo answers by aborting it
    dist.destroy_process_group()
