package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import io.delta.exceptions.ConcurrentAppendException;
import io.delta.exceptions.ConcurrentDeleteDeleteException;
import io.delta.exceptions.ConcurrentDeleteReadException;
import io.delta.exceptions.ConcurrentTransactionException;
import io.delta.exceptions.ConcurrentWriteException;
import io.delta.exceptions.MetadataChangedException;
import io.delta.exceptions.ProtocolChangedException;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;

/** What the lake refuses, in the classes that pipelines catch. */
final class Failures {
  private Failures() {}

  static Throwable of(JsonNode error) {
    String message = error.get("message").asText();
    String[] name = error.has("name") ? Names.parts(error.get("name").asText()) : new String[0];
    switch (error.get("kind").asText()) {
      case "TableNotFoundError":
        // Of a procedure: what it did not find need not be a table by its name.
        return name.length == 0
            ? new LakeException("TABLE_OR_VIEW_NOT_FOUND", message)
            : new NoSuchTableException(Names.identifier(name));
      case "TableExistsError":
        return name.length == 0
            ? new LakeException("TABLE_OR_VIEW_ALREADY_EXISTS", message)
            : new TableAlreadyExistsException(Names.identifier(name));
      case "NamespaceNotFound":
        return new NoSuchNamespaceException(name);
      case "NamespaceExists":
        return new NamespaceAlreadyExistsException(name);
      case "NamespaceNotEmpty":
        return new NonEmptyNamespaceException(name);
      case "ConcurrentAppendError":
        // Its constructor of one text takes that for the condition, and tells the condition instead.
        return new ConcurrentAppendException(
            "DELTA_CONCURRENT_APPEND.WITHOUT_HINT",
            "[DELTA_CONCURRENT_APPEND] " + message,
            new String[0]);
      case "ConcurrentDeleteReadError":
        return new ConcurrentDeleteReadException("[DELTA_CONCURRENT_DELETE_READ] " + message);
      case "ConcurrentDeleteDeleteError":
        return new ConcurrentDeleteDeleteException("[DELTA_CONCURRENT_DELETE_DELETE] " + message);
      case "ConcurrentTransactionError":
        return new ConcurrentTransactionException("[DELTA_CONCURRENT_TRANSACTION] " + message);
      case "MetadataChangedError":
        return new MetadataChangedException("[DELTA_METADATA_CHANGED] " + message);
      case "ProtocolChangedError":
        return new ProtocolChangedException("[DELTA_PROTOCOL_CHANGED] " + message);
      case "VersionConflictError":
        return new ConcurrentWriteException("[DELTA_CONCURRENT_WRITE] " + message);
      default:
        return new LakeException(error.get("condition").asText(), message);
    }
  }

  /** What happens once, and may have happened. */
  static LakeException lost(String verb, Throwable cause) {
    return because(
        "DELTASQL_ANSWER_LOST",
        "it is not known whether the " + verb.replace('_', ' ') + " happened. Cause: "
            + cause.getMessage() + ". Remedy: look before you repeat it",
        cause);
  }

  /** A commit that could not even be asked for. */
  static LakeException unknown(Throwable cause) {
    return because(
        "DELTASQL_COMMIT_STATE_UNKNOWN",
        "it is not known whether the commit succeeded. Cause: " + cause.getMessage()
            + ". Remedy: look it up in the table's history; keep the data files until then",
        cause);
  }

  private static LakeException because(String condition, String message, Throwable cause) {
    LakeException error = new LakeException(condition, message);
    error.initCause(cause);
    return error;
  }
}
