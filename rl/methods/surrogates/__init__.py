"""Surrogates of the policy gradient: ratios, clips and regularisers."""
