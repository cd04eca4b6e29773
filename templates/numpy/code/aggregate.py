"""Hook `aggregate`: federated averaging, each site weighted by its number of training rows.

The new global is the old one plus the mean of what each site's training changed, taken against the
global that this site started from. Where all started from the same global that is the mean of their
models; under `policy.require = "buffered"` a stale pass counts less, by the weight the policy gives it.

The same inputs give the same bytes on any machine: sites in the order of their names, 64-bit
additions element by element, one division at the end.
"""

import json
from pathlib import Path

import numpy as np

SHARED = ("schema", "median", "center", "scale")  # equal at every site since pass 0
AVERAGED = ("weights", "bias")


def aggregate(site_dir, out_path, global_path, bases_dir):
    """Moves the global by every model under `site_dir`/<site>/pass_NNN/ and writes it to `out_path`.

    Returns:
        n_samples (the sum) and the mean training loss, weighted alike.

    Raises:
        ValueError: no samples at all, models for different columns, or a value that is not finite.
    """
    folders = sorted(Path(site_dir).glob("*/pass_*"), key=lambda folder: (folder.parent.name, folder.name))
    current = load(global_path)
    moved = {name: np.zeros(current[name].shape) for name in AVERAGED}
    total, total_loss = 0, 0.0
    for folder in folders:
        seal = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        said = json.loads((folder / "round.json").read_text(encoding="utf-8"))
        count = int(seal["n_samples"])
        model = load(folder / "model.npz")
        check(model, current, site=folder.parent.name)
        base = load(Path(bases_dir) / f"pass_{said['base_pass']:03d}" / "model.npz")
        for name in AVERAGED:
            moved[name] += float(count) * said["weight"] * (model[name] - base[name])
        total += count
        total_loss += count * float(seal["metrics"].get("loss", 0.0))
    if total == 0:
        raise ValueError("no site trained on a single row: there is nothing to average")
    # The weights do not divide: where every pass is stale, the step shall be smaller.
    averages = {name: current[name] + moved[name] / total for name in AVERAGED}
    with open(out_path, "wb") as out:
        np.savez(out, **(current | averages))
    return {"n_samples": total, "loss": total_loss / total}


def load(path):
    """A model's arrays by name."""
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in (*SHARED, *AVERAGED)}


def check(model, current, *, site):
    """Refuses a model that cannot be compared with the global."""
    for name in SHARED:
        if not np.array_equal(model[name], current[name]):
            raise ValueError(f"site {site} has another {name} than the global")
    for name in AVERAGED:
        if model[name].shape != current[name].shape or not np.isfinite(model[name]).all():
            raise ValueError(f"site {site} has {name} of another shape, or not finite")
