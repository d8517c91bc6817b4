package io.deltasql.spark;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/** What the process writes to its standard error: into the driver's, and the last line is kept. */
final class PluginErrors {
  private volatile String last = "";
  private final Thread thread;

  PluginErrors(InputStream stream) {
    thread = new Thread(() -> pass(stream), "deltasql-stderr");
    thread.setDaemon(true);
    thread.start();
  }

  private void pass(InputStream stream) {
    try (BufferedReader lines =
        new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        System.err.println(line);
        if (!line.isBlank()) {
          last = line.strip();
        }
      }
    } catch (IOException closed) {
      // The process ended.
    }
  }

  /** The last line of a process that has ended. */
  String last(String otherwise) throws InterruptedException {
    thread.join(1000);
    return last.isEmpty() ? otherwise : last;
  }
}
