package io.deltasql.spark;

import com.google.common.cache.Cache;
import com.google.common.cache.ForwardingCache;
import java.lang.reflect.Field;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.delta.DeltaLog$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.util.SystemClock;
import scala.Option;

/**
 * Delta's cache of logs, which asks before it loads: whatever is opened, by name or by path, before
 * or after its table came into a lake, gets the log of the lake if there is one.
 */
final class LogCache extends ForwardingCache<DeltaLog.DeltaLogCacheKey, DeltaLog> {
  private static volatile LogCache installed;

  private final Cache<DeltaLog.DeltaLogCacheKey, DeltaLog> delegate;

  private LogCache(Cache<DeltaLog.DeltaLogCacheKey, DeltaLog> delegate) {
    this.delegate = delegate;
  }

  /** Put it in the place of Delta's own, once. */
  static void install(SparkSession spark) {
    install(((org.apache.spark.sql.classic.SparkSession) spark).sessionState().conf());
  }

  static synchronized void install(SQLConf conf) {
    Cache<DeltaLog.DeltaLogCacheKey, DeltaLog> current = DeltaLog$.MODULE$.getOrCreateCache(conf);
    if (current instanceof LogCache) {
      return;
    }
    try {
      Field field = DeltaLog$.class.getDeclaredField("deltaLogCache");
      field.setAccessible(true);
      LogCache ours = new LogCache(current);
      field.set(null, Option.apply(ours));
      installed = ours;
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("Delta's cache of logs is not where deltasql knows it", error);
    }
  }

  /** Lakes came or went: whatever is opened from now on is looked for anew. */
  static void forgetDetached() {
    LogCache cache = installed;
    if (cache != null) {
      cache.asMap().values()
          .removeIf(log -> log instanceof SqlDeltaLog && !((SqlDeltaLog) log).isAttached());
    }
  }

  @Override
  protected Cache<DeltaLog.DeltaLogCacheKey, DeltaLog> delegate() {
    return delegate;
  }

  @Override
  public DeltaLog get(DeltaLog.DeltaLogCacheKey key, Callable<? extends DeltaLog> load)
      throws ExecutionException {
    Blocks.checkNoStream();
    String block = Blocks.current();
    DeltaLog own = block == null ? null : Blocks.log(block, key);
    if (own != null) {
      return own;
    }
    DeltaLog known = delegate.getIfPresent(key);
    if (known instanceof SqlDeltaLog && ((SqlDeltaLog) known).isCurrent()) {
      return known;
    }
    Homes.Home home = Homes.find(key.path().getParent());
    if (home == null) {
      if (known instanceof SqlDeltaLog) {
        delegate.invalidate(key);
      }
      return delegate.get(key, load);
    }
    if (home.isPromised && known instanceof SqlDeltaLog && ((SqlDeltaLog) known).isAwaited()) {
      return known;
    }
    if (known != null) {
      delegate.invalidate(key);
    }
    return delegate.get(
        key,
        () ->
            new SqlDeltaLog(
                key.path(), key.path().getParent(), key.fsOptions(), new SystemClock()));
  }
}
