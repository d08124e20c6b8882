// The page: asks once a second, and shows what came. All text is set as text, whatever names of files and devices are.

import { bands, heat, line, strips } from "./charts.js";
import { ago, bytes, number, percent, rate, seconds } from "./format.js";
import { colourOf, drawRing, inWords, rebuilds } from "./ring.js";

const ASK_EVERY_MS = 1000;
const ANSWER_MAX_MS = 5000;

const KINDS = [
  { key: "reads", name: "Reads" },
  { key: "writes", name: "Writes" },
  { key: "syncs", name: "Fsyncs" },
];

const by = (id) => document.getElementById(id);

const made = (tag, { text, className, ...more } = {}, ...children) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className !== undefined) element.className = className;
  for (const [key, value] of Object.entries(more)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};

/** Sets a text where it has changed: a selection stays, and a reader is not told twice. */
const say = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

let samples = [];
let serving = null;
let chosen = KINDS[0];
let lastStatus = null;
let answeredAt = null;

// What is there from the beginning: nothing moves when figures come.

const tiles = KINDS.map(({ key, name }) => {
  const parts = { rate: made("p", { className: "rate", text: "–" }), chart: made("canvas", { className: "chart small", role: "img" }) };
  const list = made("dl");
  for (const [term, field] of [["bytes/s", "bytes"], ["half below", "p50_s"], ["99 % below", "p99_s"], ["99.9 % below", "p999_s"], ["errors/s", "errors"]]) {
    parts[field] = made("dd", { text: "–" });
    list.append(made("dt", { text: term }), parts[field]);
  }
  by("tiles").append(made("div", { className: "tile" }, made("div", { className: "name", text: name }), parts.rate, parts.chart, list));
  return { key, name, ...parts };
});

const buttons = KINDS.map((kind) => {
  const button = made("button", { type: "button", text: kind.name });
  button.addEventListener("click", () => {
    chosen = kind;
    draw();
  });
  by("kinds").append(button);
  return button;
});

const meter = (name) => {
  const text = made("span", { className: "quiet" });
  const fill = made("i");
  const bar = made("div", { className: "bar", role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 100 }, fill);
  const element = made("div", { className: "meter" }, made("div", { className: "row" }, made("span", { text: name }), text), bar);
  const set = (share, words) => {
    const whole = Math.round(Math.min(1, share) * 1000) / 10;
    say(text, words);
    fill.style.width = `${whole}%`;
    bar.setAttribute("aria-valuenow", whole);
    bar.setAttribute("aria-valuetext", words);
  };
  return { element, set };
};

const meters = {};
for (const [key, name] of [["buffer", "Buffer: writes that are not durable"], ["log", "Log"], ["dirty", "Pages that are not home"]]) {
  meters[key] = meter(name);
  by("meters").append(meters[key].element);
}

for (const [key, name] of [["files", "Room in use"], ["inodes", "Inodes in use"], ["unsynced", "Data that no program has synced, of the room"]]) {
  meters[key] = meter(name);
  by("files").append(meters[key].element);
}

meters.conversion = meter("How far it is");
by("conversion").append(meters.conversion.element);

by("legend").append(
  ...[["reading", "only reads"], ["writing", "writes"], ["rebuilding", "is rebuilt"], ["out", "takes no part"]].flatMap(([key, text]) => [
    made("span", {}, made("i", { className: `key ${key}` }), text),
    " ",
  ]),
);

// Showing.

const rows = (table, lines) => {
  const body = table.tBodies[0];
  lines.forEach((cells, at) => {
    const row = body.rows[at] ?? body.insertRow();
    cells.forEach((text, column) => say(row.cells[column] ?? row.insertCell(), text));
  });
  while (body.rows.length > lines.length) body.deleteRow(-1);
};

const of = (key) => (sample) => sample.recent?.[key] ?? null;

const describe = (canvas, text) => {
  if (canvas.getAttribute("aria-label") !== text) canvas.setAttribute("aria-label", text);
};

