select c.name, sum(o.amount) as amount
from {{ ref("orders") }} o
join {{ ref("customers") }} c on c.id = o.customer_id
group by c.name
