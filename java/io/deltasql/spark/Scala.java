package io.deltasql.spark;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Scala's collections and default arguments, from Java. */
final class Scala {
  private Scala() {}

  static <T> Seq<T> seq(List<T> items) {
    return scala.collection.immutable.Seq$.MODULE$.from(CollectionConverters.asScala(items));
  }

  @SuppressWarnings("unchecked")
  static <T> Seq<T> wrap(T[] items) {
    return (Seq<T>) scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(items);
  }

  static <T> List<T> list(scala.collection.Seq<T> items) {
    return CollectionConverters.asJava(items);
  }

  static <T> Option<T> some(T item) {
    return Option.apply(item);
  }

  static <T> Option<T> none() {
    return Option.empty();
  }

  /** A case class by the parameters that matter: how many there are differs between releases. */
  static Object build(String className, Map<Integer, Object> given) {
    try {
      ClassLoader loader = Scala.class.getClassLoader();
      Class<?> companion = Class.forName(className + "$", true, loader);
      Object module = companion.getField("MODULE$").get(null);
      Class<?> made = Class.forName(className, true, loader);
      Method apply =
          Arrays.stream(companion.getMethods())
              .filter(m -> m.getName().equals("apply") && m.getReturnType() == made)
              .max((a, b) -> a.getParameterCount() - b.getParameterCount())
              .orElseThrow();
      Object[] arguments = new Object[apply.getParameterCount()];
      for (int i = 0; i < arguments.length; i++) {
        arguments[i] =
            given.containsKey(i + 1)
                ? given.get(i + 1)
                : companion.getMethod("apply$default$" + (i + 1)).invoke(module);
      }
      return apply.invoke(module, arguments);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(className + " is not as deltasql knows it", error);
    }
  }
}
