-- No rows: all that was ordered was earned.
select * from (select sum(amount) as earned from {{ ref("revenue") }}) r,
  (select sum(amount) as ordered from {{ ref("orders") }}) o
where earned <> ordered
