package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.delta.CapturedSnapshot;
import org.apache.spark.sql.delta.CheckpointInstance;
import org.apache.spark.sql.delta.CheckpointProvider;
import org.apache.spark.sql.delta.DeltaHistoryManager;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.DummySnapshot;
import org.apache.spark.sql.delta.LogSegment;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.Protocol;
import org.apache.spark.sql.delta.coordinatedcommits.TableCommitCoordinatorClient;
import org.apache.spark.sql.delta.storage.LogStore;
import org.apache.spark.sql.delta.storage.LogStoreAdaptor;
import org.apache.spark.util.Clock;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

/**
 * Delta's log of a table whose log is in SQL: `_delta_log` is neither read nor written.
 *
 * <p>The constructor of the superclass asks for the first snapshot before any field of ours is set:
 * whatever is needed then is found through the path.
 */
public final class SqlDeltaLog extends DeltaLog {
  private static final String VACUUM = "org.apache.spark.sql.delta.commands.VacuumCommand";
  private static final java.util.Map<Path, Homes.Home> HOMES = new ConcurrentHashMap<>();

  private final LogStore logStore;
  private final DeltaHistoryManager historyManager;
  private volatile boolean isGone;

  SqlDeltaLog(Path logPath, Path dataPath, Map<String, String> options, Clock clock) {
    super(logPath, dataPath, options, options, clock, Scala.none());
    this.logStore = new LogStoreAdaptor(new SqlLogStore(this));
    this.historyManager = new SqlHistory(this);
  }

  // --- where it is --------------------------------------------------------------------

  /** Its lake: the one that is attached now, else the one that was: frames stay readable. */
  Homes.Home home() {
    Homes.Home known = HOMES.get(dataPath());
    if (known != null && Homes.isAttached(known.bridge)) {
      return known;
    }
    Homes.Home found = Homes.find(dataPath());
    if (found == null && known == null) {
      throw new LakeException(
          "DELTASQL_TABLE_GONE", "there is no table of a lake at " + dataPath());
    }
    if (found == null) {
      return known;
    }
    HOMES.put(dataPath(), found);
    return found;
  }

  /** A question about this table. */
  ObjectNode question(String verb) {
    return Bridge.question(verb).put("path", dataPath().toString()).put("block", block());
  }

  /** The transaction that this log belongs to; null for the one that all others share. */
  String block() {
    Option<String> found = options().get(Blocks.OPTION);
    return found.isDefined() ? found.get() : null;
  }

  /** Two logs are the same, and so may what Spark keeps in memory, if these are. */
  @Override
  public Tuple2<String, Path> compositeId() {
    Tuple2<String, Path> shared = super.compositeId();
    return block() == null ? shared : new Tuple2<>(shared._1() + " in " + block(), shared._2());
  }

  JsonNode ask(ObjectNode question) {
    try {
      return home().bridge.ask(question);
    } catch (LakeException error) {
      throw Committed.told(error);
    }
  }

  /** Whether the log may be handed out again; else whoever asks has to look at the path anew. */
  boolean isCurrent() {
    return !isGone && tableExists() && isAttached();
  }

  /** Whether a lake that is attached now has, or had, the table. */
  boolean isAttached() {
    Homes.Home known = HOMES.get(dataPath());
    return known != null && Homes.isAttached(known.bridge);
  }

  /** Whether its table is yet to be created: one statement opens the log more than once. */
  boolean isAwaited() {
    return !isGone && !tableExists();
  }

  // --- snapshots ----------------------------------------------------------------------

  @Override
  public void createSnapshotAtInit(Option<CatalogTable> table) {
    HOMES.remove(dataPath());
    currentSnapshot_$eq(new CapturedSnapshot(load(null), clock().getTimeMillis()));
  }

  @Override
  public Snapshot updateInternal(boolean isAsync, Option<CatalogTable> table) {
    if (block() == null) {
      Blocks.checkOpenedOutside();
    }
    long now = clock().getTimeMillis();
    Snapshot known = currentSnapshot().snapshot();
    Snapshot newest = load(known);
    if (newest != known) {
      currentSnapshot_$eq(new CapturedSnapshot(newest, now));
    } else {
      installSnapshot(known, now);
    }
    return newest;
  }

  /** Go on with a snapshot that was just committed, unless a newer one is known by now. */
  Snapshot advance(SqlSnapshot committed) {
    return withSnapshotLockInterruptibly(
        new scala.runtime.AbstractFunction0<Snapshot>() {
          @Override
          public Snapshot apply() {
            Snapshot known = currentSnapshot().snapshot();
            boolean isOlder =
                known instanceof SqlSnapshot
                    ? ((SqlSnapshot) known).lakeTableId() == committed.lakeTableId()
                        && known.version() < committed.version()
                    : known.version() < 0;
            if (isOlder) {
              installSnapshot(committed, clock().getTimeMillis());
            }
            return committed;
          }
        });
  }

