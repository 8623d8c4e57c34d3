"""Training: data sets, objectives, trainers, sessions, checkpoints, provenance."""

from torchlean.train import checkpoint, provenance
from torchlean.train.data import Batch, Dataset, Loader, dataset
from torchlean.train.events import Event, Finished, Progressed, Started
from torchlean.train.objective import CROSS_ENTROPY, MSE, Objective
from torchlean.train.session import TrainSession
from torchlean.train.snapshot import Evaluation, Snapshot
from torchlean.train.task import TrainingStopped
from torchlean.train.trainer import Trainer, TrainResult

__all__ = [
    "CROSS_ENTROPY",
    "MSE",
    "Batch",
    "Dataset",
    "Evaluation",
    "Event",
    "Finished",
    "Loader",
    "Objective",
    "Progressed",
    "Snapshot",
    "Started",
    "TrainResult",
    "TrainSession",
    "Trainer",
    "TrainingStopped",
    "checkpoint",
    "dataset",
    "provenance",
]
