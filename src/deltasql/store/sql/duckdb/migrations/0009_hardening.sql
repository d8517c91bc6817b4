-- Where files outside of their tables' own folders may be read.

CREATE TABLE dl_table_sources (
    table_id  BIGINT NOT NULL,
    source    VARCHAR NOT NULL,
    PRIMARY KEY (table_id, source)
);
COMMENT ON TABLE dl_table_sources IS 'Places outside of its own from which a table may read';
COMMENT ON COLUMN dl_table_sources.table_id IS 'The table';
COMMENT ON COLUMN dl_table_sources.source IS 'A place in the spelling of dl_places, with a slash at the end; empty for anywhere';

-- Tables that name files by absolute paths so far go on reading them, wherever they are.
INSERT INTO dl_table_sources (table_id, source)
SELECT DISTINCT table_id, ''
FROM (
    SELECT table_id FROM dl_active_files
    WHERE path LIKE '%:/%' OR path LIKE '/%' OR deletion_vector LIKE '%"storageType":"p"%'
    UNION ALL
    SELECT table_id FROM dl_dead_files
    WHERE path LIKE '%:/%' OR path LIKE '/%' OR deletion_vector LIKE '%"storageType":"p"%'
    UNION ALL
    SELECT table_id FROM dl_cdc_files WHERE path LIKE '%:/%' OR path LIKE '/%'
) AS named;
