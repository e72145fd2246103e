"""Studies over many runs: claims of papers, comparisons, benchmarks, faults."""
