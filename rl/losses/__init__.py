"""Terms of a loss, and the surrogates, ratios and aggregates that they use."""
