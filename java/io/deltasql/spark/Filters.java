package io.deltasql.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.delta.DeltaLog$;
import org.apache.spark.sql.delta.DeltaTableUtils$;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/** Spark's filters of one scan, sorted as Delta sorts them. */
final class Filters {
  private static final StructType PARTITIONS =
      new StructType()
          .add("number", DataTypes.IntegerType)
          .add(
              "partitionValues",
              DataTypes.createMapType(DataTypes.StringType, DataTypes.StringType));

  final List<Expression> partition = new ArrayList<>();
  final List<Expression> data = new ArrayList<>();
  /** Those that say nothing of files: with subqueries, by chance, on a file's own properties. */
  final List<Expression> unused = new ArrayList<>();

  Filters(Seq<Expression> filters, Seq<String> partitionColumns, SparkSession spark) {
    DeltaTableUtils$ delta = DeltaTableUtils$.MODULE$;
    for (Expression filter : Scala.list(filters)) {
      if (delta.containsSubquery(filter) || !filter.deterministic() || hasFileMetadata(filter)) {
        unused.add(filter);
      } else if (delta.isPredicatePartitionColumnsOnly(filter, partitionColumns, spark)) {
        partition.add(filter);
      } else {
        data.add(filter);
      }
    }
  }

  /** What the database may skip files by: each part of what is joined by AND, as SQL. */
  void write(ArrayNode texts) {
    partition.forEach(filter -> write(filter, texts));
    data.forEach(filter -> write(filter, texts));
  }

  static void write(Expression filter, ArrayNode texts) {
    if (filter instanceof And) {
      write(((And) filter).left(), texts);
      write(((And) filter).right(), texts);
      return;
    }
    try {
      texts.add(((Expression) filter.transform(new Unqualified())).sql());
    } catch (RuntimeException error) {
      // Some have no text. A file too many is read, no row is lost.
      texts.add("");
    }
  }

  /** The files in partitions that the filters keep: Spark won't look at these filters again. */
  List<AddFile> inPartitions(AddFile[] files, StructType schema, SparkSession spark) {
    if (partition.isEmpty() || files.length == 0) {
      return List.of(files);
    }
    Map<scala.collection.immutable.Map<String, String>, Integer> numbers = new LinkedHashMap<>();
    List<Row> rows = new ArrayList<>();
    for (AddFile file : files) {
      if (numbers.putIfAbsent(file.partitionValues(), numbers.size()) == null) {
        rows.add(RowFactory.create(rows.size(), file.partitionValues()));
      }
    }
    // Over a local relation the optimizer does it: no job.
    Dataset<Row> all = spark.createDataFrame(rows, PARTITIONS);
    Dataset<Row> found =
        DeltaLog$.MODULE$.filterFileList(
            schema, (org.apache.spark.sql.classic.Dataset<Row>) all, Scala.seq(partition),
            Scala.seq(List.of()), true);
    Set<Integer> kept = new HashSet<>();
    for (Row row : found.select("number").collectAsList()) {
      kept.add(row.getInt(0));
    }
    List<AddFile> result = new ArrayList<>();
    for (AddFile file : files) {
      if (kept.contains(numbers.get(file.partitionValues()))) {
        result.add(file);
      }
    }
    return result;
  }

  private static boolean hasFileMetadata(Expression filter) {
    return Scala.list(filter.references().toSeq()).stream()
        .anyMatch(item -> item.metadata().contains("__metadata_col"));
  }

  /** Columns by their own names, whatever the query calls their table. */
  private static final class Unqualified extends AbstractPartialFunction<Expression, Expression> {
    @Override
    public boolean isDefinedAt(Expression item) {
      return item instanceof AttributeReference;
    }

    @Override
    public <A extends Expression, B> B applyOrElse(A item, scala.Function1<A, B> otherwise) {
      if (!(item instanceof AttributeReference)) {
        return otherwise.apply(item);
      }
      @SuppressWarnings("unchecked")
      B plain = (B) ((AttributeReference) item).withQualifier(Scala.seq(List.of()));
      return plain;
    }
  }
}
