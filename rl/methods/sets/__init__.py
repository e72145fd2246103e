"""Set objectives: pass@k and max@k of the samples of a group."""
