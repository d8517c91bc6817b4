{# dbt stages a snapshot in a view of the schema; a lake has none, and the session's own will do. #}
{% macro spark_build_snapshot_staging_table(strategy, sql, target_relation) %}
  {%- set staged = api.Relation.create(
      identifier=target_relation.identifier ~ '__dbt_tmp', type='view') -%}
  {% call statement('build_snapshot_staging_relation') %}
    {{ create_temporary_view(staged, snapshot_staging_table(strategy, sql, target_relation)) }}
  {% endcall %}
  {% do return(staged) %}
{% endmacro %}
