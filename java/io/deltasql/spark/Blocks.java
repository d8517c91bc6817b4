package io.deltasql.spark;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.util.SystemClock;
import scala.Option;

/**
 * Open transactions, by the ids that Python knows them by: which one a thread or a session is in.
 *
 * <p>Each has logs of its own. Frames that were made inside see what the transaction sees, and
 * nothing that Spark keeps in memory for one of them is taken for another's.
 */
public final class Blocks {
  /** The id, and the thread that entered it; threads that are started there inherit it. */
  private static final String PROPERTY = "deltasql.transaction";
  /** In the options of a log: the constructor of Delta's asks before any field of ours is set. */
  static final String OPTION = "deltasql.block";

  private static final String STREAMS = "org.apache.spark.sql.classic.DataStreamWriter";
  private static final Map<String, String> SESSIONS = new ConcurrentHashMap<>();
  private static final Map<String, String> CATALOGS = new ConcurrentHashMap<>();
  private static final Map<String, Map<DeltaLog.DeltaLogCacheKey, SqlDeltaLog>> LOGS =
      new ConcurrentHashMap<>();

  /** What writes in other ways than a transaction can keep, by where Delta does it. */
  private static final String[][] REFUSED = {
    {"commands.Optimize", "OPTIMIZE"},
    {"commands.DeltaReorg", "REORG"},
    {"commands.Restore", "RESTORE"},
    {"commands.Clone", "CLONE"},
    {"commands.Alter", "ALTER TABLE"},
    {"commands.backfill.", "a backfill"},
    {"sources.DeltaSink", "a stream's write"},
  };

  private Blocks() {}

  /** The transaction that this thread is in, else that of its session; null outside. */
  static String current() {
    Option<SparkSession> active = SparkSession.getActiveSession();
    if (active.isEmpty()) {
      active = SparkSession.getDefaultSession();
    }
    if (active.isEmpty()) {
      return null;
    }
    SparkSession spark = active.get();
    String said = spark.sparkContext().getLocalProperty(PROPERTY);
    if (said == null) {
      return ofSession(spark);
    }
    String[] parts = said.split(" ");
    Thread thread = Thread.currentThread();
    boolean isStream = thread.getName().startsWith("stream execution thread");
    if (isStream && !parts[1].equals(Long.toString(thread.getId()))) {
      throw refused("a stream");
    }
    return parts[0];
  }

  /** The transaction that was begun in SQL, in this session. */
  public static String ofSession(SparkSession spark) {
    return SESSIONS.isEmpty() ? null : SESSIONS.get(key(spark));
  }

  static void begin(SparkSession spark, String block, String catalog) {
    CATALOGS.put(block, catalog);
    SESSIONS.put(key(spark), block);
  }

  /** Whether a transaction was begun in a catalog: no other one can end it. */
  static boolean isOf(String block, String catalog) {
    return catalog.equals(CATALOGS.get(block));
  }

  /** The transaction has ended. */
  public static void ended(String block) {
    SESSIONS.values().remove(block);
    CATALOGS.remove(block);
    LOGS.remove(block);
    CachedPlans.dropOf(block);
  }

  private static String key(SparkSession spark) {
    return ((org.apache.spark.sql.classic.SparkSession) spark).sessionUUID();
  }

  /** The log of a lake's table for a transaction; null for everybody else's paths. */
  static DeltaLog log(String block, DeltaLog.DeltaLogCacheKey key) {
    Map<DeltaLog.DeltaLogCacheKey, SqlDeltaLog> logs =
        LOGS.computeIfAbsent(block, id -> new ConcurrentHashMap<>());
    SqlDeltaLog known = logs.get(key);
    if (known != null) {
      return known;
    }
    Homes.Home home = Homes.find(key.path().getParent());
    if (home == null || home.isPromised) {
      return null;
    }
    // Twice would do no harm: what the transaction sees is not kept in its logs.
    SqlDeltaLog made =
        new SqlDeltaLog(
            key.path(),
            key.path().getParent(),
            key.fsOptions().updated(OPTION, block),
            new SystemClock());
    SqlDeltaLog first = logs.putIfAbsent(key, made);
    return first == null ? made : first;
  }

  /** Raise what can't take part, before it has written anything. */
  static void checkStatement() {
    String delta = "org.apache.spark.sql.delta.";
    String found =
        StackWalker.getInstance()
            .walk(
                frames ->
                    frames
                        .map(frame -> frame.getClassName())
                        .filter(name -> name.startsWith(delta))
                        .map(name -> word(name.substring(delta.length())))
                        .filter(word -> word != null)
                        .findFirst()
                        .orElse(null));
    if (found != null) {
      throw refused(found);
    }
  }

  private static String word(String className) {
    for (String[] item : REFUSED) {
      if (className.startsWith(item[0])) {
        return item[1];
      }
    }
    return null;
  }

  /** A stream outlasts the statement that starts it, in a session of its own: it is in no one. */
  static void checkNoStream() {
    boolean isStarted =
        current() != null
            && StackWalker.getInstance()
                .walk(frames -> frames.anyMatch(frame -> frame.getClassName().equals(STREAMS)));
    if (isStarted) {
      throw refused("a stream");
    }
  }

  /** What was opened outside does not see the transaction: raise, unless Spark's cache asks. */
  static void checkOpenedOutside() {
    if (current() == null || isForCache()) {
      return;
    }
    throw new LakeException(
        "DELTASQL_VALIDATION",
        "the table was opened before the transaction began\n"
            + "  cause: the frame would not see what the transaction sees\n"
            + "  remedy: open it again inside of it: spark.table(…), DeltaTable.forName(…)");
  }

  private static boolean isForCache() {
    return StackWalker.getInstance()
        .walk(
            frames ->
                frames.anyMatch(
                    frame ->
                        frame.getClassName()
                            .startsWith("org.apache.spark.sql.execution.CacheManager")));
  }

  private static LakeException refused(String what) {
    return new LakeException(
        "DELTASQL_VALIDATION",
        what + " can't be part of a transaction\n"
            + "  cause: a transaction changes the rows of tables that exist: INSERT, UPDATE,"
            + " DELETE, MERGE\n"
            + "  remedy: run it before the transaction begins, or after it has ended");
  }
}
