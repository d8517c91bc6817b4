"""The parts of the contract of a log store, one module a part of the seam."""
