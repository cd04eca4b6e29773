"""A run from nothing but a client and a strategy in stitch.toml: real hook processes, loops in this one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stitch import Client
from stitch.client import Setup
from stitch.config import load_settings
from stitch.layout import Event, PassRef
from stitch.learning import read_model
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.proof.transcript import Transcript
from stitch.proof.verify import Verification
from stitch.proof.workbench import Workbench
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.wire import EventDoc, Seal
from tests.unit.loops.actors import finish

TOML = """\
run_id = "flower"
lead = "rush"
sites = ["rush", "nu"]
num_passes = 2
root_seed = 7

[hooks]
client = "code/client.py:Mean"
strategy = "code/strategy.py:Slower"

[strategy]
server_lr = 0.5
momentum = 0.5

[train]
config = { scale = 4.0 }

"""

CLIENT = """\
import numpy as np
from stitch.learning import NumPyClient

class Mean(NumPyClient):
    parameter_names = ("weights", "bias")

    def __init__(self, data_dir, site):
        self.rows = np.loadtxt(data_dir / "rows.txt")

    def get_parameters(self):
        return [np.zeros(2), np.full(1, 8.0)]

    def fit(self, parameters, config):
        weights, bias = parameters
        print("server round", config["server_round"], "scale", config["scale"])
        return [weights + config["scale"], bias - len(self.rows)], len(self.rows), {"scale": config["scale"]}

    def evaluate(self, parameters, config):
        weights, bias = parameters
        return float(weights[0]), len(self.rows), {"bias": bias[0]}
"""

STRATEGY = """\
from stitch.learning import FedAvgM

class Slower(FedAvgM):
    def configure_fit(self, server_round, config):
        return {**config, "scale": config["scale"] / server_round}
"""

ROWS = {"rush": 10, "nu": 30}


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[dict[str, Client]]:
    lanes = Lanes("flower", dict.fromkeys(("global", "sites/rush", "sites/nu"), MemoryStore()), {})
    made = {}
    for site, rows in ROWS.items():
        root = tmp_path / site
        (root / "data").mkdir(parents=True)
        (root / "code").mkdir()
        (root / "stitch.toml").write_text(TOML, encoding="utf-8")
        (root / "code" / "client.py").write_text(CLIENT, encoding="utf-8")
        (root / "code" / "strategy.py").write_text(STRATEGY, encoding="utf-8")
        np.savetxt(root / "data" / "rows.txt", np.ones(rows))
        made[site] = Client(load_settings(root, {}, site=site), Setup(lanes=lanes))
    yield made
    for client in made.values():
        client.close()


def seal(client: Client, number: int, site: str | None = None) -> Seal:
    stored = client.passes.read_seal(PassRef(number, site))
    assert stored is not None
    return stored.doc


def test_the_run_is_what_the_formulas_say_and_can_be_made_again(clients: dict[str, Client]) -> None:
    lead = clients["rush"]
    finish([Lead(lead), *(Local(client) for client in clients.values())])
    # By hand (Hsu et al. 2019): v = 0.5 v + mean step, x = x + 0.5 v, with scale 4, then 4 / 2.
    mean_rows = (10 * 10 + 30 * 30) / 40
    velocity = np.array([4.0, -mean_rows])
    expected = [np.array([0.0, 8.0]), np.array([0.0, 8.0]) + 0.5 * velocity]
    velocity = 0.5 * velocity + np.array([2.0, -mean_rows])
    expected.append(expected[1] + 0.5 * velocity)
    for number, (weight, bias) in enumerate(expected):
        model = read_model(lead.mirror.path(PassRef(number).mirror_model("npz")))
        assert list(model) == ["weights", "bias"]
        assert model["weights"].tolist() == pytest.approx([weight] * 2, abs=1e-12)
        assert model["bias"].tolist() == pytest.approx([bias], abs=1e-12)
    # What the strategy says for pass 1 is what stitch.toml says already, and need not be sealed.
    assert [seal(lead, number).next_config for number in (0, 1)] == [{}, {"scale": 2.0}]
    assert [seal(lead, number, "nu").metrics for number in (1, 2)] == [{"scale": 4.0}, {"scale": 2.0}]
    assert [seal(lead, number, "nu").n_samples for number in (1, 2)] == [30, 30]
    # Both sites have one weight and one bias, so that the mean by rows is each one's own.
    said = seal(lead, 2).metrics
    assert said["evaluate.loss"] == pytest.approx(expected[1][0])
    assert said["evaluate.bias"] == pytest.approx(expected[1][1])
    path = f"sites/nu/events/pass_002.{Event.EVALUATED}.json"
    scored = lead.documents.read(path, EventDoc)
    assert scored is not None
    assert scored.doc.metrics == pytest.approx({"bias": expected[2][1], "loss": expected[2][0]})
    record = Transcript(lead.lanes)
    bench = Workbench(lead.settings, lead.lanes, manifest=record.chain.manifest.doc)
    logs = lead.settings.root / "logs"
    proof = Verification(record, bench=bench, logs=logs).run()
    assert [one.rerun for one in proof.passes] == [False, True, True]
    assert all(seal(lead, number).attachments for number in (1, 2))
