package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Deque;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkConf;

/**
 * The Python process beside the driver, and the connections to it.
 *
 * <p>It gets a secret and the names of the lakes through its standard input, which then stays open:
 * when the driver ends, however it ends, so does the process. If the process ends first, the next
 * question starts another.
 */
final class PluginProcess {
  private static final long PATIENCE_SECONDS = 120;
  private static final SecureRandom RANDOM = new SecureRandom();

  private final String python;
  private final String configFile;
  private final ObjectNode lakes;
  private final String deltaVersion;
  private final Configuration hadoop;
  private final Deque<PluginChannel> idle = new ConcurrentLinkedDeque<>();
  private volatile Running running;
  private volatile boolean hasEnded;

  PluginProcess(SparkConf conf, ObjectNode lakes, String deltaVersion, Configuration hadoop) {
    String known = System.getenv().getOrDefault("PYSPARK_PYTHON", "python3");
    python = conf.get(PluginDriver.PREFIX + "python", known);
    configFile = conf.get(PluginDriver.PREFIX + "config", "");
    this.lakes = lakes;
    this.deltaVersion = deltaVersion;
    this.hadoop = hadoop;
  }

  /** The answer to a question; `AnswerLost` if it was sent, and the process ended before it came. */
  String ask(String catalog, String question) {
    PluginChannel channel = connect();
    try {
      String[] answer = channel.ask(catalog, question).split("\n", 2);
      idle.offerFirst(channel);
      configure(Bridge.MAPPER.readTree(answer[0]));
      return answer[1];
    } catch (IOException error) {
      channel.close();
      // Other connections to the same process are of no use either.
      awaitEnd(channel.process);
      closeIdle();
      throw new AnswerLost(error);
    }
  }

  private PluginChannel connect() {
    IOException refused = null;
    for (int attempt = 0; attempt < 2; attempt++) {
      Running current = start();
      for (PluginChannel known = idle.pollFirst(); known != null; known = idle.pollFirst()) {
        if (known.process == current.process) {
          return known;
        }
        known.close();
      }
      try {
        return new PluginChannel(current.process, current.port, current.secret);
      } catch (IOException error) {
        refused = error;
        awaitEnd(current.process);
      }
    }
    throw problem("it refused the connection: " + refused.getMessage());
  }

  private void closeIdle() {
    for (PluginChannel known = idle.pollFirst(); known != null; known = idle.pollFirst()) {
      known.close();
    }
  }

  /** Its connections end a moment before the process is known to have ended. */
  private static void awaitEnd(Process process) {
    try {
      process.waitFor(1, TimeUnit.SECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  /** What the lake's object store is reached with: known to this driver alone, and to its tasks. */
  private void configure(JsonNode settings) {
    settings.fields().forEachRemaining(
        item -> {
          String value = item.getValue().asText();
          if (!value.equals(hadoop.get(item.getKey()))) {
            hadoop.set(item.getKey(), value);
          }
        });
  }

  /** The process that runs; a new one where there is none. */
  Running start() {
    Running found = running;
    if (found != null && found.process.isAlive()) {
      return found;
    }
    synchronized (this) {
      if (hasEnded) {
        throw problem("the context has ended, and the process with it");
      }
      if (running == null || !running.process.isAlive()) {
        closeIdle();
        running = launch();
      }
      return running;
    }
  }

  private Running launch() {
    byte[] secret = new byte[32];
    RANDOM.nextBytes(secret);
    ObjectNode hello = Bridge.MAPPER.createObjectNode();
    hello.put("secret", PluginChannel.hex(secret)).put("delta", deltaVersion);
    hello.set("catalogs", lakes);
    ProcessBuilder builder = new ProcessBuilder(python, "-P", "-m", "deltasql.spark.plugin");
    if (!configFile.isEmpty()) {
      builder.environment().put("DELTASQL_CONFIG", configFile);
    }
    Process process = null;
    try {
      process = builder.start();
      PluginErrors errors = new PluginErrors(process.getErrorStream());
      JsonNode said = greet(process, hello);
      if (said == null) {
        process.waitFor(5, TimeUnit.SECONDS);
        throw problem(errors.last(python + " ended without a word"));
      }
      if (said.has("error")) {
        process.destroy();
        throw problem(said.get("error").asText());
      }
      return new Running(process, said.get("port").asInt(), secret);
    } catch (IOException error) {
      if (process != null) {
        process.destroy();
      }
      throw problem(error.getMessage());
    } catch (InterruptedException error) {
      process.destroy();
      Thread.currentThread().interrupt();
      throw problem("the driver was interrupted while it started");
    }
  }

  /** Tell it what it must know; returns what it says, null if it ends, or takes too long. */
  private static JsonNode greet(Process process, ObjectNode hello)
      throws IOException, InterruptedException {
    Thread watch = new Thread(
        () -> {
          try {
            TimeUnit.SECONDS.sleep(PATIENCE_SECONDS);
            process.destroyForcibly();
          } catch (InterruptedException answered) {
            Thread.currentThread().interrupt();
          }
        },
        "deltasql-start");
    watch.setDaemon(true);
    watch.start();
    try {
      OutputStream in = process.getOutputStream();
      in.write((hello + "\n").getBytes(StandardCharsets.UTF_8));
      in.flush();
      String line = new BufferedReader(
          new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8)).readLine();
      return line == null ? null : Bridge.MAPPER.readTree(line);
    } catch (IOException ended) {
      // It did not even read: what it said on its way out tells more than a broken pipe. Its pipes
      // are closed a moment before it is gone.
      if (!process.waitFor(5, TimeUnit.SECONDS)) {
        throw ended;
      }
      return null;
    } finally {
      watch.interrupt();
    }
  }

  synchronized void end() {
    hasEnded = true;
    closeIdle();
    if (running == null) {
      return;
    }
    Process process = running.process;
    try {
      process.getOutputStream().close();
      if (!process.waitFor(15, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (IOException error) {
      process.destroyForcibly();
    } catch (InterruptedException error) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }

  private static LakeException problem(String cause) {
    return new LakeException(
        "DELTASQL_NO_PROCESS",
        "deltasql's Python process beside the driver does not answer. Cause: " + cause
            + ". Remedy: " + PluginDriver.PREFIX + "python must name a Python that has deltasql; "
            + "the next statement starts the process again");
  }

  /** A process, and how to reach it. */
  static final class Running {
    final Process process;
    final int port;
    final byte[] secret;

    Running(Process process, int port, byte[] secret) {
      this.process = process;
      this.port = port;
      this.secret = secret;
    }
  }
}
