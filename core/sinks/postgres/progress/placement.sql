-- Statements on slotkeeper_jobs and slotkeeper_hosts. All ages are by this server's clock.

-- name: exists
-- Whether a host has shared a job here.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'slotkeeper_jobs'

-- name: jobs
-- The rows of all jobs.
SELECT job, desired, version, answered, answer, asked_by, asked_why, settings, owner, host, term, beats,
    extract(epoch FROM clock_timestamp() - beaten_at)::float8, state, text
FROM {schema}.slotkeeper_jobs ORDER BY job

-- name: hosts
-- The hosts, with the sources that each reaches.
SELECT owner, host, extract(epoch FROM clock_timestamp() - beaten_at)::float8, sources FROM {schema}.slotkeeper_hosts

-- name: here
-- This host's own row.
INSERT INTO {schema}.slotkeeper_hosts (owner, host, beaten_at, sources)
VALUES (%(owner)s, %(host)s, clock_timestamp(), %(sources)s::json)
ON CONFLICT (owner) DO UPDATE SET host = excluded.host, beaten_at = excluded.beaten_at, sources = excluded.sources

-- name: forget
-- Hosts that have not reported for 30 days no longer exist.
DELETE FROM {schema}.slotkeeper_hosts WHERE beaten_at < now() - interval '30 days'

-- name: beat
-- The heartbeats of all jobs of one owner, in one statement. A row that has another owner stays as it is.
UPDATE {schema}.slotkeeper_jobs AS j
SET beats = j.beats + 1, beaten_at = clock_timestamp(), host = %(host)s, state = b.state, text = b.text,
    settings = CASE WHEN b.settings = '' THEN j.settings ELSE b.settings END
FROM json_to_recordset(%(jobs)s::json) AS b (job text, state text, text text, settings text)
WHERE j.job = b.job AND j.owner = %(owner)s

-- name: add
-- A job that no host has shared yet.
INSERT INTO {schema}.slotkeeper_jobs (job, desired, settings, owner, host, beaten_at, state)
VALUES (%(job)s, %(desired)s, %(settings)s, %(owner)s, %(host)s, clock_timestamp(), %(state)s)
ON CONFLICT (job) DO NOTHING

-- name: claim
-- Makes this host the owner, unless the row has changed since it was read: by a heartbeat, a request or another claim.
UPDATE {schema}.slotkeeper_jobs
SET owner = %(owner)s, host = %(host)s, term = term + 1, beats = beats + 1, beaten_at = clock_timestamp(),
    settings = %(settings)s, state = %(state)s, text = ''
WHERE job = %(job)s AND term = %(term)s AND beats = %(beats)s AND version = %(version)s

-- name: hand_over
-- Releases the job, so that another host can claim it at once.
UPDATE {schema}.slotkeeper_jobs
SET owner = '', host = '', term = term + 1, beats = beats + 1, beaten_at = clock_timestamp(), text = %(text)s
WHERE job = %(job)s AND owner = %(owner)s AND term = %(term)s

-- name: ask
-- A request: the desired state, unless another request came first. Its owner's own request is answered at once.
UPDATE {schema}.slotkeeper_jobs
SET desired = %(desired)s, version = version + 1, asked_by = %(asked_by)s, asked_why = %(asked_why)s,
    answered = CASE WHEN owner = %(owner)s THEN version + 1 ELSE answered END,
    answer = CASE WHEN owner = %(owner)s THEN '' ELSE answer END
WHERE job = %(job)s AND version = %(version)s

-- name: answer
-- The owner's answer to a request.
UPDATE {schema}.slotkeeper_jobs SET answered = %(version)s, answer = %(answer)s
WHERE job = %(job)s AND owner = %(owner)s AND answered < %(version)s

-- name: owned
-- The owner of a job, locked until the end of the transaction that raises the epoch: no host can claim it meanwhile.
SELECT owner, host FROM {schema}.slotkeeper_jobs WHERE job = %(job)s FOR SHARE

-- name: order
-- A command for the owner of a job.
INSERT INTO {schema}.slotkeeper_orders (id, job, verb, options, plan, asked_by, asked_why, asked_at)
VALUES (%(id)s, %(job)s, %(verb)s, %(options)s::json, %(plan)s, %(asked_by)s, %(asked_why)s, clock_timestamp())

-- name: orders
-- What this host has to carry out: the orders that it took, and those of the last 35 s for the jobs that it owns.
SELECT id, job, verb, options, plan, asked_by, asked_why, taken_by, code, said FROM {schema}.slotkeeper_orders AS o
WHERE code IS NULL AND (taken_by = %(owner)s OR (taken_by = '' AND asked_at > clock_timestamp() - interval '35 seconds'
    AND EXISTS (SELECT 1 FROM {schema}.slotkeeper_jobs AS j WHERE j.job = o.job AND j.owner = %(owner)s)))
ORDER BY asked_at

-- name: ordered
-- One order, for the host that waits for its answer.
SELECT id, job, verb, options, '', asked_by, asked_why, taken_by, code, said FROM {schema}.slotkeeper_orders
WHERE id = %(id)s

-- name: take
-- Only the first of several takes an order, and none after its host has withdrawn it.
UPDATE {schema}.slotkeeper_orders SET taken_by = %(owner)s WHERE id = %(id)s AND taken_by = ''

-- name: withdraw
-- Ends an order that no host has taken.
DELETE FROM {schema}.slotkeeper_orders WHERE id = %(id)s AND taken_by = ''

-- name: close
-- The answer: the command's exit code and output.
UPDATE {schema}.slotkeeper_orders SET code = %(code)s, said = %(said)s WHERE id = %(id)s AND code IS NULL

-- name: forget_orders
-- Orders are answered within minutes; the audits of both hosts keep them.
DELETE FROM {schema}.slotkeeper_orders WHERE asked_at < now() - interval '30 days'
