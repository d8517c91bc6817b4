package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType$;
import org.apache.spark.sql.catalyst.catalog.CatalogUtils$;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.delta.catalog.DeltaCatalogV1;
import org.apache.spark.sql.delta.catalog.DeltaTableV2;
import org.apache.spark.sql.delta.commands.TableCreationModes;
import org.apache.spark.sql.delta.tablefeatures.DropFeature;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * A lake as a catalog of Spark: `spark.sql.catalog.NAME=io.deltasql.spark.LakeCatalog`.
 *
 * <p>Delta's own catalog does the work. Tables are created by path, and the commit of version 0
 * gives them their names. Delta's connector on its kernel would go round the log, so that this is
 * the one without it.
 */
public final class LakeCatalog extends DeltaCatalogV1 implements ProcedureCatalog {
  private static final String STORAGE = "org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat";
  private static final String TABLE = "org.apache.spark.sql.catalyst.catalog.CatalogTable";

  private static final String FRAME_WRITER = "org.apache.spark.sql.classic.DataFrameWriter";
  private static final String BUILDER = "io.delta.tables.DeltaTableBuilder";
  private static final String MAPPING = "delta.columnMapping.mode";
  private static final String ANALYSIS = "org.apache.spark.sql.delta.DeltaAnalysis";

