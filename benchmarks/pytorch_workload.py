"""The workloads of the cluster benchmark in PyTorch: DistributedDataParallel over gloo.

Run by `live_cluster.py`, a process a rank, in the environment that `environments.py` makes:

    python pytorch_workload.py WORKLOAD PORT RANK RANKS

The same first weights, batches, optimizer and reports as in `cluster_workloads.py`; like there, a
step ends with the loss as a number. There is no ps: the ranks average the gradients among them, a
round at a time. Where the TF1 program's workers are not synchronous, every batch is one of its
global steps; so a round counts as many here.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator

import numpy as np
import torch
from cluster_workloads import BATCHES, WORKLOADS, bags, train
from local_workloads import digits, weights
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH = 100
ROWS, WIDTH = 1_000_000, 64


def mlp(hidden: int) -> nn.Module:
    """784-hidden-10."""
    model = nn.Sequential(nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    begin(model[0], weights([784, hidden], 1).T)
    begin(model[2], weights([hidden, 10], 2).T)
    return model


def cnn() -> nn.Module:
    """The LeNet-size CNN; images and filters have their channels first here."""
    first, second = nn.Conv2d(1, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)
    dense, last = nn.Linear(3136, 1024), nn.Linear(1024, 10)
    begin(first, weights([5, 5, 1, 32], 1).transpose(3, 2, 0, 1))
    begin(second, weights([5, 5, 32, 64], 2).transpose(3, 2, 0, 1))
    pixels = weights([3136, 1024], 3).reshape(7, 7, 64, 1024)
    begin(dense, pixels.transpose(3, 2, 0, 1).reshape(1024, 3136))
    begin(last, weights([1024, 10], 4).T)
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        *(first, nn.ReLU(), nn.MaxPool2d(2), second, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(dense, nn.ReLU(), last),
    )


def embedding() -> nn.Module:
    """Means of bags of ids from a table whose gradient has the rows of a batch only."""
    table = nn.EmbeddingBag(ROWS, WIDTH, mode="mean", sparse=True)
    nn.init.uniform_(table.weight, -0.05, 0.05, generator=torch.Generator().manual_seed(1))
    last = nn.Linear(WIDTH, 1, bias=False)
    begin(last, weights([WIDTH, 1], 3).T)
    return nn.Sequential(table, last)


def begin(layer: nn.Module, first: np.ndarray) -> None:
    """Gives a layer the first weights of the TF1 program."""
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(first)))
        if layer.bias is not None:
            layer.bias.zero_()


def images() -> list[tuple[np.ndarray, np.ndarray]]:
    """The batches of the MLPs and the CNN."""
    found, labels = digits(BATCH * BATCHES)
    places = range(0, len(found), BATCH)
    return [(found[i : i + BATCH], labels[i : i + BATCH]) for i in places]


@dataclasses.dataclass(frozen=True)
class Training:
    """What PyTorch needs for a workload."""

    model: Callable[[], nn.Module]
    batches: Callable[[], list[tuple[np.ndarray, np.ndarray]]] = images
    loss: Callable[[], nn.Module] = nn.CrossEntropyLoss
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam
    rate: float = 0.001
    how: dict[str, float] = dataclasses.field(default_factory=dict)


TRAININGS = {
    "mlp_async_1_1": Training(lambda: mlp(100)),
    "mlp_async_1_2": Training(lambda: mlp(100)),
    "mlp_sync_1_2": Training(lambda: mlp(100)),
    "mlp_4096_2_2": Training(lambda: mlp(4096)),
    "mlp_10000_1_1": Training(lambda: mlp(10000)),
    "embedding_2_2": Training(
        embedding,
        lambda: bags(ROWS),
        nn.BCEWithLogitsLoss,
        torch.optim.Adagrad,
        0.5,
        {"initial_accumulator_value": 0.1},
    ),
    "cnn_1_2": Training(cnn, optimizer=torch.optim.SGD, rate=0.05),
}


def feeds(training: Training, rank: int, ranks: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Every rank's own: two TF1 workers are never at the same batch either."""
    batches = [tuple(map(torch.from_numpy, batch)) for batch in training.batches()]
    while True:
        yield from batches[rank::ranks]


def main(name: str, port: int, rank: int, ranks: int) -> None:
    """One rank's training."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks
    )
    workload, training = WORKLOADS[name], TRAININGS[name]
    model = DistributedDataParallel(training.model())
    optimizer = training.optimizer(model.parameters(), lr=training.rate, **training.how)
    loss_of, batches = training.loss(), feeds(training, rank, ranks)
    step, steps_a_round = 0, 1 if workload.synchronous else ranks

    def once() -> tuple[int, float]:
        nonlocal step
        inputs, labels = next(batches)
        optimizer.zero_grad()
        loss = loss_of(model(inputs), labels)
        loss.backward()
        optimizer.step()
        step += steps_a_round
        return step, loss.item()

    train(once, workload.compare_at)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