const drawRates = () => {
  const recent = samples.at(-1)?.recent;
  for (const tile of tiles) {
    const now = recent?.[tile.key];
    const rates = { value: (sample) => of(tile.key)(sample)?.per_s ?? null, colour: tile.key, text: rate, bare: true };
    line(tile.chart, samples, rates);
    describe(tile.chart, `${tile.name} a second over the last minutes; ${now ? `now ${rate(now.per_s)}` : "nothing yet"}`);
    if (!now) continue;
    say(tile.rate, rate(now.per_s));
    say(tile.bytes, bytes(now.bytes_per_s));
    say(tile.errors, rate(now.errors_per_s));
    for (const field of ["p50_s", "p99_s", "p999_s"]) say(tile[field], seconds(now[field]));
  }
};

const drawLatency = () => {
  buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(KINDS[at] === chosen)));
  bands(by("bands"), samples, of(chosen.key), chosen.key);
  heat(by("heat"), samples, of(chosen.key));
  const now = samples.at(-1)?.recent?.[chosen.key];
  const words = now ? `now half below ${seconds(now.p50_s)}, 99 % below ${seconds(now.p99_s)}` : "nothing yet";
  describe(by("bands"), `Latency bands of ${chosen.name} over time; ${words}`);
  describe(by("heat"), `Heat map of the latency of ${chosen.name} over time; ${words}`);
};

const drawCommits = () => {
  const recent = samples.at(-1)?.recent;
  line(by("batches"), samples, { value: (sample) => sample.recent?.writes_per_commit ?? null, colour: "writes", text: number });
  line(by("log"), samples, { value: (sample) => sample.log_share, colour: "reads", top: 1, text: percent });
  if (recent) {
    say(by("batch"), recent.writes_per_commit === null ? "–" : number(recent.writes_per_commit));
    say(
      by("commits"),
      `${rate(recent.commits_per_s)} commits and ${rate(recent.checkpoints_per_s)} checkpoints a second; ` +
        `${bytes(recent.log_bytes_per_s)}/s to the log, ${bytes(recent.home_bytes_per_s)}/s home`,
    );
  }
  const share = samples.at(-1)?.log_share;
  describe(by("batches"), `Writes in a commit over time; ${recent ? `now ${by("batch").textContent}` : "nothing yet"}`);
  describe(by("log"), `Share of the log in use over time; ${share === undefined ? "nothing yet" : `now ${percent(share)}`}`);
};

const drawRoom = ({ occupancy }) => {
  const fill = (key, used, all) =>
    meters[key].set(used / Math.max(1, all), `${bytes(used)} of ${bytes(all)} (${percent(used / Math.max(1, all))})`);
  fill("buffer", occupancy.buffer_used_bytes, occupancy.buffer_bytes);
  fill("log", occupancy.log_used_bytes, occupancy.log_max_bytes);
  fill("dirty", occupancy.dirty_bytes, occupancy.dirty_max_bytes);
};

const drawMirror = ({ mirror }) => {
  by("ring-card").hidden = !mirror;
  if (!mirror) return;
  drawRing(by("ring"), mirror);
  const canvas = by("turns");
  canvas.style.height = `${Math.max(60, 22 * mirror.members.length + 16)}px`;
  strips(canvas, samples, mirror.members.length, colourOf);
  describe(canvas, "What each member did, second by second, as the ring and the table say of now");
  const last = samples.at(-1)?.members ?? [];
  const devices = mirror.members.map((member, place) => {
    const now = last[place];
    return [
      `${place}: ${member.path}`,
      inWords(member),
      now ? `${bytes(now.read_bytes_per_s)}/s` : "–",
      now ? `${bytes(now.written_bytes_per_s)}/s` : "–",
      bytes(member.queued_bytes),
      `${member.turns.toLocaleString("en")}`,
    ];
  });
  const logs = mirror.logs.map((log) => [`log: ${log.path}`, log.standing === "in-sync" ? "takes part" : `${log.standing}: ${log.failure ?? ""}`, "", "", "", ""]);
  rows(by("members"), [...devices, ...logs]);
  const under = rebuilds(mirror);
  const shown = by("rebuilds");
  shown.replaceChildren(
    ...under.map(({ name, share, text }) => {
      const { element, set } = meter(name);
      set(share, `${text} (${percent(share)})`);
      return element;
    }),
  );
  const { scrub } = mirror;
  const state = scrub.done_bytes !== null ? `under way, ${bytes(scrub.done_bytes)} so far` : scrub.ended_ago_s !== null ? `ended ${ago(scrub.ended_ago_s)} ago` : "not begun yet";
  say(by("scrub"), `Policy ${mirror.policy}. Scrub: ${state}; ${scrub.mended_copies} copies repaired, ${scrub.damaged_pages} pages damaged in every copy.`);
};

