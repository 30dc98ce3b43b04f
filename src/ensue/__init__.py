"""ensue detects patterns of events in streams."""