  /** The newest snapshot; `known` itself if it still is. */
  private Snapshot load(Snapshot known) {
    ObjectNode question = question("snapshot");
    if (known instanceof SqlSnapshot) {
      question.put("known", known.version()).put("table_id", ((SqlSnapshot) known).lakeTableId());
    }
    JsonNode found = ask(question);
    if (found.isNull()) {
      // Not yet, or no longer.
      isGone = known != null && known.version() >= 0;
      return new DummySnapshot(logPath(), this);
    }
    return found.has("unchanged") ? known : SqlSnapshot.of(this, found);
  }

  @Override
  public Snapshot getSnapshotAt(
      long version,
      Option<CheckpointInstance> hint,
      Option<CheckpointProvider> provider,
      Option<CatalogTable> table,
      boolean enforceRetention) {
    Snapshot known = currentSnapshot().snapshot();
    if (known.version() == version) {
      return known;
    }
    JsonNode found = ask(question("snapshot").put("version", version));
    if (found.isNull()) {
      throwNonExistentVersionError(version);
    }
    return SqlSnapshot.of(this, found);
  }

  LogSegment segment(long version, long timestamp) {
    FileStatus commit = SqlLogStore.status(logPath(), version, 1, timestamp);
    return LogSegment.apply(
        logPath(), version, Scala.seq(java.util.List.of(commit)), Scala.none(), timestamp);
  }

  @Override
  public Tuple2<LogSegment, Seq<FileStatus>> getUpdatedLogSegment(
      LogSegment old,
      Option<TableCommitCoordinatorClient> coordinator,
      Option<CatalogTable> table) {
    throw new IllegalStateException("deltasql checks conflicts itself");
  }

  // --- transactions -------------------------------------------------------------------

  @Override
  public OptimisticTransaction startTransaction(
      Option<CatalogTable> table, Option<Snapshot> snapshot) {
    if (block() == null) {
      Blocks.checkOpenedOutside();
    } else {
      Blocks.checkStatement();
    }
    // Before anything is written: the lake that was attached has let go of the session.
    Homes.mustBeAttached(home().bridge);
    Snapshot read = snapshot.isDefined() ? snapshot.get() : freshest(table);
    return new SqlTransaction(this, table, read);
  }

  @Override
  public <T> T withNewTransaction(
      Option<CatalogTable> table,
      Option<Snapshot> snapshot,
      scala.Function1<OptimisticTransaction, T> statement) {
    return super.withNewTransaction(
        table,
        snapshot,
        new scala.runtime.AbstractFunction1<OptimisticTransaction, T>() {
          @Override
          public T apply(OptimisticTransaction transaction) {
            try {
              return statement.apply(transaction);
            } finally {
              ((SqlTransaction) transaction).giveUp();
            }
          }
        });
  }

  Snapshot freshest(Option<CatalogTable> table) {
    return update(false, Scala.none(), table);
  }

  // --- what files would be there for ----------------------------------------------------

  @Override
  public LogStore store() {
    return logStore;
  }

  @Override
  public DeltaHistoryManager history() {
    return historyManager;
  }

  /**
   * Delta's VACUUM asks this first. It decides by a listing and by times alone, and knows neither
   * held versions nor writers at work, nor the clones that need a file: it must not delete here.
   */
  @Override
  public void protocolWrite(Protocol protocol) {
    boolean vacuums =
        StackWalker.getInstance()
            .walk(frames -> frames.anyMatch(frame -> frame.getClassName().startsWith(VACUUM)));
    if (vacuums) {
      throw new LakeException(
          "DELTASQL_VACUUM",
          "VACUUM does not delete the files of a lake's table\n"
              + "  cause: held versions, writers at work and clones are known to the lake alone\n"
              + "  remedy: CALL " + home().bridge.catalog() + ".system.vacuum(…) in SQL,"
              + " lake.table(name).vacuum() in Python, or `deltasql vacuum`");
    }
    super.protocolWrite(protocol);
  }

  @Override
  public void checkpoint(Snapshot snapshot, Option<CatalogTable> table) {}

  @Override
  public void checkpointAndCleanUpDeltaLog(Snapshot snapshot, Option<CatalogTable> table) {}

  @Override
  public void doLogCleanup(Snapshot snapshot, Option<CatalogTable> table) {}

  @Override
  public void createLogDirectoriesIfNotExists() {}
}
