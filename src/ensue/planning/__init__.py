"""Planning: which joins in which order, what is stored, and where each condition is decided."""
