// Charts over time on canvases: the newest second is at the right edge, one column for each.

import { seconds } from "./format.js";

const LEFT = 52;
const BOTTOM = 16;
const COLUMN = 2;

/** A canvas made as large as it is shown, emptied; and its colours. */
const begin = (canvas) => {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const style = getComputedStyle(document.documentElement);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif";
  return { pen, width, height, colour: (name) => style.getPropertyValue(`--${name}`).trim() };
};

/** How many seconds find room in a chart. */
export const columnsOf = (canvas, left = LEFT) => Math.max(1, Math.floor((canvas.clientWidth - left) / COLUMN));

const recentOnes = (canvas, samples, left) => samples.slice(-columnsOf(canvas, left));

/** Where the column of a sample begins. */
const at = (width, count, index) => width - (count - index) * COLUMN;

const timeAxis = ({ pen, width, height, colour }, left, columns) => {
  pen.fillStyle = colour("quiet");
  pen.textBaseline = "bottom";
  pen.textAlign = "right";
  pen.fillText("now", width, height);
  pen.textAlign = "left";
  pen.fillText(`${Math.floor(columns / 60)} min ${columns % 60} s ago`, left, height);
};

const mark = ({ pen, width, colour }, y, text) => {
  pen.strokeStyle = colour("line");
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(LEFT, Math.round(y) + 0.5);
  pen.lineTo(width, Math.round(y) + 0.5);
  pen.stroke();
  pen.fillStyle = colour("quiet");
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  pen.fillText(text, LEFT - 6, y);
};

/** The next number of 1, 2, 5, 10, ... */
const roundUp = (value) => {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
};

/** One line of `value(sample)`; where that is null there is a gap. */
export const line = (canvas, samples, { value, colour: name, top, text, bare = false }) => {
  const left = bare ? 0 : LEFT;
  const chart = begin(canvas);
  const { pen, width, height, colour } = chart;
  const shown = recentOnes(canvas, samples, left);
  const values = shown.map(value);
  const most = top ?? roundUp(Math.max(0, ...values.filter((it) => it !== null)));
  const [low, high] = [height - (bare ? 2 : BOTTOM), bare ? 3 : 8];
  if (!bare) {
    for (const share of [0, 0.5, 1]) mark(chart, low - share * (low - high), text(most * share));
    timeAxis(chart, left, columnsOf(canvas));
  }
  const y = (it) => low - (Math.min(it, most) / most) * (low - high);
  pen.strokeStyle = colour(name);
  pen.lineWidth = 1.5;
  pen.lineJoin = "round";
  pen.beginPath();
  values.forEach((it, index) => {
    if (it === null) return;
    const x = at(width, shown.length, index) + COLUMN / 2;
    if (index > 0 && values[index - 1] !== null) pen.lineTo(x, y(it));
    else pen.moveTo(x, y(it));
  });
  pen.stroke();
  // One between two gaps has no line.
  pen.fillStyle = colour(name);
  values.forEach((it, index) => {
    const isAlone = it !== null && (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null;
    if (isAlone) pen.fillRect(at(width, shown.length, index), y(it) - 1, COLUMN, 2);
  });
};

/** The buckets of a histogram that anything is in, with room around them. */
const bucketsOf = (shown, of) => {
  let [first, last] = [Infinity, -Infinity];
  for (const sample of shown) {
    (of(sample)?.latency_counts ?? []).forEach((count, bucket) => {
      if (count > 0) [first, last] = [Math.min(first, bucket), Math.max(last, bucket)];
    });
  }
  if (last < first) [first, last] = [12, 19];
  const lack = Math.max(0, 7 - (last - first));
  return [Math.max(0, first - Math.floor(lack / 2)), last + Math.ceil(lack / 2)];
};

const latencyAxis = (chart, [first, last], low, high) => {
  const rows = last - first + 1;
  const step = Math.max(1, Math.ceil(rows / ((low - high) / 18)));
  const y = (bucket) => low - ((bucket - first) / rows) * (low - high);
  for (let bucket = first; bucket <= last + 1; bucket += step) mark(chart, y(bucket), seconds(2 ** bucket / 1e9));
  return y;
};

/** A chart of latency over time, with its axes; `low` and `high` are the ends of that of latency. */
const beginLatencies = (canvas, samples, of) => {
  const chart = begin(canvas);
  const shown = recentOnes(canvas, samples);
  const [low, high] = [chart.height - BOTTOM, 8];
  const y = latencyAxis(chart, bucketsOf(shown, of), low, high);
  timeAxis(chart, LEFT, columnsOf(canvas));
  return { ...chart, shown, low, high, y };
};

/** Bounds below which half, 99 % and 99.9 % stayed, as bands that become fainter. */
export const bands = (canvas, samples, of, name) => {
  const { pen, width, colour, shown, low, high, y } = beginLatencies(canvas, samples, of);
  pen.fillStyle = colour(name);
  shown.forEach((sample, index) => {
    const activity = of(sample);
    if (!activity) return;
    let from = low;
    for (const [bound, alpha] of [[activity.p50_s, 0.85], [activity.p99_s, 0.45], [activity.p999_s, 0.22]]) {
      if (bound === null) continue;
      const to = Math.max(high, y(Math.log2(bound * 1e9)));
      pen.globalAlpha = alpha;
      pen.fillRect(at(width, shown.length, index), to, COLUMN, from - to);
      from = Math.min(from, to);
    }
  });
  pen.globalAlpha = 1;
};

/** A column each second, a row each power of two: the stronger, the more requests took so long. */
export const heat = (canvas, samples, of) => {
  const { pen, width, colour, shown, y } = beginLatencies(canvas, samples, of);
  const counts = shown.map((sample) => of(sample)?.latency_counts ?? []);
  const most = Math.log1p(Math.max(1, ...counts.map((of) => Math.max(0, ...of))));
  counts.forEach((row, index) => {
    row.forEach((count, bucket) => {
      if (count === 0) return;
      pen.fillStyle = `rgb(${colour("heat")} / ${0.18 + (0.82 * Math.log1p(count)) / most})`;
      const [above, below] = [Math.round(y(bucket + 1)), Math.round(y(bucket))];
      pen.fillRect(at(width, shown.length, index), above, COLUMN, below - above);
    });
  });
};

/** A row for each member: what it did each second. */
export const strips = (canvas, samples, members, colourOf) => {
  const chart = begin(canvas);
  const { pen, width, height, colour } = chart;
  const shown = recentOnes(canvas, samples);
  const low = height - BOTTOM;
  const row = low / Math.max(1, members);
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (let place = 0; place < members; place++) {
    pen.fillStyle = colour("quiet");
    pen.fillText(`${place}`, LEFT - 6, (place + 0.5) * row);
    shown.forEach((sample, index) => {
      const member = sample.members[place];
      if (!member) return;
      pen.fillStyle = colour(colourOf(member));
      pen.fillRect(at(width, shown.length, index), place * row + 1, COLUMN, Math.max(1, row - 2));
    });
  }
  timeAxis(chart, LEFT, columnsOf(canvas));
};
