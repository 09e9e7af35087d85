"""The benchmarks behind docs/performance.md: python -m bench.NAME, or make bench."""
