"""The lake as a catalog of Spark: what the Java side asks, answered from the facade."""
