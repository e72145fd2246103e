"""What the policy gradient maximises: ratios, clips, regularisers."""
