"""A training run: construction, the loop, checkpoints, and the device mesh."""
