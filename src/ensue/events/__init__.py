"""Events: their schema, batches of columns, the order of time, and what is rejected or late."""
