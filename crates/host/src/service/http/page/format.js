// Figures for people, as the terminal has them: binary sizes, times in us, ms or s, three significant digits.

const digits = (value) => {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const decimals = Math.min(8, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
  const text = value.toFixed(decimals);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
};

const inUnit = (value, units, limit) => {
  for (const [name, size] of units) {
    const text = digits(value / size);
    if (Number(text) < limit || name === units.at(-1)[0]) return `${text} ${name}`;
  }
  return "–";
};

export const seconds = (value) =>
  value === null || value === undefined ? "–" : value === 0 ? "0 s" : inUnit(value, [["us", 1e-6], ["ms", 1e-3], ["s", 1]], 1000);

export const bytes = (value) =>
  inUnit(value, [["B", 1], ["KiB", 1024], ["MiB", 1024 ** 2], ["GiB", 1024 ** 3], ["TiB", 1024 ** 4]], 1024);

export const rate = (value) => (value < 10 ? digits(Math.round(value * 100) / 100) : Math.round(value).toLocaleString("en"));

export const percent = (share) => `${digits(Math.round(share * 1000) / 10)} %`;

export const ago = (value) => {
  if (value === null || value === undefined) return "–";
  const whole = Math.round(value);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
};

export const number = digits;
