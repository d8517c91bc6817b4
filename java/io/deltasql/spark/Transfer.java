package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.SingleAction;
import org.apache.spark.sql.delta.util.JsonUtils$;

/** Long lists, through a local file that the driver deletes: as texts they would crawl. */
final class Transfer {
  private Transfer() {}

  static AddFile[] adds(JsonNode answer) {
    return take(answer, file -> JsonUtils$.MODULE$.mapper().readValue(file.toFile(), AddFile[].class));
  }

  static List<SingleAction> actions(JsonNode answer) {
    return take(
        answer,
        file -> {
          List<SingleAction> found = new ArrayList<>();
          for (String line : Files.readAllLines(file)) {
            found.add(JsonUtils$.MODULE$.mapper().readValue(line, SingleAction.class));
          }
          return found;
        });
  }

  /** A file with these lines, for the other side to read. */
  static String give(Iterable<String> lines) {
    try {
      Path file = Files.createTempFile("deltasql-commit-", ".json");
      Files.write(file, lines);
      return file.toString();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  static void discard(String file) {
    Path.of(file).toFile().delete();
  }

  private static <T> T take(JsonNode answer, Reading<T> reading) {
    Path file = Path.of(answer.asText());
    try {
      return reading.of(file);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    } finally {
      file.toFile().delete();
    }
  }

  private interface Reading<T> {
    T of(Path file) throws IOException;
  }
}
