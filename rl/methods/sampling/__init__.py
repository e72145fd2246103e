"""Methods that choose how many samples are drawn, how, and which are used."""
