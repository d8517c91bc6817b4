package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.delta.CurrentTransactionInfo;
import org.apache.spark.sql.delta.DeltaOperations;
import org.apache.spark.sql.delta.DeltaTableReadPredicate;
import org.apache.spark.sql.delta.IsolationLevel;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.Protocol;
import org.apache.spark.sql.delta.hooks.PostCommitHook;
import scala.Option;
import scala.Tuple2;
import scala.Tuple3;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A transaction of Delta's, up to the commit: that is the lake's, by its own conflict rules.
 *
 * <p>The actions come prepared, with what was read to make them. Nothing is retried here: what
 * comes back is the version, or the conflict.
 */
public final class SqlTransaction extends OptimisticTransaction {
  private static final String LAST_VERSION = "spark.databricks.delta.lastCommitVersionInSession";
  /** All others write to `_delta_log`, or to a catalog that does not have the table. */
  private static final Set<String> HOOKS = Set.of("AutoCompact$", "GenerateSymlinkManifest$");

  private final SqlDeltaLog log;
  private final Writing writing;

  SqlTransaction(SqlDeltaLog log, Option<CatalogTable> table, Snapshot snapshot) {
    super(log, table, snapshot);
    this.log = log;
    this.writing = Writing.begin(this, log);
  }

  @Override
  public Option<Object> commitImpl(
      Seq<Action> actions,
      DeltaOperations.Operation operation,
      boolean canSkipEmptyCommits,
      Map<String, String> tags) {
    try {
      return super.commitImpl(actions, operation, canSkipEmptyCommits, tags);
    } finally {
      giveUp();
    }
  }

  /** Whatever becomes of it, nothing is written any more. */
  void giveUp() {
    writing.end();
  }

  @Override
  public Tuple3<Object, Snapshot, CurrentTransactionInfo> doCommitRetryIteratively(
      long attemptVersion, CurrentTransactionInfo info, IsolationLevel isolation) {
    ObjectNode question = question(info.txnId());
    question.put("isolation", isolation.toString());
    question.put("high_water_mark", info.readRowIdHighWatermark());
    question.put("reads_everything", info.readWholeTable());
    ArrayNode reads = question.putArray("reads");
    for (DeltaTableReadPredicate read : Scala.list(info.readPredicates())) {
      ArrayNode texts = reads.addArray();
      Scala.list(read.partitionPredicates()).forEach(item -> text(item, read, texts));
      Scala.list(read.dataPredicates()).forEach(item -> text(item, read, texts));
    }
    List<String> lines = new ArrayList<>();
    ArrayNode files = Bridge.MAPPER.createArrayNode();
    CollectionConverters.asJava(info.readFiles()).forEach(file -> files.add(file.path()));
    lines.add(files.toString());
    for (Action action : Scala.list(info.finalActionsToCommit())) {
      lines.add(action.json());
    }
    JsonNode committed = send(question, lines);
    Snapshot after = after(committed);
    noteForCompaction(info.finalActionsToCommit());
    return new Tuple3<>(version(committed), after, info);
  }

  /** Auto compaction looks only where files were added; Delta counts them in what is overridden. */
  private void noteForCompaction(Seq<Action> actions) {
    if (log.block() != null) {
      return;
    }
    var partitions = new scala.collection.mutable.HashSet<Map<String, String>>();
    for (Action action : Scala.list(actions)) {
      if (action instanceof AddFile) {
        partitions.add(((AddFile) action).partitionValues());
      }
    }
    try {
      partitionsAddedToOpt_$eq(Scala.some(partitions));
      collectAutoOptimizeStatsAndFinalize(actions, log.unsafeVolatileTableId());
    } catch (RuntimeException error) {
      // The commit stands: files stay as small as they are.
      System.getLogger("io.deltasql.spark")
          .log(System.Logger.Level.WARNING, "auto compaction failed; files stay as they are", error);
    }
  }

  /** A predicate on Delta's own form of partition values has no words that we know. */
  private static void text(Expression item, DeltaTableReadPredicate read, ArrayNode texts) {
    if (read.shouldRewriteFilter()) {
      Filters.write(item, texts);
    } else {
      texts.add("");
    }
  }

