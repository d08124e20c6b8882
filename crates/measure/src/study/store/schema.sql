-- One file, or one schema of a PostgreSQL database, holds one study. Times are seconds, sizes bytes, rates operations per
-- second.
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
CREATE TABLE throughput (run_id INTEGER NOT NULL REFERENCES run, "window" INTEGER NOT NULL, start_s REAL NOT NULL,
                         length_s REAL NOT NULL, operations INTEGER NOT NULL, PRIMARY KEY (run_id, "window")) WITHOUT ROWID;
CREATE TABLE latency (run_id INTEGER NOT NULL REFERENCES run, operation TEXT NOT NULL, operations INTEGER NOT NULL,
                      mean_s REAL NOT NULL, p50_s REAL NOT NULL, p99_s REAL NOT NULL, p999_s REAL NOT NULL, max_s REAL NOT NULL,
                      histogram BLOB NOT NULL, -- HdrHistogram V2, nanoseconds
                      PRIMARY KEY (run_id, operation)) WITHOUT ROWID;
CREATE TABLE layout (run_id INTEGER NOT NULL REFERENCES run, extent INTEGER NOT NULL, physical_bytes INTEGER NOT NULL,
                     length_bytes INTEGER NOT NULL, PRIMARY KEY (run_id, extent)) WITHOUT ROWID; -- FIEMAP of the data set

-- A view for each figure of Cao et al., "On the Performance Variation in Modern Storage Stacks" (FAST '17), of runs that
-- are done, those of each machine by themselves. `evenkeel study report` works these out from the tables, with intervals.
CREATE VIEW done AS
    SELECT run.id AS run_id, coalesce(setting.value, 'all') AS file_system, run.configuration_id,
           configuration.label AS configuration, machine.name AS machine, run.workload, run.repeat, run.operations_per_s
    FROM run JOIN configuration ON configuration.id = run.configuration_id
             LEFT JOIN machine ON machine.id = run.machine_id
             LEFT JOIN setting ON setting.configuration_id = run.configuration_id AND setting.factor = 'file_system'
    WHERE run.state = 'done' AND run.operations_per_s IS NOT NULL;
-- Range of cumulative throughput against its mean. The RSD is the root of rsd_squared.
CREATE VIEW figure_1 AS
    SELECT workload, file_system, configuration, machine, count(*) AS runs, avg(operations_per_s) AS mean_operations_per_s,
           (max(operations_per_s) - min(operations_per_s)) / avg(operations_per_s) AS relative_range,
           (avg(operations_per_s * operations_per_s) - avg(operations_per_s) * avg(operations_per_s))
               * count(*) / (count(*) - 1) / avg(operations_per_s) / avg(operations_per_s) AS rsd_squared
    FROM done GROUP BY workload, file_system, configuration, machine HAVING count(*) > 1;
-- The same configurations under each workload, the one that varies most first.
CREATE VIEW figure_2 AS
    SELECT figure_1.*, max(relative_range) OVER (PARTITION BY configuration, machine) AS widest FROM figure_1
    ORDER BY file_system, widest DESC, configuration, machine, workload;
-- Runs with each set of remedies.
CREATE VIEW figure_3 AS
    SELECT done.*, setting.value AS remedies
    FROM done JOIN setting ON setting.configuration_id = done.configuration_id AND setting.factor = 'remedies';
-- Where the data set of each run lay, beside its throughput.
CREATE VIEW figure_4 AS
    SELECT done.*, layout.physical_bytes, layout.length_bytes FROM done JOIN layout ON layout.run_id = done.run_id;
-- Throughput over time, as a band over the repeats.
CREATE VIEW figure_5 AS
    SELECT workload, file_system, configuration, machine, "window", min(start_s) AS start_s, count(*) AS runs,
           min(throughput.operations / length_s) AS least_operations_per_s,
           avg(throughput.operations / length_s) AS mean_operations_per_s,
           max(throughput.operations / length_s) AS most_operations_per_s
    FROM done JOIN throughput ON throughput.run_id = done.run_id
    GROUP BY workload, file_system, configuration, machine, "window";
-- Its range in each window of the shortest length; for longer ones sum windows of each run first.
CREATE VIEW figure_6 AS
    SELECT workload, file_system, configuration, machine, "window", start_s,
           (most_operations_per_s - least_operations_per_s) / mean_operations_per_s AS relative_range
    FROM figure_5 WHERE mean_operations_per_s > 0 AND runs > 1;
-- Throughput over that of the fastest window of the run.
CREATE VIEW figure_7 AS
    SELECT done.*, throughput."window", start_s, throughput.operations / length_s AS window_operations_per_s,
           throughput.operations / length_s
               / max(throughput.operations / length_s) OVER (PARTITION BY throughput.run_id) AS of_fastest
    FROM done JOIN throughput ON throughput.run_id = done.run_id;
-- Latency of each operation; the whole distribution is in the histogram.
CREATE VIEW figure_8 AS
    SELECT done.*, operation, latency.operations, mean_s, p50_s, p99_s, p999_s, max_s, histogram
    FROM done JOIN latency ON latency.run_id = done.run_id;
-- Ranges of throughput and of the median latency over the repeats. The figure takes the Kolmogorov-Smirnov distance of
-- the histograms instead, which SQL does not have.
CREATE VIEW figure_9 AS
    SELECT workload, file_system, configuration, machine, operation, count(*) AS runs,
           (max(operations_per_s) - min(operations_per_s)) / avg(operations_per_s) AS relative_range,
           (max(p50_s) - min(p50_s)) / avg(p50_s) AS p50_relative_range
    FROM figure_8 GROUP BY workload, file_system, configuration, machine, operation HAVING count(*) > 1;
