"""Published test kits: what a backend, a hook or a plugin outside this repository is tested with.

`stitch.testing.store_contract` needs pytest, so it is imported by its own name.
"""
