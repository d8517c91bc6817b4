package io.deltasql.spark;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.SQLExecution;

/**
 * What the statement of a thread has committed. Spark goes on after a commit, with frames that it
 * keeps in memory: where that fails, the error must not be taken for the commit's.
 */
final class Committed {
  private static final ThreadLocal<Committed> LAST = new ThreadLocal<>();

  private final String statement;
  private final Path place;
  private final long version;

  private Committed(String statement, Path place, long version) {
    this.statement = statement;
    this.place = place;
    this.version = version;
  }

  static void note(Path place, long version) {
    LAST.set(new Committed(statement(), place, version));
  }

  /** The failure of a question, which says what was committed before it in the same statement. */
  static LakeException told(LakeException error) {
    Committed last = LAST.get();
    if (last == null || last.statement == null || !last.statement.equals(statement())) {
      return error;
    }
    LakeException told =
        new LakeException(
            "DELTASQL_FAILED_AFTER_COMMIT",
            "the statement is committed, as version " + last.version + " of " + last.place
                + ", and must not be repeated; what Spark does after it failed: "
                + error.getMessage());
    told.initCause(error);
    return told;
  }

  private static String statement() {
    return SparkSession.active().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ROOT_ID_KEY());
  }
}
