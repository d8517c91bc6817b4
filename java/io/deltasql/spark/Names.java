package io.deltasql.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;

/** A table's name in the lake, words with dots between them, and Spark's identifiers. */
final class Names {
  private Names() {}

  static String of(Identifier ident) {
    String space = of(ident.namespace());
    return space.isEmpty() ? ident.name() : space + "." + ident.name();
  }

  static String of(String[] namespace) {
    return String.join(".", namespace);
  }

  /** A question about a table, whose name counts as the session compares names. */
  static ObjectNode question(String verb, Identifier ident) {
    return compared(Bridge.question(verb).put("name", of(ident)));
  }

  /** The same about a namespace. */
  static ObjectNode question(String verb, String[] namespace) {
    return compared(Bridge.question(verb).put("namespace", of(namespace)));
  }

  /** With whether case counts in the names that it has. */
  static ObjectNode compared(ObjectNode question) {
    var spark = (org.apache.spark.sql.classic.SparkSession) SparkSession.active();
    return question.put("any_case", !spark.sessionState().conf().caseSensitiveAnalysis());
  }

  static String[] parts(String name) {
    return name.isEmpty() ? new String[0] : name.split("\\.");
  }

  static Identifier identifier(String[] parts) {
    int last = parts.length - 1;
    return Identifier.of(Arrays.copyOf(parts, last), parts[last]);
  }

  /** Whether each part is one word of the lake's names: a dot inside would be another name. */
  static boolean areWords(Identifier ident) {
    return !ident.name().contains(".") && areWords(ident.namespace());
  }

  static boolean areWords(String[] parts) {
    return Arrays.stream(parts).noneMatch(part -> part.contains("."));
  }
}
