package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ref.SoftReference;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionSet;
import org.apache.spark.sql.catalyst.expressions.ExpressionSet$;
import org.apache.spark.sql.delta.LogSegment;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.VersionChecksum;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.DomainMetadata;
import org.apache.spark.sql.delta.actions.SetTransaction;
import org.apache.spark.sql.delta.actions.SingleAction;
import org.apache.spark.sql.delta.actions.SingleAction$;
import org.apache.spark.sql.delta.coordinatedcommits.TableCommitCoordinatorClient;
import org.apache.spark.sql.delta.stats.DataSize;
import org.apache.spark.sql.delta.stats.DeltaDataSkippingType$;
import org.apache.spark.sql.delta.stats.DeltaScan;
import org.apache.spark.sql.delta.util.JsonUtils$;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * A version of a table in SQL. What is known without its files comes as the JSON of a version
 * checksum; files come on demand, skipped in the database by the filters of the query.
 */
public final class SqlSnapshot extends Snapshot {
  private static final String COMMIT_TIME = "inCommitTimestampOpt";
  private static final String DETAIL =
      "org.apache.spark.sql.delta.commands.DescribeDeltaDetailCommand";
  /** Lists of files that are kept at most, and how long one may be. */
  private static final int MOST_LISTS = 8;
  private static final int MOST_KEPT = 200_000;

