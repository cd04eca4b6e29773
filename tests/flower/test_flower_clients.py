"""Classes written for Flower, with Flower itself: they run as they are, and Flower's mean is ours.

A stage of .ci/run of its own: Flower holds other packages back, so it is not in the dev group.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stitch import Client
from stitch.client import Setup
from stitch.config import load_settings
from stitch.layout import Event, PassRef
from stitch.learning import read_model
from stitch.learning.specs import Array
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.wire import EventDoc, Seal
from tests.unit.loops.actors import finish

pytestmark = [pytest.mark.flower, pytest.mark.filterwarnings("default")]  # Flower's own are its business

SITES = {"rush": 40, "nu": 25, "uchicago": 15}

# Nothing in this file knows of clif-stitch.
WRITTEN_FOR_FLOWER = """\
import flwr as fl
import numpy as np


class LogisticClient(fl.client.NumPyClient):
    def __init__(self, rows):
        self.features, self.outcome = rows[:, :-1], rows[:, -1]

    def get_parameters(self, config):
        return [np.zeros(self.features.shape[1], dtype=np.float32), np.zeros((), dtype=np.float32)]

    def fit(self, parameters, config):
        weights, intercept = (array.astype(np.float64) for array in parameters)
        for _ in range(config["local_epochs"]):
            odds = 1 / (1 + np.exp(-(self.features @ weights + intercept)))
            weights = weights - 0.1 * self.features.T @ (odds - self.outcome) / len(self.outcome)
            intercept = intercept - 0.1 * np.mean(odds - self.outcome)
        moved = [weights.astype(np.float32), np.asarray(intercept, dtype=np.float32)]
        return moved, len(self.outcome), {"epochs": config["local_epochs"], "kind": "logistic", "done": True}

    def evaluate(self, parameters, config):
        weights, intercept = parameters
        odds = 1 / (1 + np.exp(-(self.features @ weights + intercept)))
        loss = -np.mean(np.log(np.where(self.outcome == 1, odds, 1 - odds)))
        return float(loss), len(self.outcome), {"accuracy": float(np.mean((odds > 0.5) == self.outcome))}


def client_fn(context):
    return LogisticClient(np.loadtxt(context.node_config["data_dir"] + "/rows.txt")).to_client()
"""

BY_PATH = "\n\nclass IcuClient(LogisticClient):\n    def __init__(self, data_dir):\n"
BY_PATH += '        super().__init__(np.loadtxt(data_dir / "rows.txt"))\n'

TOML = """\
run_id = "flower"
lead = "rush"
sites = ["rush", "nu", "uchicago"]
num_passes = 2

[hooks]
client = "code/client.py:{client}"
strategy = "stitch.learning:FedAvg"
model_ext = "{ext}"

[train]
config = {{ local_epochs = 3 }}

[evaluation]
when = "final"
"""


def rows_of(site: str) -> Array:
    rng = np.random.default_rng(len(site))
    features = rng.normal(size=(SITES[site], 3))
    outcome = (features @ [1.0, -2.0, 0.5] + rng.normal(size=SITES[site]) > 0).astype(float)
    rows: Array = np.column_stack([features, outcome])
    return rows


def federate(folder: Path, *, client: str, ext: str) -> dict[str, Client]:
    lanes = Lanes("flower", dict.fromkeys(("global", *(f"sites/{s}" for s in SITES)), MemoryStore()), {})
    made = {}
    for site in SITES:
        root = folder / site
        (root / "data").mkdir(parents=True)
        (root / "code").mkdir()
        (root / "stitch.toml").write_text(TOML.format(client=client, ext=ext), encoding="utf-8")
        (root / "code" / "client.py").write_text(WRITTEN_FOR_FLOWER + BY_PATH, encoding="utf-8")
        np.savetxt(root / "data" / "rows.txt", rows_of(site))
        made[site] = Client(load_settings(root, {}, site=site), Setup(lanes=lanes))
    finish([Lead(made["rush"]), *(Local(one) for one in made.values())])
    return made


def by_flower(folder: Path) -> list[Array]:
    """The same two rounds with Flower's own client objects, wire format and FedAvg; no line of ours."""
    from flwr.common import (  # noqa: PLC0415  only this stage has it
        Code,
        FitIns,
        FitRes,
        Status,
        ndarrays_to_parameters,
        parameters_to_ndarrays,
    )
    from flwr.server.strategy import FedAvg  # noqa: PLC0415  as above

    names: dict[str, object] = {"__name__": "client"}
    exec(compile(WRITTEN_FOR_FLOWER, "client.py", "exec"), names)  # noqa: S102  the file above
    kind = names["LogisticClient"]
    assert isinstance(kind, type)
    clients = {site: kind(np.loadtxt(folder / site / "data" / "rows.txt")).to_client() for site in SITES}
    parameters = ndarrays_to_parameters(kind(rows_of("rush")).get_parameters({}))
    for _ in range(2):
        answers = [one.fit(FitIns(parameters, {"local_epochs": 3})) for one in clients.values()]
        results = [
            (object(), FitRes(Status(Code.OK, ""), one.parameters, one.num_examples, one.metrics))
            for one in answers
        ]
        parameters, _ = FedAvg(inplace=False).aggregate_fit(1, results, [])
    return list(parameters_to_ndarrays(parameters))


@pytest.mark.parametrize(("client", "ext"), [("IcuClient", "npz"), ("client_fn", "safetensors")])
def test_a_client_of_flower_runs_unchanged_and_comes_to_flowers_own_result(
    tmp_path: Path, client: str, ext: str
) -> None:
    clients = federate(tmp_path, client=client, ext=ext)
    lead = clients["rush"]
    model = read_model(lead.mirror.path(PassRef(2).mirror_model(ext)))
    ours, theirs = list(model.values()), by_flower(tmp_path)
    assert [one.shape for one in ours] == [one.shape for one in theirs] == [(3,), ()]
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=2e-6)
    sealed = lead.passes.read_seal(PassRef(2, "nu"))
    assert sealed is not None
    seal: Seal = sealed.doc
    assert (seal.n_samples, dict(seal.metrics)) == (SITES["nu"], {"epochs": 3.0})
    event = lead.documents.read(f"sites/nu/events/pass_002.{Event.EVALUATED}.json", EventDoc)
    assert event is not None
    assert event.doc.metrics is not None
    assert event.doc.metrics.keys() == {"accuracy", "loss"}
    assert event.doc.metrics["accuracy"] > 0.7
    for each in clients.values():
        each.close()
