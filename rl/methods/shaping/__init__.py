"""Token-level shaping of a group's advantages."""
