"""The runtime: plans assembled to arrays, evaluators that step over batches, and the engine around them."""
