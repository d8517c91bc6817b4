"""The facade: what a public call does. Composition happens here and only here."""
