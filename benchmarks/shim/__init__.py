"""Questions about the shim, each in a module, asked by `benchmarks.bench_shim` of one cluster."""
