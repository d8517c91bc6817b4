package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.Path;

/**
 * Which lake a path belongs to: asked of the lakes that are attached, or promised to a table that
 * is about to be created there.
 */
final class Homes {
  private static final Map<String, Bridge> LAKES = new ConcurrentHashMap<>();
  private static final Map<String, Home> PROMISED = new ConcurrentHashMap<>();

  private Homes() {}

  static void attach(Bridge bridge) {
    LAKES.put(bridge.catalog(), bridge);
    LogCache.forgetDetached();
  }

  static void detach(String catalog) {
    LAKES.remove(catalog);
    LogCache.forgetDetached();
  }

  /** Whether a lake still is, or is again, what is behind the name of its catalog. */
  static boolean isAttached(Bridge bridge) {
    return LAKES.get(bridge.catalog()) == bridge;
  }

  /** Raise if it is not. */
  static void mustBeAttached(Bridge bridge) {
    if (!isAttached(bridge)) {
      throw notAttached(bridge.catalog());
    }
  }

  static Bridge lake(String catalog) {
    Bridge found = LAKES.get(catalog);
    if (found == null) {
      throw notAttached(catalog);
    }
    return found;
  }

  private static LakeException notAttached(String catalog) {
    return new LakeException(
        "DELTASQL_NOT_ATTACHED",
        "no lake is attached as the catalog " + catalog
            + ". Attach it: deltasql.spark.attach(spark, lake, catalog=\"" + catalog + "\")");
  }

  /** The lake that has, or will have, a table at a path; null for everybody else's paths. */
  static Home find(Path dataPath) {
    Home promised = PROMISED.get(key(dataPath));
    if (promised != null) {
      return promised;
    }
    for (Bridge bridge : LAKES.values()) {
      JsonNode found = bridge.ask(Bridge.question("locate").put("path", dataPath.toString()));
      if (!found.isNull()) {
        return new Home(bridge, found.asText(), false);
      }
    }
    return null;
  }

  /** Let the log at a path be that of a table which the commit of its version 0 will name. */
  static void promise(Path dataPath, Bridge bridge, String name) {
    PROMISED.put(key(dataPath), new Home(bridge, name, true));
  }

  static void forget(Path dataPath) {
    PROMISED.remove(key(dataPath));
  }

  private static String key(Path dataPath) {
    String text = dataPath.toUri().getPath();
    String authority = dataPath.toUri().getAuthority();
    return authority == null ? text : authority + text;
  }

  /** A lake, and the name of the table in it. */
  static final class Home {
    final Bridge bridge;
    final String name;
    final boolean isPromised;

    Home(Bridge bridge, String name, boolean isPromised) {
      this.bridge = bridge;
      this.name = name;
      this.isPromised = isPromised;
    }
  }
}
