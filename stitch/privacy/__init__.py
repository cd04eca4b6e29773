"""What is done to a model before it may leave: clip, noise, allow-list. Run in a hook's process.

An add-on: the core names these functions as hooks and never imports them. The accountant is
`stitch.rounds.accountant`, the journal of what was spent `stitch.client.budget`: neither opens a model.
"""
