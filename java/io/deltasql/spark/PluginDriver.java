package io.deltasql.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.sql.internal.SQLConf;
import scala.Tuple2;

/** The driver's half of the plugin: a Python process, and a catalog for each lake that it opened. */
final class PluginDriver implements DriverPlugin {
  static final String PREFIX = "spark.deltasql.";
  private static final String DELTA = "spark.databricks.delta.";
  private static final String EXTENSIONS = "spark.sql.extensions";
  private static final String EXTENSION = "io.delta.sql.DeltaSparkSessionExtension";
  private static final List<String> KEYS = List.of("profile", "url", "location");

  private final Set<String> catalogs = new LinkedHashSet<>();
  private PluginProcess process;

  /** Called while the context starts: what is set here, every session has. */
  @Override
  public Map<String, String> init(SparkContext context, PluginContext plugin) {
    SparkConf conf = context.conf();
    ObjectNode lakes = lakes(conf);
    process = new PluginProcess(conf, lakes, deltaVersion(), context.hadoopConfiguration());
    process.start();
    for (String name : catalogs) {
      Homes.attach(new Bridge(name, question -> process.ask(name, question)));
      conf.set("spark.sql.catalog." + name, LakeCatalog.class.getName());
    }
    // Delta's connector on its kernel reads `_delta_log` itself, round the log.
    conf.set(DELTA + "v2.enableMode", "NONE");
    conf.setIfMissing(DELTA + "requiredSparkConfsCheck.enabled", "false");
    conf.set(EXTENSIONS, withDelta(conf.get(EXTENSIONS, "")));
    LogCache.install(forDelta(conf));
    return Map.of();
  }

  @Override
  public void shutdown() {
    catalogs.forEach(Homes::detach);
    if (process != null) {
      process.end();
    }
  }

  /** How each catalog's lake is opened; without a word, from the environment and deltasql.toml. */
  private ObjectNode lakes(SparkConf conf) {
    ObjectNode lakes = Bridge.MAPPER.createObjectNode();
    for (String text : conf.get(PREFIX + "catalogs", "lake").split(",")) {
      String name = text.trim();
      if (name.isEmpty()) {
        continue;
      }
      catalogs.add(name);
      ObjectNode lake = lakes.putObject(name);
      for (String key : KEYS) {
        String value = conf.get(PREFIX + "catalog." + name + "." + key, "");
        if (!value.isEmpty()) {
          lake.put(key, value);
        }
      }
    }
    return lakes;
  }

  private static String deltaVersion() {
    try {
      // The name of its class is a word of Java's.
      return (String)
          Scala.class.getClassLoader().loadClass("io.delta.package").getMethod("VERSION").invoke(null);
    } catch (ReflectiveOperationException error) {
      return "";
    }
  }

  private static String withDelta(String given) {
    List<String> found = new ArrayList<>(List.of(given.split(",")));
    found.removeIf(String::isBlank);
    if (!found.contains(EXTENSION)) {
      found.add(EXTENSION);
    }
    return String.join(",", found);
  }

  /** There is no session yet; the cache of logs is made by Delta's own settings. */
  private static SQLConf forDelta(SparkConf conf) {
    SQLConf found = new SQLConf();
    for (Tuple2<String, String> item : conf.getAllWithPrefix(DELTA)) {
      found.setConfString(DELTA + item._1(), item._2());
    }
    return found;
  }
}
