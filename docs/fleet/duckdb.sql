-- Views of a fleet's folder for DuckDB: duckdb -init docs/fleet/duckdb.sql, in the folder that `tally agent --to` names.
CREATE VIEW samples AS SELECT *, concat(replace(replace(comm, ' ', '_'), ';', '_'), ';',
    replace(replace(stack, ';', ':'), chr(10), ';')) AS folded
FROM read_parquet('samples/*/*/*.parquet', hive_partitioning = true);
CREATE VIEW recordings AS SELECT * FROM read_parquet('recordings/*/*/*.parquet', hive_partitioning = true);
-- One row for each distinct function of a stack.
CREATE VIEW functions AS SELECT kind, host, service, value, unnest(list_distinct(string_split(stack, chr(10)))) AS name
FROM samples;
