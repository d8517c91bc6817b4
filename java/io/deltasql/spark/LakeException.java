package io.deltasql.spark;

import java.util.Map;
import org.apache.spark.SparkThrowable;

/**
 * A failure of the lake for which neither Spark nor Delta has a class of its own.
 *
 * <p>Of a class that PySpark knows, so that it is no bare error of the gateway there.
 */
public final class LakeException extends IllegalArgumentException implements SparkThrowable {
  private final String condition;

  LakeException(String condition, String message) {
    super("[" + condition + "] " + message);
    this.condition = condition;
  }

  @Override
  public String getCondition() {
    return condition;
  }

  @Override
  public Map<String, String> getMessageParameters() {
    return Map.of();
  }
}
