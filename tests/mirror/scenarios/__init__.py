"""What users were promised of the mirror, a test for each scenario, on local disk, on a real S3
server, and with PostgreSQL.

The one on external readers is in tests/readers/test_agreement.py, where Spark is.
"""
