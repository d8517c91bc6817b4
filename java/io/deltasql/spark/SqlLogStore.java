package io.deltasql.spark;

import com.fasterxml.jackson.databind.JsonNode;
import io.delta.storage.CloseableIterator;
import io.delta.storage.LogStore;
import java.io.FileNotFoundException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.delta.util.FileNames;

/** Commit files as Delta lists and reads them, out of SQL; nothing can be written. */
final class SqlLogStore extends LogStore {
  private final SqlDeltaLog log;

  SqlLogStore(SqlDeltaLog log) {
    super(new Configuration(false));
    this.log = log;
  }

  static FileStatus status(Path logPath, long version, long size, long timestamp) {
    return new FileStatus(
        size, false, 1, 1, timestamp, FileNames.unsafeDeltaFile(logPath, version));
  }

  @Override
  public CloseableIterator<String> read(Path path, Configuration conf)
      throws FileNotFoundException {
    if (!FileNames.isDeltaFile(path)) {
      throw new FileNotFoundException(path.toString());
    }
    long version = FileNames.deltaVersion(path);
    JsonNode body = log.ask(log.question("body").put("version", version));
    if (body.isNull()) {
      throw new FileNotFoundException(path.toString());
    }
    Iterator<String> lines = Arrays.asList(body.asText().split("\n")).iterator();
    return new CloseableIterator<String>() {
      @Override
      public void close() {}

      @Override
      public boolean hasNext() {
        return lines.hasNext();
      }

      @Override
      public String next() {
        return lines.next();
      }
    };
  }

  @Override
  public Iterator<FileStatus> listFrom(Path path, Configuration conf) {
    // Asked with the name of a commit file, or with the common beginning of all of a version.
    String name = path.getName();
    int dot = name.indexOf('.');
    long first = Long.parseLong(dot < 0 ? name : name.substring(0, dot));
    List<FileStatus> found = new ArrayList<>();
    for (JsonNode item : log.ask(log.question("versions").put("first", first))) {
      found.add(
          status(
              path.getParent(),
              item.get("version").asLong(),
              1,
              item.get("timestamp").asLong()));
    }
    return found.iterator();
  }

  @Override
  public void write(Path path, Iterator<String> lines, Boolean overwrite, Configuration conf) {
    throw new UnsupportedOperationException("the log is in SQL; its mirror is deltasql's to write");
  }

  @Override
  public Path resolvePathOnPhysicalStorage(Path path, Configuration conf) {
    return path;
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return false;
  }
}
