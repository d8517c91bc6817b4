package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** A verb of the lake, as Python describes it: `CALL lake.system.NAME(…)`. */
final class LakeProcedure implements UnboundProcedure, BoundProcedure {
  private static final String NAMESPACE = "system";

  private final Bridge lake;
  private final JsonNode told;
  private final StructType columns;

  private LakeProcedure(Bridge lake, JsonNode told) {
    this.lake = lake;
    this.told = told;
    this.columns = StructType.fromDDL(told.get("columns").asText());
  }

  static LakeProcedure load(Bridge lake, Identifier ident) {
    boolean isHere = Names.of(ident.namespace()).equalsIgnoreCase(NAMESPACE);
    JsonNode told =
        isHere ? lake.ask(Bridge.question("procedure").put("procedure", ident.name())) : null;
    if (told == null || told.isNull()) {
      String here = lake.catalog() + "." + NAMESPACE;
      throw new LakeException(
          "DELTASQL_PROCEDURE_NOT_FOUND",
          "there is no procedure " + Names.of(ident)
              + ". SHOW PROCEDURES IN " + here + " lists those that there are");
    }
    return new LakeProcedure(lake, told);
  }

  static Identifier[] list(Bridge lake, String[] namespace) {
    String space = Names.of(namespace);
    List<Identifier> found = new ArrayList<>();
    if (space.isEmpty() || space.equalsIgnoreCase(NAMESPACE)) {
      for (JsonNode name : lake.ask(Bridge.question("procedures"))) {
        found.add(Identifier.of(new String[] {NAMESPACE}, name.asText()));
      }
    }
    return found.toArray(new Identifier[0]);
  }

  @Override
  public String name() {
    return told.get("name").asText();
  }

  @Override
  public String description() {
    return told.get("about").asText();
  }

  @Override
  public BoundProcedure bind(StructType input) {
    return this;
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public ProcedureParameter[] parameters() {
    List<ProcedureParameter> found = new ArrayList<>();
    for (JsonNode item : told.get("parameters")) {
      DataType type = DataType.fromDDL(item.get("type").asText());
      ProcedureParameter.Builder parameter =
          ProcedureParameter.in(item.get("name").asText(), type);
      if (!item.get("default").isNull()) {
        parameter.defaultValue(item.get("default").asText());
      }
      found.add(parameter.build());
    }
    return found.toArray(new ProcedureParameter[0]);
  }

  @Override
  public Iterator<Scan> call(InternalRow input) {
    SparkSession spark = SparkSession.active();
    ObjectNode question = Names.compared(Bridge.question("call").put("procedure", name()));
    question.put("catalog", lake.catalog());
    String begun = Blocks.ofSession(spark);
    question.put("block", Blocks.current()).put("session_block", begun);
    write(input, question.putObject("arguments"));
    JsonNode rows;
    boolean ends = name().equals("commit") || name().equals("rollback");
    try {
      rows = lake.ask(question);
    } finally {
      if (ends && begun != null && Blocks.isOf(begun, lake.catalog())) {
        Blocks.ended(begun);
      }
    }
    if (name().equals("begin")) {
      Blocks.begin(spark, rows.get(0).get(0).asText(), lake.catalog());
    }
    return List.<Scan>of(new Rows(columns, rows)).iterator();
  }

  private void write(InternalRow input, ObjectNode arguments) {
    ProcedureParameter[] parameters = parameters();
    for (int i = 0; i < parameters.length; i++) {
      String name = parameters[i].name();
      DataType type = parameters[i].dataType();
      if (input.isNullAt(i)) {
        arguments.putNull(name);
      } else if (type.equals(DataTypes.BooleanType)) {
        arguments.put(name, input.getBoolean(i));
      } else if (type.equals(DataTypes.LongType)) {
        arguments.put(name, input.getLong(i));
      } else if (type.equals(DataTypes.TimestampType)) {
        // The log's times are milliseconds.
        arguments.put(name, Math.floorDiv(input.getLong(i), 1000L));
      } else if (type instanceof ArrayType) {
        ArrayNode words = arguments.putArray(name);
        for (Object word : input.getArray(i).toObjectArray(DataTypes.StringType)) {
          words.add(word.toString());
        }
      } else {
        arguments.put(name, input.getUTF8String(i).toString());
      }
    }
  }

  /** Rows that are here already. */
  private static final class Rows implements LocalScan {
    private final StructType columns;
    private final InternalRow[] rows;

    Rows(StructType columns, JsonNode given) {
      this.columns = columns;
      this.rows = new InternalRow[given.size()];
      for (int i = 0; i < rows.length; i++) {
        Object[] values = new Object[columns.length()];
        for (int j = 0; j < values.length; j++) {
          values[j] = value(columns.fields()[j], given.get(i).get(j));
        }
        rows[i] = new GenericInternalRow(values);
      }
    }

    private static Object value(StructField column, JsonNode given) {
      DataType type = column.dataType();
      if (given.isNull()) {
        return null;
      }
      if (type.equals(DataTypes.BooleanType)) {
        return given.asBoolean();
      }
      if (type.equals(DataTypes.DoubleType)) {
        return given.asDouble();
      }
      // Times are microseconds, as Spark keeps them.
      boolean isLong = type.equals(DataTypes.LongType) || type.equals(DataTypes.TimestampType);
      return isLong ? (Object) given.asLong() : UTF8String.fromString(given.asText());
    }

    @Override
    public StructType readSchema() {
      return columns;
    }

    @Override
    public InternalRow[] rows() {
      return rows;
    }
  }
}
