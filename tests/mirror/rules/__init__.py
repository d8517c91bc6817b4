"""The rules of docs/protocol-rules.md that a commit and its mirror obey together, by number.

Rules that one layer obeys by itself have their tests in tests/unit; what readers make of
mirrors is in tests/readers.
"""
