-- Namespaces that were created in Spark SQL, and what is said of them.

CREATE TABLE dl_namespaces (  -- Namespaces that were created or described; a table's name is enough for its own
    name        TEXT NOT NULL,  -- Words with dots between them
    properties  TEXT NOT NULL,  -- Its properties and its comment, JSON
    PRIMARY KEY (name)
) STRICT, WITHOUT ROWID;
