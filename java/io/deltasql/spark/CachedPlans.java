package io.deltasql.spark;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.delta.files.TahoeFileIndex;
import org.apache.spark.sql.delta.files.TahoeLogFileIndex;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Option;
import scala.runtime.AbstractFunction1;

/**
 * What Spark keeps in memory. After a statement it plans anew what it has of the table, and fails
 * with it: by then the statement is committed, so what can't be planned any more is dropped before.
 */
final class CachedPlans {
  private CachedPlans() {}

  /** Drop what a transaction saw: nobody may see it any more. */
  static void dropOf(String block) {
    dropWhere(index -> block.equals(((SqlDeltaLog) index.deltaLog()).block()));
  }

  /** Drop what reads a table that is gone, has another schema, or whose lake does not answer. */
  static void dropUnreadable() {
    dropWhere(index -> !isReadable(index));
  }

  private static boolean isReadable(TahoeFileIndex index) {
    try {
      if (index instanceof TahoeLogFileIndex) {
        // What Delta does first when it plans: the newest snapshot, compared with the analysed one.
        ((TahoeLogFileIndex) index).getSnapshot();
      }
      return true;
    } catch (Exception error) {
      return false;
    }
  }

  /** Never raises: a commit may be behind us. */
  private static void dropWhere(Predicate<TahoeFileIndex> isDead) {
    Option<SparkSession> found = SparkSession.getActiveSession();
    if (found.isEmpty()) {
      found = SparkSession.getDefaultSession();
    }
    if (found.isEmpty()) {
      return;
    }
    try {
      var spark = (org.apache.spark.sql.classic.SparkSession) found.get();
      CacheManager cache = spark.sharedState().cacheManager();
      if (!cache.isEmpty()) {
        drop().invoke(cache, spark, condition(isDead), true, false);
      }
    } catch (ReflectiveOperationException | RuntimeException error) {
      System.getLogger("io.deltasql.spark")
          .log(System.Logger.Level.WARNING, "Spark's cached plans could not be dropped", error);
    }
  }

  private static Method drop() throws NoSuchMethodException {
    Method method =
        CacheManager.class.getDeclaredMethod(
            "uncacheByCondition",
            org.apache.spark.sql.classic.SparkSession.class,
            scala.Function1.class,
            boolean.class,
            boolean.class);
    method.setAccessible(true);
    return method;
  }

  private static AbstractFunction1<LogicalPlan, Object> condition(Predicate<TahoeFileIndex> isDead) {
    // Spark asks for every node of a plan.
    Map<TahoeFileIndex, Boolean> known = new IdentityHashMap<>();
    return new AbstractFunction1<>() {
      @Override
      public Object apply(LogicalPlan plan) {
        return indexes(plan).stream()
            .anyMatch(index -> known.computeIfAbsent(index, isDead::test));
      }
    };
  }

  /** Where a plan reads tables of a lake, subqueries included. */
  private static List<TahoeFileIndex> indexes(LogicalPlan plan) {
    List<LogicalPlan> leaves = new ArrayList<>(Scala.list(plan.collectLeaves()));
    for (Object inner : Scala.list(plan.subqueriesAll())) {
      leaves.addAll(Scala.list(((LogicalPlan) inner).collectLeaves()));
    }
    List<TahoeFileIndex> found = new ArrayList<>();
    for (LogicalPlan leaf : leaves) {
      if (leaf instanceof LogicalRelation
          && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation) {
        Object place = ((HadoopFsRelation) ((LogicalRelation) leaf).relation()).location();
        if (place instanceof TahoeFileIndex
            && ((TahoeFileIndex) place).deltaLog() instanceof SqlDeltaLog) {
          found.add((TahoeFileIndex) place);
        }
      }
    }
    return found;
  }
}
