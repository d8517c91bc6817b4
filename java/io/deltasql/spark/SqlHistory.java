package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.delta.DeltaErrors$;
import org.apache.spark.sql.delta.DeltaHistory;
import org.apache.spark.sql.delta.DeltaHistoryManager;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.VersionNotFoundException;
import org.apache.spark.sql.delta.actions.Action$;
import org.apache.spark.sql.delta.actions.CommitInfo;
import scala.Option;
import scala.collection.immutable.Seq;

/** The history in one question; Delta's own would read commit files in Spark jobs. */
final class SqlHistory extends DeltaHistoryManager {
  private final SqlDeltaLog log;

  SqlHistory(SqlDeltaLog log) {
    super(log, 1000);
    this.log = log;
  }

  @Override
  public Seq<DeltaHistory> getHistory(long start, Option<Object> end, Option<CatalogTable> table) {
    ObjectNode question = log.question("history").put("first", start);
    if (end.isDefined()) {
      question.put("last", (Long) end.get());
    }
    List<DeltaHistory> found = new ArrayList<>();
    for (JsonNode item : log.ask(question)) {
      CommitInfo info = (CommitInfo) Action$.MODULE$.fromJson(item.get("info").asText());
      long version = item.get("version").asLong();
      found.add(numbered(DeltaHistory.fromCommitInfo(info), version));
    }
    return Scala.seq(found);
  }

  /** Delta does not read versions from commits: they are the names of its files. */
  private static DeltaHistory numbered(DeltaHistory found, long version) {
    return new DeltaHistory(
        Scala.some(version),
        found.timestamp(),
        found.userId(),
        found.userName(),
        found.operation(),
        found.operationParameters(),
        found.job(),
        found.notebook(),
        found.clusterId(),
        found.readVersion(),
        found.isolationLevel(),
        found.isBlindAppend(),
        found.operationMetrics(),
        found.userMetadata(),
        found.engineInfo());
  }

  @Override
  public Commit getActiveCommitAtTime(
      Timestamp timestamp,
      Option<CatalogTable> table,
      boolean canReturnLast,
      boolean mustBeRecreatable,
      boolean canReturnEarliest) {
    Snapshot newest = log.freshest(table);
    JsonNode found = log.ask(log.question("version_at").put("timestamp", timestamp.getTime()));
    Commit commit = new Commit(found.get("version").asLong(), found.get("timestamp").asLong());
    Timestamp at = new Timestamp(commit.timestamp());
    if (commit.timestamp() > timestamp.getTime() && !canReturnEarliest) {
      throw Raise.unchecked(
          DeltaErrors$.MODULE$
              .TimestampEarlierThanCommitRetentionException()
              .apply(timestamp, at, at.toString()));
    }
    boolean isLast = commit.version() == newest.version() && !canReturnLast;
    if (isLast && commit.timestamp() < timestamp.getTime()) {
      throw Raise.unchecked(
          DeltaErrors$.MODULE$.timestampGreaterThanLatestCommit(timestamp, at, at.toString()));
    }
    return commit;
  }

  /** The versions of a transaction's own are nobody's to ask for, nor those from after its cut. */
  @Override
  public void checkVersionExists(
      long version, Option<CatalogTable> table, boolean mustBeRecreatable, boolean allowOutOfRange) {
    long cut = log.block() == null ? version : log.ask(log.question("cut")).asLong();
    if (version > cut) {
      throw Raise.unchecked(
          new VersionNotFoundException(version, getEarliestRecreatableCommit(), cut));
    }
    super.checkVersionExists(version, table, mustBeRecreatable, allowOutOfRange);
  }

  @Override
  public long getEarliestRecreatableCommit() {
    return log.ask(log.question("earliest")).asLong();
  }
}
