"""Loss terms: surrogates, importance ratios, KL terms and aggregation."""
