"""One site's process of a demo: `clif-stitch run --plain` that ends when the demo does.

The demo holds the other end of this process's stdin. However the demo ends, SIGKILL included, that
pipe then reaches its end: the run is asked to stop as by SIGTERM, and is ended if it does not.
"""

from __future__ import annotations

import os
import signal
import threading

from stitch.cli.app import main

_GRACE_S = 20.0


def _end_with_the_demo() -> None:
    while os.read(0, 1):
        continue
    if os.name == "posix":
        os.kill(os.getpid(), signal.SIGTERM)  # to the process: wakes the main thread, whatever it waits for
    else:
        signal.raise_signal(signal.SIGTERM)  # there os.kill would end the process at once
    threading.Event().wait(_GRACE_S)  # nobody sets it: an orderly end takes this thread along
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    main(["run", "--plain"])
