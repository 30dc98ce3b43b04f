"""Rules over composite events: programs of EVENT declarations, RULE statements and pattern queries."""
