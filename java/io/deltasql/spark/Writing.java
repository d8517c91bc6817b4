package io.deltasql.spark;

import java.lang.ref.Cleaner;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A statement that writes, as vacuum has to know of it: from the start of its transaction until that
 * has committed, was given up, or at the latest until nobody knows it any more.
 */
final class Writing {
  private static final Cleaner CLEANER = Cleaner.create();

  private final String id = UUID.randomUUID().toString();
  private final Cleaner.Cleanable end;
  private final AtomicBoolean isOver = new AtomicBoolean();

  private Writing(Object transaction, Bridge lake) {
    // Nothing here may know the transaction, else it would never be forgotten.
    AtomicBoolean over = isOver;
    String name = id;
    this.end =
        CLEANER.register(
            transaction,
            () -> {
              if (!over.getAndSet(true)) {
                tell(lake, name);
              }
            });
  }

  /** Raises what keeps the lake from being written: no file was made yet. */
  static Writing begin(Object transaction, SqlDeltaLog log) {
    Writing made = new Writing(transaction, log.home().bridge);
    try {
      log.ask(log.question("write").put("write", made.id));
    } catch (RuntimeException error) {
      made.isOver.set(true);
      throw error;
    }
    return made;
  }

  String id() {
    return id;
  }

  /** The lake knows by itself: it has answered the commit. */
  void isAnswered() {
    isOver.set(true);
  }

  void end() {
    end.clean();
  }

  private static void tell(Bridge lake, String id) {
    try {
      lake.ask(Bridge.question("written").put("write", id));
    } catch (RuntimeException error) {
      // The lake is gone, and with it whoever would wait for this one.
    }
  }
}
