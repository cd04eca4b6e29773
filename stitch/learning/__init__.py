"""What opens models: files tensor by tensor, strategies, the check before them. Hooks import it.

    import stitch.learning as learning

    def aggregate(site_dir, out_path, global_path, bases_dir, outer_path=None, outer_out_path=None):
        return learning.aggregate(
            site_dir=site_dir, out_path=out_path, global_path=global_path, bases_dir=bases_dir,
            outer_path=outer_path, outer_out_path=outer_out_path, strategy=learning.FedAvgM())

An add-on: the core never imports it. NumPy and the standard library are all it needs.
"""

from __future__ import annotations

from stitch.learning.aggregation import aggregate
from stitch.learning.check import unfit_model
from stitch.learning.client import NumPyClient
from stitch.learning.specs import Spec
from stitch.learning.strategies.bagging import BoosterBagging
from stitch.learning.strategies.diloco import DiLoCo
from stitch.learning.strategies.fedadagrad import FedAdagrad
from stitch.learning.strategies.fedadam import FedAdam
from stitch.learning.strategies.fedavg import FedAvg
from stitch.learning.strategies.fedavgm import FedAvgM
from stitch.learning.strategies.fedbuff import FedBuff
from stitch.learning.strategies.fedprox import FedProx, proximal_gradient, proximal_term
from stitch.learning.strategies.fedyogi import FedYogi
from stitch.learning.strategies.krum import Krum, MultiKrum
from stitch.learning.strategies.median import FedMedian
from stitch.learning.strategies.trimmed_mean import TrimmedMean
from stitch.learning.strategy import FitResult, NDArrays, Round, Strategy
from stitch.learning.tensors import ModelReader, ModelWriter, open_model, read_model, write_model

__all__ = [
    "BoosterBagging",
    "DiLoCo",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedBuff",
    "FedMedian",
    "FedProx",
    "FedYogi",
    "FitResult",
    "Krum",
    "ModelReader",
    "ModelWriter",
    "MultiKrum",
    "NDArrays",
    "NumPyClient",
    "Round",
    "Spec",
    "Strategy",
    "TrimmedMean",
    "aggregate",
    "open_model",
    "proximal_gradient",
    "proximal_term",
    "read_model",
    "unfit_model",
    "write_model",
]
