-- What a study of several machines has beside schema.sql, in PostgreSQL alone.

-- Until when a machine is to be taken for alive, by the server's clock; it says so again and again. Each process that
-- takes part under its name gets a number of its own.
ALTER TABLE machine ADD alive_until TIMESTAMPTZ;
ALTER TABLE machine ADD session BIGINT NOT NULL DEFAULT 0;
-- Which machine has a block: the runs of one repeat, of every configuration with every workload. A machine takes whole
-- blocks; the rest of one that died goes to another.
CREATE TABLE block (repeat BIGINT PRIMARY KEY, machine_id BIGINT REFERENCES machine);
-- The order in which settings were written, which SQLite knows without.
ALTER TABLE setting ADD rowid BIGINT GENERATED ALWAYS AS IDENTITY;
CREATE INDEX run_of_block ON run (repeat, state);
