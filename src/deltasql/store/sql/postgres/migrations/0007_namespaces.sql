-- Namespaces that were created in Spark SQL, and what is said of them.

CREATE TABLE dl_namespaces (
    name        text NOT NULL,
    properties  text NOT NULL,
    PRIMARY KEY (name)
);
COMMENT ON TABLE dl_namespaces IS 'Namespaces that were created or described; a table''s name is enough for its own';
COMMENT ON COLUMN dl_namespaces.name IS 'Words with dots between them';
COMMENT ON COLUMN dl_namespaces.properties IS 'Its properties and its comment, JSON';
