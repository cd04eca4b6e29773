"""Hook `train`: the template's, once the time has passed that this hospital needs for a pass."""

import time

from train import train as train_at_once

SECONDS = {"rush": 0.2, "nu": 0.5, "uchicago": 3.0}  # of a pass; in life it is an hour, and a day


def train(global_path, out_path, data_dir, config, state_dir=None):
    """As `train` in train.py, later."""
    if global_path is not None:
        time.sleep(SECONDS[config["site"]["site_name"]])
    return train_at_once(global_path, out_path, data_dir, config, state_dir)
