"""Outlives its hook, the hook's guard and the actor, and goes on writing into the model: a hook's worst."""

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

guard, actor, out_path, notice = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
os.kill(guard, signal.SIGSTOP)
os.kill(actor, signal.SIGKILL)
os.kill(guard, signal.SIGKILL)
notice.write_text(str(os.getpid()), encoding="utf-8")
until = time.monotonic() + 120
while time.monotonic() < until:
    with contextlib.suppress(OSError):  # the folder is removed under it
        out_path.parent.mkdir(parents=True, exist_ok=True)
        with out_path.open("ab") as model:
            model.write(b"garbage " * 64)
    threading.Event().wait(0.01)
