"""A client as one writes it for Flower: get_parameters, fit, evaluate on lists of NumPy arrays.

Nothing here knows of clif-stitch. With Flower installed the class may say
`class IcuClient(flwr.client.NumPyClient)`; it runs the same, and in Flower as well.

The parameters are a logistic regression and what makes columns mean the same at every site:
    center, scale  (n_features,)  the lead's means and deviations, fixed since global 0
    weights        (n_features,)
    bias           ()
"""

import json

import numpy as np
from table import auroc, read_cohort

BASELINE_STEPS = 400  # of the model that a site would have had alone


class IcuClient:
    # Optional: names of the arrays in the model file, which would else be arr_0000, arr_0001, ...
    parameter_names = ("center", "scale", "weights", "bias")

    def __init__(self, data_dir, state_dir=None):
        # A new object for each pass. `state_dir` stays at the site.
        self.cohort = read_cohort(data_dir)
        self.memory = None if state_dir is None else state_dir / "local_auroc.json"

    def get_parameters(self, config):
        x, y = self.cohort.part(held_out=False)
        center = np.nan_to_num(np.nanmean(x, axis=0))
        scale = np.where(np.isnan(x), center, x).std(axis=0)
        rate = np.clip(y.mean(), 1e-6, 1 - 1e-6)
        bias = np.array(np.log(rate / (1 - rate)))
        return [center, np.where(scale > 0, scale, 1.0), np.zeros(x.shape[1]), bias]

    def fit(self, parameters, config):
        center, scale, weights, bias = parameters
        x, y = self.cohort.part(held_out=False)
        weights, bias = descend(prepare(x, center, scale), y, weights, bias, config, config["local_steps"])
        fitted = [center, scale, weights, bias]
        held_x, held_y = self.cohort.part(held_out=True)
        metrics = {
            "loss": log_loss(y, log_odds(x, fitted)),
            "auroc": auroc(held_y, log_odds(held_x, fitted)),
            "local_auroc": self.alone(config),
            "optimizer": "gradient descent",  # no number: it stays here, with a note in the hook's log
        }
        return fitted, len(y), metrics

    def evaluate(self, parameters, config):
        x, y = self.cohort.part(held_out=True)
        score = log_odds(x, parameters)
        return log_loss(y, score), len(y), {"auroc": auroc(y, score)}

    def alone(self, config):
        """Held-out AUROC of a model on this site's rows alone; trained once, then remembered."""
        if self.memory is not None and self.memory.exists():
            return json.loads(self.memory.read_text(encoding="utf-8"))
        center, scale, weights, bias = self.get_parameters({})
        x, y = self.cohort.part(held_out=False)
        weights, bias = descend(prepare(x, center, scale), y, weights, bias, config, BASELINE_STEPS)
        held_x, held_y = self.cohort.part(held_out=True)
        result = auroc(held_y, log_odds(held_x, [center, scale, weights, bias]))
        if self.memory is not None:
            self.memory.write_text(json.dumps(result), encoding="utf-8")
        return result


def prepare(x, center, scale):
    """A missing value counts as the mean; columns centred, scaled and cut at 5 deviations."""
    return np.clip((np.where(np.isnan(x), center, x) - center) / scale, -5.0, 5.0)


def log_odds(x, parameters):
    center, scale, weights, bias = parameters
    return np.einsum("ij,j->i", prepare(x, center, scale), weights) + bias


def probability(score):
    return 1.0 / (1.0 + np.exp(-np.clip(score, -30.0, 30.0)))


def log_loss(y, score):
    p = np.clip(probability(score), 1e-12, 1 - 1e-12)
    return float(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)))


def descend(z, y, weights, bias, config, steps):
    """Gradient steps with momentum on the whole cohort; einsum adds up alike on any machine."""
    velocity, bias_velocity = np.zeros_like(weights), 0.0
    rate, l2 = config["learning_rate"], config["l2"]
    for _ in range(steps):
        error = probability(np.einsum("ij,j->i", z, weights) + bias) - y
        velocity = 0.8 * velocity - rate * (np.einsum("ij,i->j", z, error) / len(y) + l2 * weights)
        bias_velocity = 0.8 * bias_velocity - rate * error.mean()
        weights, bias = weights + velocity, bias + bias_velocity
    return weights, np.asarray(bias)
