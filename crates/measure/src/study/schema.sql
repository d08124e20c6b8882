-- One file holds one study. Times are seconds, sizes bytes, rates operations per second.
CREATE TABLE study (id INTEGER PRIMARY KEY, name TEXT NOT NULL, seed INTEGER NOT NULL, plan TEXT NOT NULL,
                    interval_s REAL NOT NULL, created_at TEXT NOT NULL, evenkeel_version TEXT NOT NULL);
CREATE TABLE machine (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kernel TEXT NOT NULL, cpus INTEGER NOT NULL,
                      memory_bytes INTEGER NOT NULL);
CREATE TABLE configuration (id INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE);
CREATE TABLE setting (configuration_id INTEGER NOT NULL REFERENCES configuration, factor TEXT NOT NULL, value TEXT NOT NULL,
                      PRIMARY KEY (configuration_id, factor));
CREATE TABLE run (id INTEGER PRIMARY KEY, configuration_id INTEGER NOT NULL REFERENCES configuration,
                  workload TEXT NOT NULL, repeat INTEGER NOT NULL, place INTEGER NOT NULL UNIQUE, -- order of execution
                  state TEXT NOT NULL CHECK (state IN ('planned','running','done','skipped','failed')),
                  machine_id INTEGER REFERENCES machine, started_at TEXT, duration_s REAL, operations INTEGER,
                  operations_per_s REAL, message TEXT,
                  UNIQUE (configuration_id, workload, repeat));
CREATE TABLE condition (run_id INTEGER NOT NULL REFERENCES run, name TEXT NOT NULL, value REAL NOT NULL,
                        PRIMARY KEY (run_id, name)); -- load_1m, steal_share, frequency_hz, free_memory_bytes, temperature_c ...
CREATE TABLE throughput (run_id INTEGER NOT NULL REFERENCES run, window INTEGER NOT NULL, start_s REAL NOT NULL,
                         length_s REAL NOT NULL, operations INTEGER NOT NULL, PRIMARY KEY (run_id, window)) WITHOUT ROWID;
CREATE TABLE latency (run_id INTEGER NOT NULL REFERENCES run, operation TEXT NOT NULL, operations INTEGER NOT NULL,
                      mean_s REAL NOT NULL, p50_s REAL NOT NULL, p99_s REAL NOT NULL, p999_s REAL NOT NULL, max_s REAL NOT NULL,
                      histogram BLOB NOT NULL, -- HdrHistogram V2, nanoseconds
                      PRIMARY KEY (run_id, operation)) WITHOUT ROWID;
CREATE TABLE layout (run_id INTEGER NOT NULL REFERENCES run, extent INTEGER NOT NULL, physical_bytes INTEGER NOT NULL,
                     length_bytes INTEGER NOT NULL, PRIMARY KEY (run_id, extent)) WITHOUT ROWID; -- FIEMAP of the data set
