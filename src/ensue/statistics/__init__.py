"""What a stream is like: arrival rates and selectivities over sliding windows of event time, for planners."""
