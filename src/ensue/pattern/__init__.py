"""The algebra of patterns: operators, expressions, policies, and their normal form."""
