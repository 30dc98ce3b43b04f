"""What tests are made of: a brute-force oracle, stream generators, random queries, and case files.

The parts are modules of their own, so that each can be used without the others:
`oracle` (what a query means, evaluated straight from the definitions), `generators` (seeded streams),
`random_queries` and `strategies` (random valid queries with streams), `cases` (query, events and expected
matches in a text file), and `harness` (comparing two results).
"""
