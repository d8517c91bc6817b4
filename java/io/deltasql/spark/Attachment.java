package io.deltasql.spark;

import java.util.function.Function;
import org.apache.spark.sql.SparkSession;

/** What Python calls to attach a lake to a session, and to take it off again. */
public final class Attachment {
  private Attachment() {}

  public static void attach(SparkSession spark, String catalog, Function<String, String> python) {
    Homes.attach(new Bridge(catalog, python));
    LogCache.install(spark);
  }

  public static void detach(String catalog) {
    Homes.detach(catalog);
  }
}
