"""Hook `aggregate`: federated averaging, each site weighted by its number of training rows.

The same inputs give the same bytes on any machine: sites in the order of their names, 64-bit
additions element by element, one division at the end.
"""

import json
from pathlib import Path

import numpy as np

SHARED = ("schema", "median", "center", "scale")  # equal at every site since pass 0
AVERAGED = ("weights", "bias")


def aggregate(site_dir, out_path):
    """Averages every model under `site_dir`/<site>/pass_NNN/ into `out_path`.

    Returns:
        n_samples (the sum) and the mean training loss, weighted alike.

    Raises:
        ValueError: no samples at all, models for different columns, or a value that is not finite.
    """
    folders = sorted(Path(site_dir).glob("*/pass_*"), key=lambda folder: (folder.parent.name, folder.name))
    total, total_loss, first, sums = 0, 0.0, None, {}
    for folder in folders:
        seal = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        count = int(seal["n_samples"])
        with np.load(folder / "model.npz", allow_pickle=False) as arrays:
            model = {name: arrays[name] for name in (*SHARED, *AVERAGED)}
        if first is None:
            first = model
            sums = {name: np.zeros(model[name].shape) for name in AVERAGED}
        check(model, first, site=folder.parent.name)
        for name in AVERAGED:
            sums[name] += float(count) * model[name]
        total += count
        total_loss += count * float(seal["metrics"].get("loss", 0.0))
    if first is None or total == 0:
        raise ValueError("no site trained on a single row: there is nothing to average")
    averages = {name: sums[name] / total for name in AVERAGED}
    with open(out_path, "wb") as out:
        np.savez(out, **(first | averages))
    return {"n_samples": total, "loss": total_loss / total}


def check(model, first, *, site):
    """Refuses a model that cannot be averaged with the others."""
    for name in SHARED:
        if not np.array_equal(model[name], first[name]):
            raise ValueError(f"site {site} has another {name} than the others")
    for name in AVERAGED:
        if model[name].shape != first[name].shape or not np.isfinite(model[name]).all():
            raise ValueError(f"site {site} has {name} of another shape, or not finite")
