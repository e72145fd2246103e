"""Process reward models on chained arithmetic, and the runs that they pay."""
