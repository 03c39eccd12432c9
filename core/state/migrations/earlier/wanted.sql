-- Files of commit 41bb8e69 and before: what is wanted of a job had another name.
ALTER TABLE jobs RENAME COLUMN wish TO wanted;
