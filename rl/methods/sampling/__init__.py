"""Methods that choose how many samples to draw, from where, or which to use."""
