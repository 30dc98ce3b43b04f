"""The same queries on the same streams, by ensue and by its peers: `python -m benchmarks.peers`."""
