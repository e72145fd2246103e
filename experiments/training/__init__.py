"""Parts of a training run: construction, rollouts, checkpoints, device mesh."""
