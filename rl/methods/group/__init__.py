"""Methods that differ in the baseline and scale of a group's scores."""
