"""The lake as a Spark catalog: answers to the Java side, from the facade."""
