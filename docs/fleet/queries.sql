-- Questions to a fleet in SQL that DuckDB, ClickHouse and Spark understand.

-- name: whole
-- Intervals whose stacks are not all there; none if the store is whole.
SELECT r.host, r.time, r.kind, r.total, s.value FROM recordings AS r LEFT JOIN
    (SELECT host, time, kind, sum(value) AS value FROM samples GROUP BY host, time, kind) AS s
    ON r.host = s.host AND r.time = s.time AND r.kind = s.kind
WHERE r.total <> coalesce(s.value, 0);

-- name: top
-- Functions by their own CPU time, ns.
SELECT function, sum(value) AS own FROM samples WHERE kind = 'cpu' GROUP BY function ORDER BY own DESC, function LIMIT 30;

-- name: total
-- Functions by CPU time with what they call, ns.
SELECT name, sum(value) AS total FROM functions WHERE kind = 'cpu' GROUP BY name ORDER BY total DESC, name LIMIT 30;

-- name: services
-- Services by CPU time, ns.
SELECT service, sum(value) AS cpu FROM samples WHERE kind = 'cpu' GROUP BY service ORDER BY cpu DESC, service;

-- name: hosts
-- Machines by CPU time, ns.
SELECT host, sum(value) AS cpu FROM samples WHERE kind = 'cpu' GROUP BY host ORDER BY cpu DESC, host;

-- name: waits
-- Time off the CPU by state, ns.
SELECT state, sum(value) AS wait FROM samples WHERE kind = 'wall' AND state <> 'on CPU'
GROUP BY state ORDER BY wait DESC, state;

-- name: locks
-- Waits for locks by service, ns.
SELECT service, sum(value) AS wait FROM samples WHERE kind = 'wall' AND state IN ('futex', 'GIL')
GROUP BY service ORDER BY wait DESC, service;

-- name: flame
-- Folded stacks: with a blank before the number, `tally flame` draws them.
SELECT folded, sum(value) AS value FROM samples WHERE kind = 'cpu' GROUP BY folded ORDER BY folded;

-- name: changed
-- Share of each function in the CPU time of each machine: which one differs.
SELECT s.host, s.function, sum(s.value) * 100.0 / max(h.cpu) AS percent FROM samples AS s JOIN
    (SELECT host, sum(value) AS cpu FROM samples WHERE kind = 'cpu' GROUP BY host) AS h ON s.host = h.host
WHERE s.kind = 'cpu' GROUP BY s.host, s.function ORDER BY percent DESC, s.host, s.function LIMIT 30;
