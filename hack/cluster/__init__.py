"""A real etcd and kube-apiserver on loopback, for demo, tests and benchmarks."""
