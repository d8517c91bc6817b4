package io.deltasql.spark;

import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/** Delta's staged table, whose path is promised to a name until it is committed or given up. */
final class Promised implements StagedTable, SupportsWrite {
  private final StagedTable staged;
  private final Path place;

  Promised(StagedTable staged, Path place) {
    this.staged = staged;
    this.place = place;
  }

  @Override
  public void commitStagedChanges() {
    try {
      staged.commitStagedChanges();
    } finally {
      Homes.forget(place);
    }
  }

  @Override
  public void abortStagedChanges() {
    Homes.forget(place);
    staged.abortStagedChanges();
  }

  @Override
  public String name() {
    return staged.name();
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return staged.schema();
  }

  @Override
  public Column[] columns() {
    return staged.columns();
  }

  @Override
  public Transform[] partitioning() {
    return staged.partitioning();
  }

  @Override
  public Map<String, String> properties() {
    return staged.properties();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return staged.capabilities();
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return ((SupportsWrite) staged).newWriteBuilder(info);
  }
}
