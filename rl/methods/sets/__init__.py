"""Set objectives: pass@k and max@k of the group itself."""
