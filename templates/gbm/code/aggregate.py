"""Hook `aggregate`: appends every site's new trees to the global model, weighted by its rows.

New trees are what a site's training added to the score of the global that this site started from, so
they can be appended to a newer one too. Under `policy.require = "buffered"` those of a stale pass count
less, by the weight the policy gives it.

Needs no boosting library: trees are only carried along. The same inputs give the same bytes.
"""

import json
from pathlib import Path

import container


def aggregate(site_dir, out_path, global_path, config=None):
    """Adds the trees under `site_dir`/<site>/pass_NNN/ to the model at `global_path`.

    Returns:
        n_samples (the sum), the mean training loss weighted alike, and in mode "ensemble"
        should_stop: one pass is all it takes.

    Raises:
        ValueError: no samples at all, or a site's model that does not belong to the global one.
    """
    model = container.read(global_path)
    arrived = []
    folders = sorted(Path(site_dir).glob("*/pass_*"), key=lambda folder: (folder.parent.name, folder.name))
    for folder in folders:
        seal = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        own = container.read(folder / "model.json", schema=model["schema"])
        if own["booster"] != model["booster"] or own["bias"] != model["bias"] or len(own["members"]) != 1:
            raise ValueError(f"the trees of site {folder.parent.name} do not belong to this global model")
        said = json.loads((folder / "round.json").read_text(encoding="utf-8"))
        loss = float(seal["metrics"].get("loss", 0.0))
        arrived.append((int(seal["n_samples"]), said["weight"], loss, own["members"][0]["trees"]))
    total = sum(count for count, _, _, _ in arrived)
    if total == 0:
        raise ValueError("no site trained on a single row: there is nothing to add")
    # The policy's weights do not divide: where every pass is stale, the step shall be smaller.
    added = [
        container.member(trees, weight=float(weight) * (count / total))
        for count, weight, _, trees in arrived
        if count > 0
    ]
    container.write({**model, "members": [*model["members"], *added]}, out_path)
    mean_loss = sum(count * loss for count, _, loss, _ in arrived) / total
    stop = (config or {}).get("mode", "rounds") == "ensemble"
    return {"n_samples": total, "loss": mean_loss, "should_stop": stop}