  /** RESTORE and clones: many actions, and no other commit in between. */
  @Override
  public Tuple2<Object, Snapshot> commitLarge(
      SparkSession spark,
      scala.collection.Iterator<Action> actions,
      Option<Protocol> newProtocol,
      DeltaOperations.Operation operation,
      Map<String, String> context,
      Map<String, String> metrics) {
    newProtocol_$eq(newProtocol);
    updateMetadataAndProtocolWithRequiredFeatures(
        newMetadata(), newProtocol.isDefined() ? Scala.seq(List.of(newProtocol.get())) : Scala.seq(List.of()));
    List<String> lines = new ArrayList<>();
    lines.add("[]");
    lines.add(commitInfo(operation, metrics));
    if (this.newProtocol().isDefined()) {
      lines.add(this.newProtocol().get().json());
    }
    if (newMetadata().isDefined()) {
      lines.add(newMetadata().get().json());
    }
    while (actions.hasNext()) {
      lines.add(actions.next().json());
    }
    ObjectNode question = question(txnId()).put("pinned", true);
    question.put("high_water_mark", Long.MAX_VALUE);
    try {
      JsonNode committed = send(question, lines);
      return new Tuple2<>(version(committed), after(committed));
    } finally {
      if (!(snapshot() instanceof SqlSnapshot)) {
        // A clone, whose path was promised when Delta asked for it.
        Homes.forget(log.dataPath());
      }
    }
  }

  private String commitInfo(DeltaOperations.Operation operation, Map<String, String> metrics) {
    ObjectNode info = Bridge.MAPPER.createObjectNode();
    info.put("operation", operation.name());
    ObjectNode parameters = info.putObject("operationParameters");
    CollectionConverters.asJava(operation.jsonEncodedValues())
        .forEach((key, json) -> parameters.putRawValue(key, new com.fasterxml.jackson.databind.util.RawValue(json)));
    ObjectNode values = info.putObject("operationMetrics");
    CollectionConverters.asJava(metrics).forEach(values::put);
    Option<String> user = getUserMetadata(operation);
    if (user.isDefined()) {
      info.put("userMetadata", user.get());
    }
    info.put("isBlindAppend", false).put("isolationLevel", "Serializable").put("txnId", txnId());
    ObjectNode line = Bridge.MAPPER.createObjectNode();
    line.set("commitInfo", info);
    return line.toString();
  }

  private ObjectNode question(String txnId) {
    ObjectNode question = log.question("commit").put("txn_id", txnId);
    Homes.Home home = log.home();
    if (snapshot() instanceof SqlSnapshot) {
      question.put("table_id", ((SqlSnapshot) snapshot()).lakeTableId());
      question.put("read_version", snapshot().version());
    } else {
      question.put("create", home.name);
    }
    org.apache.spark.sql.classic.SparkSession spark =
        (org.apache.spark.sql.classic.SparkSession) SparkSession.active();
    question.put("time_zone", spark.sessionState().conf().sessionLocalTimeZone());
    return question;
  }

  private static Object version(JsonNode committed) {
    return committed.get("version").asLong();
  }

  /**
   * The snapshot of the commit, or a newer one. Nothing is asked for: the commit stands, and what
   * follows can't fail it. Of one that could not be told, the snapshot that was read is returned,
   * and the next statement asks.
   */
  private Snapshot after(JsonNode committed) {
    if (committed.has("snapshot")) {
      return log.advance(SqlSnapshot.of(log, committed.get("snapshot")));
    }
    return committed.has("timestamp") && snapshot() instanceof SqlSnapshot
        ? log.advance(((SqlSnapshot) snapshot()).followedBy(committed))
        : snapshot();
  }

  private JsonNode send(ObjectNode question, List<String> lines) {
    // Deleted here, when the answer is known: it may have to be asked for again.
    String actions = Transfer.give(lines);
    question.put("actions", actions).put("write", writing.id());
    JsonNode committed;
    try {
      committed = log.ask(question);
    } finally {
      Transfer.discard(actions);
      writing.isAnswered();
    }
    commitEndNano_$eq(System.nanoTime());
    long version = committed.get("version").asLong();
    boolean isStaged = log.block() != null;
    if (!isStaged) {
      Committed.note(log.dataPath(), version);
      ((org.apache.spark.sql.classic.SparkSession) SparkSession.active())
          .sessionState().conf().setConfString(LAST_VERSION, Long.toString(version));
      CachedPlans.dropUnreadable();
    }
    // They work on the snapshot of the commit.
    boolean isTold = committed.has("snapshot") || committed.has("timestamp");
    unregisterPostCommitHooksWhere(
        new scala.runtime.AbstractFunction1<PostCommitHook, Object>() {
          @Override
          public Object apply(PostCommitHook hook) {
            return isStaged || !isTold || !HOOKS.contains(hook.getClass().getSimpleName());
          }
        });
    return committed;
  }

  @Override
  public OptimisticTransaction split(Seq<AddFile> files) {
    SqlTransaction part = new SqlTransaction(log, catalogTable(), snapshot());
    part.readPredicates().addAll(readPredicates());
    part.readFiles().addAll(Scala.list(files));
    part.readTxn().appendAll(readTxn());
    return part;
  }
}
