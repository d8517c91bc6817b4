package io.deltasql.spark;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Lakes for drivers without PySpark: `spark.plugins=io.deltasql.spark.LakePlugin`.
 *
 * <p>`spark-sql`, the Thrift server, Spark Connect servers and Scala jobs have no Python to ask; the
 * driver starts one beside it. Executors load this class, and do nothing with it.
 */
public final class LakePlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return new PluginDriver();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return null;
  }
}
