"""Commands that start many runs and compare them; README.md lists them."""
