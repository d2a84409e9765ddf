-- Views of a fleet's folder for Spark SQL: spark-sql -f docs/fleet/spark.sql, in the folder that `tally agent --to` names.
CREATE OR REPLACE TEMPORARY VIEW sample_files USING parquet OPTIONS (path 'samples');
CREATE OR REPLACE TEMPORARY VIEW recordings USING parquet OPTIONS (path 'recordings');
CREATE OR REPLACE TEMPORARY VIEW samples AS SELECT *, concat(replace(replace(comm, ' ', '_'), ';', '_'), ';',
    replace(replace(stack, ';', ':'), '\n', ';')) AS folded FROM sample_files;
-- One row for each distinct function of a stack.
CREATE OR REPLACE TEMPORARY VIEW functions AS
SELECT kind, host, service, value, explode(array_distinct(split(stack, '\n'))) AS name FROM samples;
