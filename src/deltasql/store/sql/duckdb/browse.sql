-- Differs: a BLOB's length is its octet_length here.

-- part: body_length
octet_length(v.body)
