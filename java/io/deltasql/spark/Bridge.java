package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.function.Function;

/**
 * The way from Spark's driver to the lake: one function, JSON in and JSON out.
 *
 * <p>On the other side is Python, through PySpark's callback server. The function is one of the
 * JDK's own interfaces, so that no class loader has to know ours to make a proxy of it.
 */
public final class Bridge {
  static final ObjectMapper MAPPER = new ObjectMapper();

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
      answer = MAPPER.readTree(python.apply(question.toString()));
    } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
      throw new IllegalStateException("deltasql's answer is not JSON", error);
    }
    if (answer.has("error")) {
      throw Raise.unchecked(Failures.of(answer.get("error")));
    }
    return answer.get("value");
  }
}
