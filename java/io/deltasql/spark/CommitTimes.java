package io.deltasql.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * A file system for the one thing that Delta asks of a commit file itself instead of its log store:
 * the time, for DESCRIBE DETAIL. The time is in the path; there is nothing to read or write.
 */
public final class CommitTimes extends FileSystem {
  private static final String SCHEME = "deltasql-commit-time";
  private static final URI ROOT = URI.create(SCHEME + ":/");

  /** A folder whose files were all modified at that time. */
  static Path folder(long timestamp) {
    Configuration known = new Configuration(false);
    known.setClassLoader(CommitTimes.class.getClassLoader());
    known.set("fs." + SCHEME + ".impl", CommitTimes.class.getName());
    try {
      // Hadoop keeps it by its scheme, for whoever asks with another configuration.
      FileSystem.get(ROOT, known);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return new Path(ROOT + Long.toString(timestamp));
  }

  @Override
  public String getScheme() {
    return SCHEME;
  }

  @Override
  public URI getUri() {
    return ROOT;
  }

  @Override
  public FileStatus getFileStatus(Path path) {
    return new FileStatus(1, false, 1, 1, Long.parseLong(path.getParent().getName()), path);
  }

  @Override
  public FileStatus[] listStatus(Path path) throws FileNotFoundException {
    throw new FileNotFoundException(path.toString());
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws FileNotFoundException {
    throw new FileNotFoundException(path.toString());
  }

  @Override
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress) {
    throw new UnsupportedOperationException("the log is in SQL");
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
    throw new UnsupportedOperationException("the log is in SQL");
  }

  @Override
  public boolean rename(Path from, Path to) {
    return false;
  }

  @Override
  public boolean delete(Path path, boolean recursive) {
    return false;
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) {
    return false;
  }

  @Override
  public void setWorkingDirectory(Path path) {}

  @Override
  public Path getWorkingDirectory() {
    return new Path(ROOT);
  }
}
