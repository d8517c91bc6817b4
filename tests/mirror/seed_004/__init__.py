"""The scenarios of seed 004, each under its name, on local disk and on a real S3 server.

The one on external readers is in tests/readers/test_agreement.py, where Spark is.
"""
