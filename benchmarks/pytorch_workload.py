"""The synchronous MLP of the cluster benchmark in PyTorch: DistributedDataParallel over gloo.

Run by `live_cluster.py`, a process a rank, in the environment that `environments.py` makes:

    python pytorch_workload.py PORT RANK RANKS COMPARE_AT

The same first weights, batches, optimizer and reports as in `cluster_workloads.py`; like there, a
step ends with the loss as a number. There is no ps: the ranks average the gradients among them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch
from cluster_workloads import train
from local_workloads import digits, weights
from torch.nn.parallel import DistributedDataParallel

BATCH = 100


def make_model() -> torch.nn.Module:
    """784-100-10, with the first weights of the TF1 program."""
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10)
    )
    with torch.no_grad():
        for layer, first in ((model[0], weights([784, 100], 1)), (model[2], weights([100, 10], 2))):
            layer.weight.copy_(torch.from_numpy(first.T))
            layer.bias.zero_()
    return model


def batches(rank: int, ranks: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Every rank's own: two TF1 workers are never at the same batch either."""
    images, labels = (torch.from_numpy(each) for each in digits(5000))
    while True:
        for i in range(rank * BATCH, len(images), ranks * BATCH):
            yield images[i : i + BATCH], labels[i : i + BATCH]


def main(port: int, rank: int, ranks: int, compare_at: int) -> None:
    """One rank's training."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks
    )
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    loss_of = torch.nn.CrossEntropyLoss()
    feeds, step = batches(rank, ranks), 0

    def once() -> tuple[int, float]:
        nonlocal step
        images, labels = next(feeds)
        optimizer.zero_grad()
        loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        step += 1
        return step, loss.item()

    train(once, compare_at)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
