"""Rows made by other processes, in the form that a store writes; knows no driver."""
