"""The parts of a log store's contract, one module per part of the interface."""
