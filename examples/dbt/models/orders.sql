-- Days that come again are merged, row by row.
{{ config(materialized="incremental", incremental_strategy="merge", unique_key="id") }}

select id, customer_id, amount, cast(day as date) as day
from {{ ref("payments") }}
{% if is_incremental() %}
where cast(day as date) >= (select max(day) from {{ this }})
{% endif %}
