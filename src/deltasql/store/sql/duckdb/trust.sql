-- Differs: live files have no key that a conflict could be with.

-- part: unless_live
