"""How many samples, of which parameters, and which are kept."""
