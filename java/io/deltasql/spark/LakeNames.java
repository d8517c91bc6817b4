package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogExtension;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The names in a lake: what Delta's catalog delegates. */
final class LakeNames implements CatalogExtension {
  private final String name;

  LakeNames(String name) {
    this.name = name;
  }

  private JsonNode ask(ObjectNode question) {
    return Homes.lake(name).ask(question.put("block", Blocks.current()));
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {}

  @Override
  public void setDelegateCatalog(CatalogPlugin delegate) {}

  // --- tables -------------------------------------------------------------------------

  @Override
  public Identifier[] listTables(String[] namespace) {
    mustBeWords(namespace);
    List<Identifier> found = new ArrayList<>();
    for (JsonNode item : ask(Names.question("tables", namespace))) {
      found.add(Identifier.of(namespace, item.asText()));
    }
    return found.toArray(new Identifier[0]);
  }

  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    throw new NoSuchTableException(ident);
  }

  @Override
  public Table createTable(
      Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties) {
    // Delta's catalog creates its own: what gets here is LIKE a table of another format.
    throw new LakeException(
        "DELTASQL_NOT_DELTA",
        "the catalog " + name + " has Delta tables only, and " + Names.of(ident)
            + " would have the format of the table that it is like. Add USING delta");
  }

  @Override
  public Table alterTable(Identifier ident, TableChange... changes) throws NoSuchTableException {
    throw new NoSuchTableException(ident);
  }

  @Override
  public boolean dropTable(Identifier ident) {
    return drop(ident, false);
  }

  @Override
  public boolean purgeTable(Identifier ident) {
    return drop(ident, true);
  }

  private boolean drop(Identifier ident, boolean purge) {
    if (!Names.areWords(ident)) {
      return false;
    }
    return ask(Names.question("drop", ident).put("purge", purge)).asBoolean();
  }

  @Override
  public void renameTable(Identifier ident, Identifier renamed) {
    Identifier to = target(ident, renamed);
    ObjectNode question = Names.question("rename", ident);
    ask(question.put("to", Names.of(to)).put("is_name", Names.areWords(to)));
  }

  /** Spark hands over whatever stands after TO, with or without the name of a catalog. */
  private Identifier target(Identifier ident, Identifier renamed) {
    String[] parts = renamed.namespace();
    if (parts.length == 0) {
      return Identifier.of(ident.namespace(), renamed.name());
    }
    if (parts[0].equals(name)) {
      return Identifier.of(Arrays.copyOfRange(parts, 1, parts.length), renamed.name());
    }
    if (isCatalog(parts[0])) {
      throw new LakeException(
          "DELTASQL_VALIDATION",
          name + "." + Names.of(ident) + " can't be renamed to " + Names.of(renamed) + "\n"
              + "  cause: " + parts[0] + " is another catalog\n"
              + "  remedy: choose a name in " + name + "; for its own namespace " + parts[0]
              + " write " + name + "." + Names.of(renamed));
    }
    return renamed;
  }

  private static boolean isCatalog(String word) {
    return ((org.apache.spark.sql.classic.SparkSession) SparkSession.active())
        .sessionState()
        .catalogManager()
        .isCatalogRegistered(word);
  }

  // --- namespaces ---------------------------------------------------------------------

  @Override
  public String[] defaultNamespace() {
    return new String[0];
  }

  @Override
  public String[][] listNamespaces() {
    return listNamespaces(new String[0]);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) {
    mustBeWords(namespace);
    List<String[]> found = new ArrayList<>();
    for (JsonNode item : ask(Names.question("namespaces", namespace))) {
      found.add(Names.parts(item.asText()));
    }
    return found.toArray(new String[0][]);
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return Names.areWords(namespace)
        && !ask(Names.question("namespace", namespace)).isNull();
  }

  /** A namespace with a dot inside one of its words is not there, whatever the nested one is. */
  private static void mustBeWords(String[] namespace) {
    if (!Names.areWords(namespace)) {
      throw Raise.unchecked(new NoSuchNamespaceException(namespace));
    }
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) {
    mustBeWords(namespace);
    JsonNode found =
        ask(Names.question("namespace", namespace).put("must", true));
    Map<String, String> properties = new java.util.HashMap<>();
    found.fields().forEachRemaining(item -> properties.put(item.getKey(), item.getValue().asText()));
    return properties;
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> properties) {
    ObjectNode question = Names.question("create_namespace", namespace);
    question.put("is_name", Names.areWords(namespace));
    properties.forEach(question.putObject("properties")::put);
    ask(question);
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    mustBeWords(namespace);
    ObjectNode question = Names.question("alter_namespace", namespace);
    ObjectNode properties = question.putObject("properties");
    for (NamespaceChange change : changes) {
      if (change instanceof NamespaceChange.SetProperty) {
        var set = (NamespaceChange.SetProperty) change;
        properties.put(set.property(), set.value());
      } else {
        properties.putNull(((NamespaceChange.RemoveProperty) change).property());
      }
    }
    ask(question);
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    mustBeWords(namespace);
    return ask(Names.question("drop_namespace", namespace).put("cascade", cascade)).asBoolean();
  }

  // --- functions: a lake has none -----------------------------------------------------

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    return new Identifier[0];
  }

  @Override
  public UnboundFunction loadFunction(Identifier ident) throws NoSuchFunctionException {
    throw new NoSuchFunctionException(ident);
  }
}