const drawFiles = ({ file_system: files }) => {
  by("files-card").hidden = !files;
  if (!files) return;
  const used = files.size_bytes - files.free_bytes;
  const inodes = files.inodes - files.free_inodes;
  const count = (many) => many.toLocaleString("en");
  meters.files.set(used / Math.max(1, files.size_bytes), `${bytes(used)} of ${bytes(files.size_bytes)}`);
  meters.inodes.set(inodes / Math.max(1, files.inodes), `${count(inodes)} of ${count(files.inodes)}`);
  meters.unsynced.set(files.dirty_bytes / Math.max(1, files.size_bytes), bytes(files.dirty_bytes));
  rows(
    by("waiters"),
    files.waiters.map((it) => [it.program ?? "gone by now", `${it.thread}`, count(it.fsyncs), seconds(it.waited_s)]),
  );
};

const drawConversion = ({ conversion }) => {
  by("conversion-card").hidden = !conversion;
  if (!conversion) return;
  const { doing, done_bytes: done, all_bytes: all } = conversion;
  const share = done / Math.max(1, all);
  // A stage of one step has nothing to measure.
  const far = all > 1 ? `: ${bytes(done)} of ${bytes(all)} (${percent(share)})` : "";
  meters.conversion.set(share, `${doing}${far}`);
};

const drawStatus = (status) => {
  const { volume, server, state } = status;
  document.title = `${state.name}: ${volume.path}`;
  say(by("path"), volume.path);
  const pill = by("state");
  say(pill, state.name);
  pill.className = `pill ${state.name}`;
  const clients = server.connections === 1 ? "1 connection" : `${server.connections} connections`;
  say(
    by("about"),
    `${bytes(volume.size_bytes)}, layout ${volume.layout}, served for ${ago(server.uptime_s)} through ${server.backend}, ${clients}` +
      `${server.read_only ? ", read-only" : ""}`,
  );
  const reasons = state.reasons.map(
    (reason) => `${reason.state}: ${reason.subject} ${reason.what} ${ago(reason.ago_s)} ago${reason.why === null ? "" : `: ${reason.why}`}`,
  );
  if (status.failure !== null) reasons.unshift(`failed: ${status.failure}`);
  if (reasons.length === 0) reasons.push("nothing");
  by("reasons").replaceChildren(...reasons.map((text) => made("li", { text })));
  const newest = [...status.events].sort((one, other) => (one.last_ago_s ?? Infinity) - (other.last_ago_s ?? Infinity));
  rows(by("events"), newest.map((event) => [event.event, event.count.toLocaleString("en"), event.last_ago_s === null ? "–" : `${ago(event.last_ago_s)} ago`, event.last ?? ""]));
  drawRoom(status);
};

const draw = () => {
  drawRates();
  drawLatency();
  drawCommits();
  if (lastStatus) {
    drawStatus(lastStatus);
    drawConversion(lastStatus);
    drawMirror(lastStatus);
    drawFiles(lastStatus);
  }
};

// Asking.

const asked = async (path) => {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MAX_MS) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
};

const ask = async () => {
  const last = samples.at(-1)?.number;
  const [status, history] = await Promise.all([asked("/status.json"), asked(last === undefined ? "/history.json" : `/history.json?after=${last}`)]);
  const asking = `${history.pid} ${history.began_unix_ms}`;
  if (asking !== serving) {
    // Another serving: its numbers begin anew, so what came may lack its first samples.
    const isFirst = serving === null;
    [serving, samples] = [asking, []];
    if (!isFirst) return ask();
  }
  samples = [...samples, ...history.samples].slice(-history.samples_max);
  lastStatus = status;
  answeredAt = performance.now();
};

const turn = async () => {
  let words;
  try {
    await ask();
    words = "updated every second";
    draw();
  } catch {
    const since = answeredAt === null ? "" : ` for ${ago((performance.now() - answeredAt) / 1000)}: what is shown is old`;
    words = `the server does not answer${since}`;
  }
  document.body.classList.toggle("stale", !words.startsWith("updated"));
  say(by("link"), words);
  setTimeout(turn, ASK_EVERY_MS);
};

window.addEventListener("resize", draw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
turn();
