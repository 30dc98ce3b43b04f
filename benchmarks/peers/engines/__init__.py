"""One module an engine, all of one shape: `lacks` says why a query is beyond it, `measure` runs a job."""
