-- When the next checkpoint pays: what was mirrored since the last one, and how large that is.

ALTER TABLE dl_mirror_leases ADD COLUMN due_version BIGINT;
ALTER TABLE dl_mirror_leases ADD COLUMN actions_since BIGINT;
ALTER TABLE dl_mirror_leases ADD COLUMN checkpoint_actions BIGINT;
COMMENT ON COLUMN dl_mirror_leases.due_version IS 'Newest version at which a checkpoint fell due';
COMMENT ON COLUMN dl_mirror_leases.actions_since IS 'Actions in the commit files after it';
COMMENT ON COLUMN dl_mirror_leases.checkpoint_actions IS 'Actions in the newest checkpoint';
