package io.deltasql.spark;

/** A question was sent, and nobody knows what became of it: whoever had to answer is gone. */
final class AnswerLost extends RuntimeException {
  AnswerLost(Throwable cause) {
    super("deltasql's Python process ended before it answered", cause);
  }
}
