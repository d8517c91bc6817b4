package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Set;
import java.util.function.Function;

/**
 * The way from Spark's driver to the lake: one function, JSON in and JSON out.
 *
 * <p>On the other side is Python, through PySpark's callback server or, where the driver has none,
 * through the plugin's process. The function is one of the JDK's own interfaces, so that no class
 * loader has to know ours to make a proxy of it.
 */
public final class Bridge {
  static final ObjectMapper MAPPER = new ObjectMapper();

  /** What comes to the same when it is asked twice; of a commit its id makes sure of that. */
  private static final Set<String> REPEATABLE =
      Set.of(
          "commit", "locate", "table", "tables", "place", "namespaces", "namespace", "snapshot",
          "files", "totals", "state", "body", "versions", "history", "version_at", "earliest", "procedures",
          "procedure", "write", "written");

  private final String catalog;
  private final Function<String, String> python;

  Bridge(String catalog, Function<String, String> python) {
    this.catalog = catalog;
    this.python = python;
  }

  String catalog() {
    return catalog;
  }

  /** A question, to be filled with arguments and given to `ask`. */
  static ObjectNode question(String verb) {
    return MAPPER.createObjectNode().put("verb", verb);
  }

  /** The answer; what Python raised is raised here as Spark and Delta call it. */
  JsonNode ask(ObjectNode question) {
    JsonNode answer;
    try {
      answer = MAPPER.readTree(answer(question));
    } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
      throw new IllegalStateException("deltasql's answer is not JSON", error);
    }
    if (answer.has("error")) {
      throw Raise.unchecked(Failures.of(answer.get("error")));
    }
    return answer.get("value");
  }

  /** A lost answer is asked for again, a commit by its own id: it happens once. */
  private String answer(ObjectNode question) {
    try {
      return python.apply(question.toString());
    } catch (AnswerLost lost) {
      String verb = question.get("verb").asText();
      if (!REPEATABLE.contains(verb)) {
        throw Failures.lost(verb, lost);
      }
      try {
        return python.apply(question.deepCopy().put("again", true).toString());
      } catch (AnswerLost | LakeException again) {
        throw verb.equals("commit") ? Failures.unknown(again) : again;
      }
    }
  }
}
