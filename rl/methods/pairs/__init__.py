"""Methods with losses of pairs or groups of samples, such as DPO on a group."""
