"""Methods that change the ratio, the clip or the regularisers of the loss."""