  private final Map<String, CatalogTable> replaced = new ConcurrentHashMap<>();
  /** What the thread is about to change, and what was found of it. */
  private final ThreadLocal<Map.Entry<Identifier, JsonNode>> altered = new ThreadLocal<>();
  private String name;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    setDelegateCatalog(new LakeNames(name));
    super.initialize(name, options);
  }

  @Override
  public String name() {
    return name;
  }

  private Bridge lake() {
    return Homes.lake(name);
  }

  @Override
  public UnboundProcedure loadProcedure(Identifier ident) {
    return LakeProcedure.load(lake(), ident);
  }

  @Override
  public Identifier[] listProcedures(String[] namespace) {
    return LakeProcedure.list(lake(), namespace);
  }

  // --- tables that are there ------------------------------------------------------------

  @Override
  public Table loadTable(Identifier ident) {
    Blocks.checkNoStream();
    if (isPathIdentifier(ident)) {
      return loadPathTable(ident);
    }
    JsonNode found = find(ident);
    if (found.isNull()) {
      throw Raise.unchecked(new NoSuchTableException(qualified(ident)));
    }
    return loadCatalogTable(ident, describe(ident, found));
  }

  @Override
  public boolean tableExists(Identifier ident) {
    return isPathIdentifier(ident) ? super.tableExists(ident) : !find(ident).isNull();
  }

  private JsonNode find(Identifier ident) {
    if (!Names.areWords(ident)) {
      return com.fasterxml.jackson.databind.node.NullNode.getInstance();
    }
    Map.Entry<Identifier, JsonNode> known = altered.get();
    if (known != null && known.getKey().equals(ident)) {
      return known.getValue();
    }
    return lake().ask(Names.question("table", ident));
  }

  /**
   * Delta gives a table its name without the catalog, and what looks it up again by that name finds
   * another catalog's: DETAIL, GENERATE, SET LOCATION … Without a name they take the path.
   */
  @Override
  public Table loadCatalogTable(Identifier ident, CatalogTable table) {
    return DeltaTableV2.apply(
        spark(),
        new Path(table.location()),
        Scala.some(table),
        Scala.none(),
        scala.collection.immutable.Map$.MODULE$.<String, String>empty(),
        Scala.none());
  }

  private Identifier qualified(Identifier ident) {
    String[] space = new String[ident.namespace().length + 1];
    space[0] = name;
    System.arraycopy(ident.namespace(), 0, space, 1, ident.namespace().length);
    return Identifier.of(space, ident.name());
  }

  private CatalogTable describe(Identifier ident, JsonNode found) {
    Map<Integer, Object> storage = new HashMap<>();
    storage.put(1, Scala.some(CatalogUtils$.MODULE$.stringToURI(found.get("location").asText())));
    for (int i = 2; i <= 4; i++) {
      storage.put(i, Scala.none());
    }
    storage.put(5, false);
    storage.put(6, scala.collection.immutable.Map$.MODULE$.empty());
    Map<Integer, Object> table = new HashMap<>();
    // With a catalog goes a database: that of a table without one is empty.
    String space = Names.of(ident.namespace());
    table.put(1, new TableIdentifier(ident.name(), Scala.some(space), Scala.some(name)));
    table.put(
        2,
        found.get("is_managed").asBoolean()
            ? CatalogTableType$.MODULE$.MANAGED()
            : CatalogTableType$.MODULE$.EXTERNAL());
    table.put(3, Scala.build(STORAGE, storage));
    table.put(4, new StructType());
    table.put(5, Scala.some("delta"));
    return (CatalogTable) Scala.build(TABLE, table);
  }

  /** Found once: after the change, which is a commit, a second look could fail. */
  @Override
  public Table alterTable(Identifier ident, TableChange... changes) {
    if (isPathIdentifier(ident)) {
      return super.alterTable(ident, changes);
    }
    mustStay(ident, changes);
    altered.set(Map.entry(ident, find(ident)));
    try {
      boolean isFeature = changes.length == 1 && changes[0] instanceof DropFeature;
      return isFeature && dropFeature(ident, (DropFeature) changes[0])
          ? loadTable(ident)
          : super.alterTable(ident, changes);
    } finally {
      altered.remove();
    }
  }

  /** Delta's SET LOCATION is a change of the session's own catalog. */
  private static void mustStay(Identifier ident, TableChange[] changes) {
    for (TableChange change : changes) {
      if (change instanceof TableChange.SetProperty
          && ((TableChange.SetProperty) change).property().equals(TableCatalog.PROP_LOCATION)) {
        throw new LakeException(
            "DELTASQL_VALIDATION",
            "the location of " + Names.of(ident) + " can't be changed\n"
                + "  cause: the log in the database is that of the files at one place\n"
                + "  remedy: adopt the Delta table at the other place under a name of its own");
      }
    }
  }

  /** A feature goes by the lake's own verb: Delta's would rest on checkpoints of its own. */
  private boolean dropFeature(Identifier ident, DropFeature wanted) {
    if (find(ident).isNull()) {
      return false;
    }
    var question = Names.question("drop_feature", ident);
    question.put("feature", wanted.featureName()).put("truncate", wanted.truncateHistory());
    return lake().ask(question.put("block", Blocks.current())).asBoolean();
  }

  // --- new tables -----------------------------------------------------------------------

  @Override
  public Table createTable(
      Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties) {
    if (isPathIdentifier(ident)) {
      return super.createTable(ident, schema, partitions, properties);
    }
    Path place = promise(ident, properties, false).path;
    if (isForClone()) {
      return loadPathTable(byPath(place));
    }
    try {
      // Created, and not looked up by its name: that could fail, and nobody needs it.
      return super.createTable(byPath(place), schema, partitions, forDelta(properties));
    } finally {
      Homes.forget(place);
    }
  }

  /**
   * Delta creates the target of a clone first, empty, to learn its path. That is promised, and
   * stays so: the clone itself makes version 0, or there is no table.
   */
  private static boolean isForClone() {
    return StackWalker.getInstance()
        .walk(
            frames ->
                frames.anyMatch(
                    frame ->
                        frame.getClassName().startsWith(ANALYSIS)
                            && frame.getMethodName().contains("resolveCloneCommand")));
  }

  /** CREATE TABLE … LIKE, which Spark 4.1 does not ask of catalogs. */
  @Override
  public Table createTableLike(Identifier ident, TableInfo like, Table source) {
    if (isPathIdentifier(ident)) {
      return super.createTableLike(ident, like, source);
    }
    Path place = promise(ident, like.properties(), false).path;
    try {
      return super.createTableLike(byPath(place), like, source);
    } finally {
      Homes.forget(place);
    }
  }

  @Override
  public StagedTable stageCreate(
      Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties) {
    if (isPathIdentifier(ident)) {
      return super.stageCreate(ident, schema, partitions, properties);
    }
    Path place = promise(ident, properties, false).path;
    return new Promised(
        super.stageCreate(byPath(place), schema, partitions, forDelta(properties)), place);
  }

  @Override
  public StagedTable stageReplace(
      Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties) {
    if (isPathIdentifier(ident)) {
      return super.stageReplace(ident, schema, partitions, properties);
    }
    Place place = promise(ident, properties, true);
    Map<String, String> kept = place.keepMapping(forDelta(properties));
    return new Promised(
        super.stageReplace(byPath(place.path), schema, partitions, kept), place.path);
  }

  @Override
  public StagedTable stageCreateOrReplace(
      Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties) {
    if (isPathIdentifier(ident)) {
      return super.stageCreateOrReplace(ident, schema, partitions, properties);
    }
    Place place = promise(ident, properties, true);
    Map<String, String> kept = place.keepMapping(forDelta(properties));
    return new Promised(
        super.stageCreateOrReplace(byPath(place.path), schema, partitions, kept), place.path);
  }

  /** Where the table is, or will be; a new one's path is promised to its name. */
  private Place promise(Identifier ident, Map<String, String> properties, boolean mayExist) {
    mustBeFoundAgain(ident);
    String provider = properties.getOrDefault(TableCatalog.PROP_PROVIDER, "delta");
    if (!provider.equalsIgnoreCase("delta") && !isFramesDefault(provider)) {
      throw new LakeException(
          "DELTASQL_NOT_DELTA",
          "the catalog " + name + " has Delta tables only, and " + Names.of(ident) + " is USING "
              + provider + ". Write USING delta, or leave it out; a stream needs format(\"delta\")");
    }
    var question = Names.question("place", ident).put("may_exist", mayExist);
    question.put("is_name", Names.areWords(ident));
    String location = properties.get(TableCatalog.PROP_LOCATION);
    if (location != null) {
      question.put("location", location);
    }
    JsonNode found = lake().ask(question.put("block", Blocks.current()));
    Path place = new Path(found.get("location").asText());
    if (found.get("is_new").asBoolean()) {
      Homes.promise(place, lake(), found.get("name").asText());
    } else {
      replaced.put(place.toString(), describe(ident, find(ident)));
    }
    return new Place(place, found.path("column_mapping").asText("none"));
  }

  /** `saveAsTable` without a format names the session's default, whatever the catalog. */
  private boolean isFramesDefault(String provider) {
    var conf = ((org.apache.spark.sql.classic.SparkSession) spark()).sessionState().conf();
    return provider.equalsIgnoreCase(conf.defaultDataSourceName())
        && StackWalker.getInstance()
            .walk(frames -> frames.anyMatch(frame -> frame.getClassName().equals(FRAME_WRITER)));
  }

  /** Delta's builder looks the table that it has made up in Spark's own catalog, and fails. */
  private static void mustBeFoundAgain(Identifier ident) {
    boolean isBuilt =
        StackWalker.getInstance()
            .walk(frames -> frames.anyMatch(frame -> frame.getClassName().equals(BUILDER)));
    if (isBuilt) {
      throw new LakeException(
          "DELTASQL_VALIDATION",
          "DeltaTable.create and its variants can't create " + Names.of(ident) + "\n"
              + "  cause: Delta would look for the new table in spark_catalog, and not find it\n"
              + "  remedy: CREATE TABLE in SQL, or frame.writeTo(name).create()");
    }
  }

  /** Delta must know that there is a table to be replaced: it would not ask by its path. */
  @Override
  public Option<CatalogTable> getExistingTableIfExists(
      TableIdentifier table, Option<Identifier> ident, TableCreationModes.CreationMode mode) {
    CatalogTable known = replaced.remove(table.table());
    return known != null && mode != TableCreationModes.Create$.MODULE$
        ? Scala.some(known)
        : super.getExistingTableIfExists(table, ident, mode);
  }

  /** Where a table is or will be, and the column mapping of one that is there. */
  private static final class Place {
    final Path path;
    private final String mapping;

    Place(Path path, String mapping) {
      this.path = path;
      this.mapping = mapping;
    }

    /**
     * A statement that replaces the table and does not say how columns are mapped keeps it: older
     * versions and their changes are read by it.
     */
    Map<String, String> keepMapping(Map<String, String> properties) {
      boolean isSaid = properties.keySet().stream().anyMatch(MAPPING::equalsIgnoreCase);
      if (!isSaid && !mapping.equals("none")) {
        properties.put(MAPPING, mapping);
      }
      return properties;
    }
  }

  private static Identifier byPath(Path place) {
    return Identifier.of(new String[] {"delta"}, place.toString());
  }

  /** Delta looks at the provider, which is the session's default where it is not said. */
  private static Map<String, String> forDelta(Map<String, String> properties) {
    Map<String, String> found = new HashMap<>(properties);
    found.put(TableCatalog.PROP_PROVIDER, "delta");
    found.remove(TableCatalog.PROP_LOCATION);
    found.remove(TableCatalog.PROP_OWNER);
    return found;
  }
}
