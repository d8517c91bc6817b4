package io.deltasql.spark;

/** Spark's own exceptions are checked ones, which Scala code throws wherever it likes. */
final class Raise {
  private Raise() {}

  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
