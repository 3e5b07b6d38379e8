"""Locks of this package beside those of etcd and ZooKeeper, in one run: `python -m benchmarks.coordination_peers`."""
