package io.deltasql.spark;

import java.util.Arrays;
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