  private final SqlDeltaLog log;
  private final long lakeTableId;
  private final JsonNode told;
  private final Map<String, SoftReference<AddFile[]>> lists =
      Collections.synchronizedMap(
          new LinkedHashMap<>() {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, SoftReference<AddFile[]>> item) {
              return size() > MOST_LISTS;
            }
          });
  /** How many files there are, and their bytes; null until somebody asks. */
  private volatile long[] totals;

  private SqlSnapshot(SqlDeltaLog log, LogSegment segment, VersionChecksum checksum, JsonNode told) {
    super(log.logPath(), told.get("version").asLong(), segment, log, Scala.some(checksum));
    this.log = log;
    this.lakeTableId = told.get("table_id").asLong();
    this.told = told;
  }

  static SqlSnapshot of(SqlDeltaLog log, JsonNode found) {
    LogSegment segment =
        log.segment(found.get("version").asLong(), found.get("timestamp").asLong());
    try {
      VersionChecksum checksum =
          JsonUtils$.MODULE$.mapper().treeToValue(found.get("checksum"), VersionChecksum.class);
      return new SqlSnapshot(log, segment, checksum, found);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** The same table after a commit that has changed nothing but files. */
  SqlSnapshot followedBy(JsonNode committed) {
    ObjectNode next = told.deepCopy();
    next.set("version", committed.get("version"));
    next.set("timestamp", committed.get("timestamp"));
    ObjectNode checksum = (ObjectNode) next.get("checksum");
    if (checksum.has(COMMIT_TIME)) {
      checksum.set(COMMIT_TIME, committed.get("timestamp"));
    }
    return of(log, next);
  }

  long lakeTableId() {
    return lakeTableId;
  }

  /** DESCRIBE DETAIL looks at the commit file for its time: there need not be one. */
  @Override
  public Path path() {
    boolean isForDetail =
        told != null
            && StackWalker.getInstance()
                .walk(frames -> frames.anyMatch(frame -> frame.getClassName().startsWith(DETAIL)));
    return isForDetail ? CommitTimes.folder(told.get("timestamp").asLong()) : super.path();
  }

  private ObjectNode question(String verb) {
    return log.question(verb).put("table_id", lakeTableId).put("version", version());
  }

  private VersionChecksum checksum() {
    return checksumOpt().get();
  }

  // --- files --------------------------------------------------------------------------

  @Override
  public DeltaScan filesForScan(Seq<Expression> filters, boolean keepNumRecords) {
    long started = System.currentTimeMillis();
    Filters sorted = new Filters(filters, metadata().partitionColumns(), session());
    List<AddFile> files = files(sorted, keepNumRecords);
    DataSize size = sizeOf(files, Scala.none());
    return scan(files, size, sorted, started);
  }

  @Override
  public DeltaScan filesForScan(long limit, Seq<Expression> partitionFilters) {
    long started = System.currentTimeMillis();
    Filters sorted = new Filters(partitionFilters, metadata().partitionColumns(), session());
    List<AddFile> enough = new ArrayList<>();
    List<AddFile> unknown = new ArrayList<>();
    long rows = 0;
    for (AddFile file : files(sorted, true)) {
      if (rows >= limit) {
        break;
      }
      Option<Object> count = file.numLogicalRecords();
      (count.isDefined() ? enough : unknown).add(file);
      rows += count.isDefined() ? (Long) count.get() : 0;
    }
    boolean isShort = rows < limit && !unknown.isEmpty();
    if (isShort) {
      enough.addAll(unknown);
    }
    DataSize size = sizeOf(enough, isShort ? Scala.none() : Scala.some(rows));
    return scan(enough, size, sorted, started);
  }

  private List<AddFile> files(Filters filters, boolean keepNumRecords) {
    ObjectNode question = question("files").put("num_records", keepNumRecords);
    filters.write(question.putArray("filters"));
    question.put("time_zone", session().sessionState().conf().sessionLocalTimeZone());
    return filters.inPartitions(listed(question), metadata().partitionSchema(), session());
  }

  /** The answer, kept for the next plan: a version does not change. */
  private AddFile[] listed(ObjectNode question) {
    if (log.block() != null) {
      // A transaction notes what each of its statements reads.
      return Transfer.adds(log.ask(question));
    }
    String key = question.toString();
    SoftReference<AddFile[]> kept = lists.get(key);
    AddFile[] known = kept == null ? null : kept.get();
    if (known == null) {
      known = Transfer.adds(log.ask(question));
      if (known.length <= MOST_KEPT) {
        lists.put(key, new SoftReference<>(known));
      }
    }
    return known;
  }

  private DeltaScan scan(List<AddFile> files, DataSize size, Filters filters, long started) {
    DataSize total = new DataSize(sizeInBytesIfKnown(), Scala.none(), numOfFilesIfKnown(), Scala.none());
    return new DeltaScan(
        version(),
        Scala.seq(files),
        total,
        size,
        size,
        this,
        set(filters.partition),
        set(filters.data),
        set(List.of()),
        scala.collection.immutable.Set$.MODULE$.<Expression>empty(),
        set(filters.unused),
        System.currentTimeMillis() - started,
        DeltaDataSkippingType$.MODULE$.dataSkippingAndPartitionFilteringV1());
  }

  private static DataSize sizeOf(List<AddFile> files, Option<Object> rows) {
    long bytes = files.stream().mapToLong(AddFile::size).sum();
    return new DataSize(Scala.some(bytes), Scala.none(), Scala.some((long) files.size()), rows);
  }

  private static ExpressionSet set(List<Expression> filters) {
    return ExpressionSet$.MODULE$.apply(Scala.seq(filters));
  }

  /** All actions, for the few statements that look at every file: VACUUM, RESTORE, clones. */
  @Override
  public org.apache.spark.sql.classic.Dataset<SingleAction> stateReconstruction() {
    List<SingleAction> actions = Transfer.actions(log.ask(question("state")));
    return (org.apache.spark.sql.classic.Dataset<SingleAction>)
        session().createDataset(actions, SingleAction$.MODULE$.encoder());
  }

  private static org.apache.spark.sql.classic.SparkSession session() {
    return (org.apache.spark.sql.classic.SparkSession) org.apache.spark.sql.SparkSession.active();
  }

  // --- what the checksum says, without a job -------------------------------------------

  /** Sums over all files: of a large table they take longer than a plan. */
  private long[] totals() {
    if (totals == null) {
      JsonNode found = log.ask(question("totals"));
      totals = new long[] {found.get(0).asLong(), found.get(1).asLong()};
    }
    return totals;
  }

  @Override
  public long numOfFiles() {
    return totals()[0];
  }

  @Override
  public long sizeInBytes() {
    return totals()[1];
  }

  @Override
  public Option<Object> numOfFilesIfKnown() {
    return totals == null ? Scala.none() : Scala.some(numOfFiles());
  }

  @Override
  public Option<Object> sizeInBytesIfKnown() {
    return totals == null ? Scala.none() : Scala.some(sizeInBytes());
  }

  @Override
  public Seq<SetTransaction> setTransactions() {
    return checksum().setTransactions().get();
  }

  @Override
  public Option<Seq<SetTransaction>> setTransactionsIfKnown() {
    return Scala.some(setTransactions());
  }

  @Override
  public Seq<DomainMetadata> domainMetadata() {
    return checksum().domainMetadata().get();
  }

  @Override
  public Option<Seq<DomainMetadata>> domainMetadatasIfKnown() {
    return Scala.some(domainMetadata());
  }

  @Override
  public Option<TableCommitCoordinatorClient> getTableCommitCoordinatorForWrites() {
    return Scala.none();
  }
}
