"""The Delta spec as frozen values, and the codec. Pure."""
